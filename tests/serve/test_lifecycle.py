import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import resource
import signal
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from daemons import BARE, ONE, Served, events, place, serving, wait_for
from hansard.app.service import Hansard
from hansard.app.serving.webhooks import TIMEOUT_S, webhooks
from hansard.app.settings import Settings
from hansard.surfaces.cli.main import main
from mcp_clients import eventually, over_mcp
from running import Answers
from shell import hansard

TASK = {"lane": "backend", "instruction": "x"}
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
    assert "\nwhy      the process that drove it was shut down (entry " in daemon.cli("runs", "show", stuck).stdout
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


def test_what_came_in_over_mcp_is_counted_may_end_and_is_refused_while_draining(tmp_path: Path) -> None:
    asked = {"request": "x", **BARE, "provider": "slow", "wait": False}
    with serving(place(tmp_path), "--grace", 12) as daemon:
        assert "submitted_total 0" in daemon.get("/metrics").text
        run = over_mcp(daemon, "submit", asked)["structuredContent"]["run"]
        assert daemon.get("/v1/status").json()["driving"] == 1
        assert "submitted_total 1" in daemon.get("/metrics").text
        daemon.submit(provider="stuck")
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(lambda: daemon.get("/health").status_code == 503)
        refused = over_mcp(daemon, "submit", asked)
        assert refused["isError"]
        assert "shutting down" in refused["content"][0]["text"]
        for way in ("/v1/route", "/v1/route?&"):
            assert daemon.post(way, {"text": "fix the login page"}).status_code == 503
        assert daemon.process.wait(30) == 0
    found = {view["run"]: view["kind"] for view in entries(daemon)}
    assert found[run] == "run.ended"
    assert list(found.values()).count("run.interrupted") == 1
    assert "route.given" not in [view["kind"] for view in entries(daemon)]


def test_there_is_room_for_so_many_runs_wherever_they_come_in(tmp_path: Path) -> None:
    asked = {"request": "x", **BARE, "wait": False}
    with serving(place(tmp_path), "--max-runs", 1, "--grace", 3) as daemon:
        first = over_mcp(daemon, "submit", {**asked, "provider": "stuck"})["structuredContent"]["run"]
        daemon.until(first, "running")
        others = [
            over_mcp(daemon, "submit", {**asked, "provider": "quick"})["structuredContent"]["run"],
            daemon.submit(provider="quick")["run"],
        ]
        time.sleep(1.5)
        assert [daemon.show(run)["state"] for run in others] == ["requested", "requested"]
        assert daemon.get("/v1/status").json()["driving"] == 3
        daemon.post(f"/v1/runs/{first}/cancel")
        for run in others:
            daemon.until(run, "answered")


def test_an_idle_daemon_ends_soon_even_with_open_connections(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        daemon.get("/health")
        assert daemon.stop(timeout_s=30) == 0
        assert [line["event"] for line in daemon.logged()][-2:] == ["draining", "stopped"]


@pytest.mark.long
def test_requests_that_outlast_the_drain_are_sent_away_without_a_trouble_in_the_log(tmp_path: Path) -> None:
    opened = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    speaks = {"accept": "application/json, text/event-stream"}
    with serving(place(tmp_path), "--provider", "quick", "--grace", 1) as daemon, ThreadPoolExecutor(1) as aside:
        run = daemon.submit(wait=60)["run"]
        asked = aside.submit(daemon.client().post, f"/v1/runs/{run}/rerun", json={"swap": {"worker": "silent"}})
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opened}
        session = daemon.post("/mcp", message, headers=speaks).headers["mcp-session-id"]
        with daemon.client().stream("GET", "/mcp", headers=speaks | {"mcp-session-id": session}) as listening:
            assert listening.status_code == 200
            wait_for(lambda: "hansard_requests_open 3\n" in daemon.get("/metrics").text)
            assert daemon.stop() == 0
        assert asked.result().status_code == 503
    assert [line for line in daemon.logged() if "exception" in line] == []


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
        assert headers["content-type"] == "application/json"
        told = json.loads(body)
        assert headers["webhook-id"] == f"{told['run']}.{told['entry']['seq']}"


@pytest.mark.long
def test_what_is_told_leaves_no_file_open(tmp_path: Path) -> None:
    receiver = Receiver(refusals=0)

    def told(daemon: Served, runs: int) -> int:
        """How many files the daemon has open after so many more runs."""
        wanted = len(receiver.got) + runs
        for _ in range(runs):
            daemon.submit(wait=60)
        wait_for(lambda: len(receiver.got) >= wanted)
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    try:
        url = f"http://127.0.0.1:{receiver.server_address[1]}/"
        with serving(place(tmp_path), "--provider", "quick", "--webhook", url) as daemon:
            before = told(daemon, 10)
            # Each thread that reads has a connection of its own, and there are only so many threads.
            assert told(daemon, 30) < before + 20
    finally:
        receiver.shutdown()
        receiver.server_close()


@pytest.mark.long
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
            each.settimeout(30)
            stack.enter_context(each.accept()[0])
        began = time.monotonic()
        assert daemon.get("/v1/status").status_code == 200
        daemon.submit(wait=60)
        assert time.monotonic() - began < TIMEOUT_S


def children(pid: int) -> list[str]:
    return [child for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def stopped_verifier(daemon: int, *others: int) -> int | None:
    """A verifier that works for a daemon, brought to a halt; None where there is none but these others, or it is done already.

    Before it is that other program, a child that is stopped would stop its parent too.
    """
    for each in map(Path, (f"/proc/{child}" for child in children(daemon))):
        with contextlib.suppress(OSError):
            if int(each.name) not in others and b"--json" in (each / "cmdline").read_bytes():
                os.kill(int(each.name), signal.SIGSTOP)
                return int(each.name) if " T " in (each / "stat").read_text() else None
    return None


def long_verification(
    daemon: Served, beside: ThreadPoolExecutor, *others: int
) -> "tuple[int, Future[httpx2.Response]]":
    """A verification that takes very long, as with a ledger of many millions of entries: the verifier, and what was asked."""
    while True:
        asked = beside.submit(daemon.client().post, "/v1/ledger/verify")
        while not asked.done():
            if verifier := stopped_verifier(daemon.process.pid, *others):
                return verifier, asked


def test_verifications_under_way_hold_up_nobody_who_reads(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon, ThreadPoolExecutor(3) as beside:
        verifiers: list[int] = []
        for _ in range(2):
            verifiers.append(long_verification(daemon, beside, *verifiers)[0])
        waiting = beside.submit(daemon.client().post, "/v1/ledger/verify")
        try:
            for path in ("/v1/runs", "/v1/gates", "/v1/ledger/summary"):
                assert daemon.get(path, timeout=60).status_code == 200
            assert not waiting.done()
        finally:
            for verifier in verifiers:
                os.kill(verifier, signal.SIGCONT)
        assert waiting.result().json()["ok"]


def test_a_verification_under_way_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon, ThreadPoolExecutor(1) as beside:
        verifier, asked = long_verification(daemon, beside)
        assert daemon.stop(timeout_s=60) == 0
        assert asked.result().status_code == 503
        assert not Path(f"/proc/{verifier}").exists()


def dripping(listening: socket.socket) -> None:
    """Answer whoever comes with a byte now and then, and never to the end."""

    def drip(plug: socket.socket) -> None:
        with plug, contextlib.suppress(OSError):
            plug.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                plug.sendall(b"x")
                time.sleep(0.1)

    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=drip, args=[listening.accept()[0]], daemon=True).start()


@pytest.mark.long
def test_receivers_that_hang_or_drip_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as drips:
        threading.Thread(target=dripping, args=[drips], daemon=True).start()
        flags = [
            word for each in (silent, drips) for word in ("--webhook", f"http://127.0.0.1:{each.getsockname()[1]}/")
        ]
        with serving(place(tmp_path), "--provider", "quick", *flags) as daemon:
            daemon.submit(wait=60)
            silent.settimeout(30)
            with silent.accept()[0]:
                time.sleep(0.5)
                began = time.monotonic()
                assert daemon.stop() == 0
                assert time.monotonic() - began < TIMEOUT_S


async def test_an_answer_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []
    monkeypatch.setattr("hansard.app.serving.webhooks.TIMEOUT_S", 0.5)
    async with Hansard.open(settings=Settings(ledger=str(tmp_path / "l.db"), state=tmp_path)) as opened:
        with socket.create_server(("127.0.0.1", 0)) as drips:
            threading.Thread(target=dripping, args=[drips], daemon=True).start()
            url = f"http://127.0.0.1:{drips.getsockname()[1]}/"
            made = webhooks((url,), tmp_path, opened.store, lambda _, **more: said.append(more))
            working = asyncio.create_task(made.work())
            await eventually((tmp_path / "webhook-marks.json").exists)
            await (await opened.submit("x", provider=Answers(), lane="backend")).ended()
            made.take(opened.store.entry(0))
            await eventually(lambda: said)
            working.cancel()


def test_another_daemon_goes_on_when_the_first_one_is_gone(tmp_path: Path) -> None:
    plan = {"tasks": [{"id": "a", **TASK}, {"id": "b", **TASK, "needs": ["a"]}, {"id": "c", **TASK, "needs": ["b"]}]}
    with serving(place(tmp_path)) as first, serving(tmp_path) as second:
        wait_for(lambda: any(line["event"] == "another worker has this ledger" for line in second.logged()))
        run = first.submit(provider="slow", plan=plan)["run"]
        first.until(run, "running")
        first.stop(signal.SIGKILL)
        assert second.until(run, *ENDED, timeout_s=30)["state"] == "answered"
        left = json.loads(second.cli("submit", "x", "--provider", "quick", "--detach", "--json").stdout)
        assert second.until(left["run"], *ENDED)["state"] == "answered"


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
        ("--traces", "http://x:99999"),
        ("--host", ""),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(tmp_path: Path, words: tuple[str, str]) -> None:
    said = hansard(place(tmp_path), "serve", *words)
    assert said.returncode == 2
    assert said.stderr.startswith("hansard: ")
    assert "Traceback" not in said.stderr
    assert not (tmp_path / "l.db").exists()


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
    hansard(folder, "serve", "token", "add", "ci")
    assert json.loads(hansard(folder, "serve", "token", "revoke", "ci", "--json").stdout) == []


@pytest.mark.parametrize(
    "words",
    [
        ("--max-requests", "0"),
        ("--max-runs", "0"),
        ("--rate", "0"),
        ("--allow-host", ""),
        ("--allow-host", "*"),
        ("--allow-host", "https://example.org"),
        ("--allow-origin", "zzz"),
        ("--allow-origin", "https://example.org/"),
        ("token", "add", "x", "--days", "0"),
    ],
)
def test_a_flag_that_would_let_nobody_in_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *words])
    assert ended.value.code == 2


def test_a_place_where_no_session_can_have_its_directory_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place(tmp_path))
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    assert main(["serve", "--port", "0", "--sessions", "echo.py/sessions"]) == 2
    assert "sessions cannot have their directories in echo.py/sessions" in capsys.readouterr().err
    assert not (tmp_path / "l.db").exists()


@pytest.mark.long
def test_a_deliberation_over_mcp_has_its_directory_where_the_daemon_has_them(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with serving(place(tmp_path / "project"), "--sessions", tmp_path / "held") as daemon:
        said = over_mcp(daemon, "deliberate", {"problem": "keep it?", "provider": "rehearsal"})["structuredContent"]
        assert Path(said["run_dir"]).parent == tmp_path / "held"
        kept = over_mcp(daemon, "get_run_summary", {"run_dir": said["run_dir"]})["structuredContent"]
        assert kept["transcript_digest"] == said["transcript_digest"]


def test_the_second_daemon_seals_when_the_first_is_gone(tmp_path: Path) -> None:
    place(tmp_path)
    with serving(tmp_path) as first, serving(tmp_path) as second:
        first.submit(wait=30)
        assert first.stop() == 0
        second.submit(wait=30)
        # Sealed to the end while it runs, and not only by its own end.
        wait_for(lambda: second.cli("verify", "l.db", "--strict").returncode == 0)


def test_limits_alone_do_not_ask_for_a_provider(tmp_path: Path) -> None:
    with serving(tmp_path, "--ledger", "l.db", "--max-calls", 1) as daemon:
        told = daemon.post("/v1/runs", {"request": "x"})
        assert (told.status_code, "nobody can be asked yet" in told.json()["detail"]) == (409, True)
        assert daemon.submit(provider="rehearsal", wait=60)["budget"]["max_calls"] == 1


def test_a_daemon_that_may_start_no_more_threads_goes_on_with_those_that_it_has(tmp_path: Path) -> None:
    # Nobody listens at port 9 (discard): each try to tell of an end needs a thread of its own.
    with serving(place(tmp_path), "--provider", "quick", "--webhook", "http://127.0.0.1:9/") as daemon:
        process = daemon.process.pid
        status = Path(f"/proc/{process}/status").read_text()
        [used] = [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmSize:")]
        before = resource.prlimit(process, resource.RLIMIT_AS)
        # Room for this and that, and for the stack of no thread.
        resource.prlimit(process, resource.RLIMIT_AS, (used + (6 << 20), before[1]))
        with ThreadPoolExecutor(12) as callers:
            runs = list(callers.map(lambda _: daemon.submit()["run"], range(12)))
        for run in runs:
            daemon.until(run, "answered")
        assert daemon.get("/v1/runs").status_code == 200
        wait_for(lambda: [each for each in daemon.logged() if "start new thread" in each.get("said", "")])
        resource.prlimit(process, resource.RLIMIT_AS, before)


def test_a_daemon_that_may_open_no_more_files_says_so_once_and_goes_on(tmp_path: Path) -> None:
    with serving(place(tmp_path)) as daemon, contextlib.ExitStack() as plugs:
        process = daemon.process.pid
        before = resource.prlimit(process, resource.RLIMIT_NOFILE)
        opened = len(list(Path(f"/proc/{process}/fd").iterdir()))
        resource.prlimit(process, resource.RLIMIT_NOFILE, (opened + 2, before[1]))
        for _ in range(10):
            plugs.enter_context(socket.create_connection(("127.0.0.1", daemon.port)))
        wait_for(lambda: "out of system resource" in daemon.log.read_text())
        resource.prlimit(process, resource.RLIMIT_NOFILE, before)
        with daemon.client() as another:
            assert another.get("/v1/runs").status_code == 200
        assert daemon.log.read_text().count("out of system resource") <= 2
