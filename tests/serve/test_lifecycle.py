import base64
import contextlib
import hashlib
import hmac
import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from command_line import hansard
from daemons import BARE, ONE, Served, events, place, serving, wait_for
from hansard.surfaces.cli.main import main

ENDED = ("answered", "partial", "failed", "stopped", "cancelled")


def entries(daemon: Served) -> list[dict[str, Any]]:
    return [json.loads(line) for line in daemon.cli("ledger", "show", "--limit", 0, "--json").stdout.splitlines()]


def test_sigterm_interrupts_what_does_not_end_and_the_next_start_goes_on(tmp_path: Path) -> None:
    folder = place(tmp_path)
    with serving(folder, "--provider", "quick", "--grace", 4) as daemon:
        token = daemon.token
        quick, stuck = daemon.submit(provider="slow")["run"], daemon.submit(provider="stuck")["run"]
        daemon.until(stuck, "running")
        with daemon.client().stream("GET", f"/v1/runs/{stuck}/events") as stream:
            daemon.process.send_signal(signal.SIGTERM)
            text = "".join(stream.iter_text())
        assert daemon.process.wait(30) == 0
        assert events(text)[-1]["kind"] == "run.interrupted"
    found = {view["run"]: view["kind"] for view in entries(daemon)}
    assert (found[quick], found[stuck]) == ("run.ended", "run.interrupted")
    assert daemon.cli("verify", "l.db", "--deep").returncode == 0
    (folder / "hansard.toml").write_text(
        (folder / "hansard.toml").read_text().replace("latency_s = 600", "latency_s = 0")
    )
    with serving(folder, "--provider", "quick", "--no-resume") as again:
        assert again.token == token
        time.sleep(1)
        assert again.show(stuck)["state"] == "interrupted"
        again.post(f"/v1/runs/{stuck}/cancel")
        assert again.until(stuck, "cancelled")


def test_an_idle_daemon_ends_soon_even_with_open_connections(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        daemon.get("/health")
        assert daemon.stop(timeout_s=30) == 0
        assert [line["event"] for line in daemon.logged()][-2:] == ["draining", "stopped"]


def test_kill_9_under_load_loses_nothing_and_runs_nothing_twice(tmp_path: Path) -> None:
    folder = place(tmp_path, pause_s=0.3)
    accepted: list[str] = []
    with serving(folder, "--provider", "echo") as daemon:

        def submit(number: int) -> None:
            with httpx2.Client(headers={"Authorization": f"Bearer {daemon.token}"}, verify=False, timeout=30) as client:
                try:
                    said = client.post(f"{daemon.address}/v1/runs", json={"request": f"mark {number}", **BARE})
                except httpx2.HTTPError:
                    return
                if said.status_code == 202:
                    accepted.append(said.json()["run"])

        with ThreadPoolExecutor(8) as pool:
            done = [pool.submit(submit, number) for number in range(24)]
            wait_for(lambda: len(accepted) >= 8)
            daemon.process.kill()
            for each in done:
                each.result()
        daemon.process.wait()
    assert daemon.cli("verify", "l.db", "--deep").returncode == 0
    with serving(folder, "--provider", "echo") as again:
        for run in accepted:
            assert again.until(run, *ENDED)["state"] == "answered"
        again.stop()
    ends = [view["run"] for view in entries(again) if view["kind"] == "run.ended"]
    assert sorted(ends) == sorted(set(ends))
    assert set(accepted) <= set(ends)
    passed = [view["run"] for view in entries(again) if view["kind"] == "task.judged" and view["data"]["ok"]]
    assert sorted(passed) == sorted(set(passed))
    assert again.cli("verify", "l.db", "--deep").returncode == 0


def test_fifty_interleaved_runs_never_mix(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "echo", "--max-runs", 25) as daemon:
        plans = {
            number: {"tasks": [{**ONE["tasks"][0], "instruction": f"say mark-{number:03}."}]} for number in range(50)
        }
        runs = {number: daemon.submit(f"mark-{number:03}.", plan=plan)["run"] for number, plan in plans.items()}
        for number, run in runs.items():
            view = daemon.until(run, *ENDED, timeout_s=240)
            assert view["state"] == "answered"
            said = view["answer"]
            assert f"mark-{number:03}." in said
            assert not any(f"mark-{other:03}." in said for other in runs if other != number)
            own = daemon.get(f"/v1/ledger/entries?run={run}&limit=1000").json()
            seqs = {each["seq"] for each in own}
            assert {cause for each in own for cause in each["causes"]} <= seqs
            for each in own:
                for part in each["body"]:
                    text = daemon.get(f"/v1/ledger/entries/{each['seq']}/parts/{part}").text
                    assert not any(f"mark-{other:03}." in text for other in runs if other != number)
        assert daemon.post("/v1/ledger/verify", {"deep": True}).json()["ok"]


class Receiver(ThreadingHTTPServer):
    """Takes webhooks; refuses the first ones."""

    def __init__(self, refusals: int, port: int = 0) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.refusals = refusals
        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(500 if len(self.server.got) <= self.server.refusals else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def test_webhooks_are_signed_and_retried(tmp_path: Path) -> None:
    receiver = Receiver(refusals=1)
    try:
        url = f"http://127.0.0.1:{receiver.server_address[1]}/hook?key=hidden"
        with serving(place(tmp_path), "--provider", "quick", "--webhook", url) as daemon:
            run = daemon.submit(gates=["task:one"])["run"]
            daemon.until(run, "waiting")
            wait_for(lambda: len(receiver.got) >= 2)
            daemon.post(f"/v1/runs/{run}/cancel")
            wait_for(lambda: len(receiver.got) >= 3)
            secret = base64.b64decode((tmp_path / "state/serve/webhook-secret").read_text().strip()[6:])
            assert (tmp_path / "state/serve/webhook-secret").stat().st_mode & 0o777 == 0o600
            assert "hidden" not in daemon.log.read_text()
    finally:
        receiver.shutdown()
        receiver.server_close()
    assert [json.loads(body)["type"] for _, body in receiver.got] == ["gate.opened", "gate.opened", "run.ended"]
    assert receiver.got[0][0]["webhook-id"] == receiver.got[1][0]["webhook-id"]
    for headers, body in receiver.got:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        right = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{right}"


def test_what_a_receiver_missed_is_told_when_the_daemon_is_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    folder, flags = place(tmp_path), ("--provider", "quick", "--webhook", f"http://127.0.0.1:{port}/")
    with serving(folder, "--provider", "quick") as daemon:
        before = daemon.submit(wait=60)["run"]
    with serving(folder, *flags) as daemon:
        # Nobody listens there yet.
        first = daemon.submit(wait=60)["run"]
        wait_for(lambda: "Connection refused" in daemon.log.read_text())
        daemon.process.kill()
        daemon.process.wait()
    with serving(folder, "--provider", "quick") as daemon:
        second = daemon.submit(wait=60)["run"]
    receiver = Receiver(refusals=0, port=port)
    try:
        with serving(folder, *flags) as daemon:
            third = daemon.submit(wait=60)["run"]
            wait_for(lambda: len(receiver.got) >= 3)
        with serving(folder, *flags) as daemon:
            fourth = daemon.submit(wait=60)["run"]
            wait_for(lambda: len(receiver.got) >= 4)
    finally:
        receiver.shutdown()
        receiver.server_close()
    assert [json.loads(body)["run"] for _, body in receiver.got] == [first, second, third, fourth]
    assert before not in (first, second, third, fourth)
    assert str(port) not in (tmp_path / "state/serve/webhook-marks.json").read_text()


def test_receivers_that_hang_hold_up_nobody(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        flags = [word for each in silent for word in ("--webhook", f"http://127.0.0.1:{each.getsockname()[1]}/")]
        daemon = stack.enter_context(serving(place(tmp_path), "--provider", "quick", *flags))
        daemon.submit(wait=60)
        for each in silent:
            # Each has a delivery soon, and will never answer.
            each.settimeout(5)
            stack.enter_context(each.accept()[0])
        began = time.monotonic()
        assert daemon.get("/v1/status").status_code == 200
        daemon.submit(wait=60)
        assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "99999"),
        ("--host", "192.0.2.1"),
        ("--webhook", "ftp://x"),
        ("--webhook", "http://[x"),
        ("--webhook", "http://x:99999/"),
        ("--webhook", "http://x/é"),
        ("--provider", "no"),
        ("--traces", "zzz"),
        ("--host", ""),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(tmp_path: Path, words: tuple[str, str]) -> None:
    said = hansard(place(tmp_path), "serve", *words)
    assert said.returncode == 2
    assert said.stderr.startswith("hansard: ")
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("left", ["[[[", 'zork = "x"', None])
def test_tokens_are_looked_after_whatever_hansard_toml_holds(tmp_path: Path, left: str | None) -> None:
    folder = place(tmp_path)
    file = folder / "hansard.toml"
    file.unlink()
    if left is None:
        file.mkdir()
    else:
        file.write_text(left)
    assert hansard(folder, "runs").returncode == 2
    for words in (("add", "ci", "--roles", "reader"), ("rotate", "ci"), ("list",), ("revoke", "ci")):
        said = hansard(folder, "serve", "token", *words)
        assert (said.returncode, said.stderr) == (0, ""), said.stderr
    assert hansard(folder, "serve", "token", "list").stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--max-requests", "0"),
        ("--max-runs", "0"),
        ("--rate", "0"),
        ("--allow-origin", "zzz"),
        ("--allow-origin", "https://example.org/"),
        ("token", "add", "x", "--days", "0"),
    ],
)
def test_a_flag_that_would_let_nobody_in_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *words])
    assert ended.value.code == 2
