"""The daemon under load, beside the peer's: routing, submits at once, a large ledger, many followers."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.load import Caller, Target, at_once, p99, rate
from bench.peer import folder as peers_folder
from bench.polling import polled
from bench.process import SOURCE
from bench.setting import Setting
from bench.table import Row, judged, mib, span, times
from bench.table import rate as per_second

TEXT = "the css of the login page is broken on small screens"
CALLERS = 128
WRK = shutil.which("wrk")
AT_ONCE, PLACES, MODEL_S = 200, 50, 0.5
IDEAL_S = AT_ONCE / PLACES * MODEL_S
FOLLOWERS = 1_000
LARGE = 500_000
SETTINGS = f"""\
ledger = "ledger.db"
[providers.model]
kind = "scripted"
on_exhaustion = "loop"
max_concurrent = {PLACES}
entries = [{{match = {{role = "worker"}}, text = "a result", latency_s = {MODEL_S}}}]
[providers.quick]
kind = "scripted"
on_exhaustion = "loop"
entries = [{{match = {{role = "worker"}}, text = "a result"}}]
"""
BARE: dict[str, Any] = {
    "request": "please",
    "plan": {"tasks": [{"id": "one", "lane": "backend", "instruction": "do one"}]},
    "judge": "checks",
    "answer": "join",
}


def serve(bench: Setting) -> None:
    """Every target of the daemon."""
    bench.table.title("serve: the daemon under load")
    _routing(bench)
    _submitting(bench)
    _large(bench)
    _following(bench)


def _routing(bench: Setting) -> None:
    seconds = 3 if bench.quick else 8
    ours, peers = [], []
    for _ in range(bench.times):
        with _ours(bench.fresh()) as (target, process):
            ours.append(_each(target, process.pid, "/v1/route", seconds))
        if bench.peer:
            with _peers(bench.fresh()) as (target, process):
                peers.append(_each(target, process.pid, "/route", seconds))
    (each, cpu), (peer_each, peer_cpu) = _medians(ours), _medians(peers or ours)
    ratio = peer_each / each
    bench.table.add(
        Row(
            what=f"route, with a token, {CALLERS} callers ({'wrk' if WRK else 'a client of our own'})",
            ours=per_second(each),
            peer=per_second(peer_each) if peers else "-",
            ratio=times(ratio) if peers else "-",
            cpu=times(peer_cpu / cpu) if peers else "",
            target=">= 3 x",
            verdict=judged(ratio >= 3) if peers else "left out",
        )
    )


def _each(target: Target, pid: int, path: str, seconds: int) -> tuple[float, float]:
    """Time of one answer, and the processor time that the daemon spent on it."""
    ask = _by_wrk if WRK else _by_our_own
    ask(target, path, 1)
    before = _cpu_s(pid)
    count, took = ask(target, path, seconds)
    return took / count, (_cpu_s(pid) - before) / count


def _by_our_own(target: Target, path: str, seconds: int) -> tuple[int, float]:
    return asyncio.run(rate(target, target.request("POST", path, {"text": TEXT}), CALLERS, seconds))


def _by_wrk(target: Target, path: str, seconds: int) -> tuple[int, float]:
    """The same by a program that takes less of the machine."""
    script = [
        'wrk.method = "POST"',
        f"wrk.body = {json.dumps(json.dumps({'text': TEXT}))}",
        'wrk.headers["Content-Type"] = "application/json"',
        f'wrk.headers["Authorization"] = "Bearer {target.token}"',
        "done = function(summary) io.write(summary.requests - summary.errors.status, ' ', summary.duration, '\\n') end",
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write("\n".join(script))
        file.flush()
        words = ["wrk", "-t1", f"-c{CALLERS}", f"-d{seconds}s", "-s", file.name]
        done = subprocess.run(
            [*words, f"http://127.0.0.1:{target.port}{path}"], capture_output=True, text=True, check=True
        )
    count, took_us = done.stdout.splitlines()[-1].split()
    return int(count), int(took_us) / 1_000_000


def _medians(taken: list[tuple[float, float]]) -> tuple[float, float]:
    return median(each for each, _ in taken), median(cpu for _, cpu in taken)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _submitting(bench: Setting) -> None:
    taken: list[tuple[float, float, float]] = []
    for _ in range(bench.times):
        with _ours(bench.fresh()) as (target, _):
            taken.append(_submit(target))
    took, idle, loaded = (median(column) for column in zip(*taken, strict=True))
    bench.table.add(
        Row(
            what=f"{AT_ONCE} submits at once, {PLACES} places, {MODEL_S} s each",
            ours=span(took),
            ratio=times(took / IDEAL_S),
            target=f"<= 1.5 x {IDEAL_S:g} s",
            verdict=judged(took <= 1.5 * IDEAL_S),
        )
    )
    bench.table.add(
        Row(
            what="/health meanwhile, p99, and idle",
            ours=span(loaded),
            peer=span(idle),
            ratio=times(loaded / idle),
            target="<= 10 x idle",
            verdict=judged(loaded <= 10 * idle),
        )
    )


def _submit(target: Target) -> tuple[float, float, float]:
    submit = target.request("POST", "/v1/runs?wait=300", {**BARE, "provider": "model"})
    asyncio.run(at_once(target, submit, 1))
    with polled(target.port) as idle:
        time.sleep(3)
    with polled(target.port) as loaded:
        took = asyncio.run(at_once(target, submit, AT_ONCE))
    return took, p99(idle), p99(loaded)


def _large(bench: Setting) -> None:
    """Status and submit on a large ledger, beside an empty one."""
    size = LARGE // 10 if bench.quick else LARGE
    large = bench.fresh()
    shutil.copytree(bench.our_ledger(size).parent, large, dirs_exist_ok=True)
    found: dict[str, tuple[float, float]] = {}
    for name, folder in (("empty", bench.fresh()), ("large", large)):
        with _ours(folder) as (target, _):
            status, submit = target.request("GET", "/v1/status"), target.request("POST", "/v1/runs?wait=60", BARE)
            found[name] = (_each_of(target, status, 300), _each_of(target, submit, 60))
    for what, empty, full in zip(("status", "submit and answer"), found["empty"], found["large"], strict=True):
        bench.table.add(
            Row(
                what=f"{what} on {size:,} entries, and on none",
                ours=span(full),
                peer=span(empty),
                ratio=times(full / empty),
                target="<= 1.3 x",
                verdict=judged(full <= 1.3 * empty),
            )
        )


def _each_of(target: Target, request: bytes, count: int) -> float:
    """The median of single requests, one behind the other."""

    async def ask() -> float:
        caller = Caller(target)
        found = []
        for number in range(count + 10):
            began = asyncio.get_running_loop().time()
            await caller.ask(request)
            if number >= 10:
                found.append(asyncio.get_running_loop().time() - began)
        await caller.close()
        return median(found)

    return asyncio.run(ask())


def _following(bench: Setting) -> None:
    with _ours(bench.fresh()) as (target, process):
        before, after = asyncio.run(_follow(target, process.pid))
    each = (after - before) / FOLLOWERS
    bench.table.add(
        Row(
            what=f"{FOLLOWERS:,} idle followers, resident memory",
            ours=mib(after),
            peer=mib(before),
            ratio=f"{each:.0f} KiB",
            target="<= 100 KiB each",
            verdict=judged(each <= 100),
        )
    )


async def _follow(target: Target, pid: int) -> tuple[int, int]:
    _, said = await Caller(target).ask(target.request("POST", "/v1/runs?wait=5", {**BARE, "gates": ["task:one"]}))
    run, before = json.loads(said)["run"], _resident_kib(pid)
    wires = [await asyncio.open_connection("127.0.0.1", target.port) for _ in range(FOLLOWERS)]
    for reader, writer in wires:
        writer.write(target.request("GET", f"/v1/runs/{run}/events"))
        await reader.readuntil(b"gate.opened")
    after = _resident_kib(pid)
    for _, writer in wires:
        writer.close()
    return before, after


def _resident_kib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


@contextmanager
def _ours(folder: Path) -> "Iterator[tuple[Target, subprocess.Popen[str]]]":
    (folder / "hansard.toml").write_text(SETTINGS, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HANSARD_STATE": str(folder / "state")}
    words = [
        sys.executable,
        "-m",
        "hansard",
        "serve",
        "--port",
        "0",
        "--json",
        "--provider",
        "quick",
        "--rate",
        "100000",
    ]
    with _process([*words, "--ledger", str(folder / "ledger.db")], folder, environment) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        token = Path(said["token_file"]).read_text("ascii").strip()
        yield Target(port=int(said["listening"].rsplit(":", 1)[1]), token=token), process


@contextmanager
def _peers(folder: Path) -> "Iterator[tuple[Target, subprocess.Popen[str]]]":
    """The peer's daemon, with its token as it prints it."""
    port = _free_port()
    words = [str(peers_folder() / "bin" / "forum"), "serve", "--port", str(port), "--ledger", "ledger", "--cmd", "cat"]
    with _process(words, folder, {**os.environ, "PYTHONUNBUFFERED": "1"}, together=True) as process:
        assert process.stdout is not None
        token = ""
        for line in process.stdout:
            token = line.split(": ", 1)[1].strip() if line.startswith("forum daemon token: ") else token
            if line.startswith("forum daemon on "):
                break
        yield Target(port=port, token=token), process


@contextmanager
def _process(
    words: list[str], folder: Path, environment: dict[str, str], *, together: bool = False
) -> "Iterator[subprocess.Popen[str]]":
    """A daemon; `together` puts what it complains of where the rest is."""
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if together else errors,
            text=True,
        )
    with process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
