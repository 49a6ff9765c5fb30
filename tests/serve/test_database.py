"""The daemon and the worker on a database server that goes away and comes back."""

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import UNJUDGED, hansard, started
from daemons import BARE, ONE, Served, place, serving, wait_for
from hansard.app.serving.worker import GRACE_S
from postgres import Server


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server of these tests' own: they end it."""
    with Server() as server:
        yield server


def placed(folder: Path, server: Server, database: str | None = None, more: str = "") -> Path:
    settings = place(folder) / "hansard.toml"
    ledger = f'ledger = "{server.url(database or server.database(), more=more)}"'
    settings.write_text(settings.read_text().replace('ledger = "l.db"', ledger))
    return folder


def told(daemon: Served, event: str) -> bool:
    return any(line["event"] == event for line in daemon.logged())


@pytest.mark.long
def test_a_daemon_lives_through_a_restart_of_its_database_and_goes_on_with_its_runs(
    tmp_path: Path, mortal: Server
) -> None:
    with serving(placed(tmp_path, mortal)) as daemon:
        assert daemon.submit(provider="quick", wait=30)["state"] == "answered"
        run = daemon.submit(provider="slow")["run"]
        mortal.kill()
        wait_for(lambda: told(daemon, "the ledger cannot be read"))
        wait_for(lambda: told(daemon, "run left alone"))
        # Until then whoever submitted is given time to drive it himself; only then the daemon looks.
        time.sleep(1.5 * GRACE_S)
        assert daemon.get("/v1/runs").status_code == 503
        mortal.start()
        assert daemon.until(run, "answered", "failed", "partial")["state"] == "answered"
        assert daemon.submit(provider="quick", wait=30)["state"] == "answered"
    assert "Traceback" not in daemon.log.read_text()
    verified = daemon.cli("verify", "--deep")
    assert verified.returncode == 0, verified.stdout


@pytest.mark.long
def test_who_waits_for_a_run_over_a_restart_of_the_database_is_told_of_it(tmp_path: Path, mortal: Server) -> None:
    tasks = [{"id": f"t{at}", "lane": "backend", "instruction": "do it"} for at in range(8)]
    for at in range(1, 8):
        tasks[at]["needs"] = [f"t{at - 1}"]  # type: ignore[assignment]
    body = {"request": "please", **BARE, "provider": "slow", "plan": {"tasks": tasks}}
    with serving(placed(tmp_path, mortal)) as daemon, ThreadPoolExecutor(2) as beside:
        short, long = (beside.submit(daemon.post, f"/v1/runs?wait={wait}", body, timeout=None) for wait in (3, 300))
        wait_for(lambda: len(daemon.get("/v1/runs").json()) == 2)
        mortal.kill()
        told = short.result()
        mortal.start()
        assert told.status_code == 503
        assert "is on the record" in told.json()["detail"]
        assert told.headers["location"] == f"/v1/runs/{told.json()['run']}"
        assert daemon.until(told.json()["run"], "answered", "failed", "partial")["state"] == "answered"
        assert (long.result().status_code, long.result().json()["state"]) == (200, "answered")


@pytest.mark.long
def test_runs_go_on_when_the_database_takes_something_again(tmp_path: Path, mortal: Server) -> None:
    """As with a full disk: what is there can be read, and nothing can be written."""
    database = mortal.database()
    with serving(placed(tmp_path, mortal, database)) as daemon:
        run = daemon.submit(provider="slow")["run"]
        for table in ("entries", "claims"):
            mortal.execute(f"ALTER TABLE hansard.{table} ADD CONSTRAINT full_disk CHECK (false) NOT VALID", database)
        wait_for(lambda: told(daemon, "run left alone"))
        wait_for(lambda: told(daemon, "the lease was not renewed"))
        assert daemon.show(run)["state"] in ("requested", "planned", "running")
        for table in ("entries", "claims"):
            mortal.execute(f"ALTER TABLE hansard.{table} DROP CONSTRAINT full_disk", database)
        assert daemon.until(run, "answered", "failed", "partial")["state"] == "answered"
    assert not told(daemon, "the ledger cannot be read")


@pytest.mark.long
def test_a_ledger_that_came_about_after_it_was_given_up_has_its_keys(tmp_path: Path, mortal: Server) -> None:
    placed(tmp_path, mortal, more="&patience=2")
    mortal.execute("ALTER SYSTEM SET synchronous_standby_names = 'gone'")
    mortal.execute("SELECT pg_reload_conf()")
    try:
        made = hansard(tmp_path, "init")
    finally:
        mortal.execute("ALTER SYSTEM RESET synchronous_standby_names")
        mortal.execute("SELECT pg_reload_conf()")
    assert (made.returncode, "may or may not be there" in made.stderr) == (11, True), made.stderr
    assert hansard(tmp_path, "submit", "please", "--provider", "rehearsal").returncode == 0


def test_a_daemon_whose_database_is_gone_ends_when_it_is_told_to(tmp_path: Path, mortal: Server) -> None:
    with serving(placed(tmp_path, mortal), "--grace", 3) as daemon:
        assert daemon.submit(provider="quick", wait=30)["state"] == "answered"
        assert "\nhansard_ledger_up 1\n" in daemon.get("/metrics").text
        mortal.stop()
        try:
            wait_for(lambda: told(daemon, "the ledger cannot be read"))
            counts = daemon.get("/metrics").text
            assert "\nhansard_ledger_up 0\n" in counts
            assert "hansard_ledger_entries" not in counts
            assert "\nhansard_runs_submitted_total 1\n" in counts
            assert daemon.stop() == 11
        finally:
            mortal.start()
        assert told(daemon, "stopped")
        assert "cannot reach" in daemon.log.read_text().splitlines()[-1]
        assert "Traceback" not in daemon.log.read_text()


def test_a_daemon_whose_database_hangs_ends_when_it_is_told_to(tmp_path: Path, mortal: Server) -> None:
    with serving(placed(tmp_path, mortal), "--grace", 1) as daemon:
        run = daemon.submit(provider="slow")["run"]
        with mortal.halted():
            assert daemon.stop() == 11
        assert "hansard: still not at an end" in daemon.log.read_text().splitlines()[-1]
        assert "Traceback" not in daemon.log.read_text()
    assert daemon.cli("verify", "--deep").returncode == 0
    with serving(tmp_path) as after:
        assert after.until(run, "answered", "failed", "partial")["state"] == "answered"


@pytest.mark.long
def test_callers_of_a_daemon_whose_database_hangs_are_told_so_and_served_when_it_speaks_again(
    tmp_path: Path, mortal: Server
) -> None:
    with serving(placed(tmp_path, mortal, more="&patience=3")) as daemon:
        run = daemon.submit(provider="slow")["run"]
        with mortal.halted():
            with ThreadPoolExecutor(3) as callers:
                answers = list(callers.map(daemon.get, ("/v1/runs", f"/v1/runs/{run}", "/v1/gates")))
            assert [answer.status_code for answer in answers] == [503, 503, 503]
            assert daemon.get("/health").status_code == 200
        assert daemon.until(run, "answered", "failed", "partial")["state"] == "answered"
        assert daemon.submit(provider="quick", wait=30)["state"] == "answered"
    assert "Traceback" not in daemon.log.read_text()
    assert daemon.cli("verify", "--deep").returncode == 0


@pytest.mark.long
def test_a_worker_whose_database_hangs_ends_when_it_is_told_to(tmp_path: Path, mortal: Server) -> None:
    placed(tmp_path, mortal)
    assert hansard(tmp_path, "init").returncode == 0
    worker = started(tmp_path, "worker")
    try:
        assert worker.stderr is not None
        assert "working on" in worker.stderr.readline()
        with mortal.halted():
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(90) == 11
        assert "hansard: still not at an end" in worker.stderr.read()
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.long
def test_a_worker_lives_through_a_restart_of_its_database_and_goes_on_with_its_runs(
    tmp_path: Path, mortal: Server
) -> None:
    placed(tmp_path, mortal)
    (tmp_path / "plan.json").write_text(json.dumps(ONE))
    assert hansard(tmp_path, "init").returncode == 0
    log = tmp_path / "worker.log"
    with log.open("w") as errors:
        worker = started(tmp_path, "worker", stderr=errors)
    try:
        wait_for(lambda: "working on" in log.read_text())
        words = ("--plan", "plan.json", *UNJUDGED, "--provider", "slow", "--detach")
        assert hansard(tmp_path, "submit", "please", *words).returncode == 0
        mortal.kill()
        wait_for(lambda: "waiting for the ledger" in log.read_text())
        mortal.start()
        wait_for(lambda: "answered" in hansard(tmp_path, "runs", "list").stdout)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, log.read_text()
    finally:
        worker.kill()
        worker.communicate()
