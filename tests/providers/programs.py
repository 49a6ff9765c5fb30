"""Real programs for the tests: what they see, and whether they still run."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from hansard.domain.exchange import Exchange, Limits, Message, Schema
from hansard.providers.programs.process import Program, Ran, run

PATH = os.pathsep.join((os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"))
SEES = {"PATH": PATH, "LANG": "C.UTF-8"}
VERDICT: Schema = {
    "type": "object",
    "properties": {"verdict": {"enum": ["pass", "fail"]}, "score": {"type": "integer"}},
    "required": ["verdict", "score"],
    "additionalProperties": False,
}
_numbers = count()


def program(*argv: str, folder: Path = Path("/"), **more: Any) -> Program:
    return Program(argv=argv, folder=folder, environment=more.pop("environment", SEES), **more)


async def ran(*argv: str, **more: Any) -> Ran:
    return await run(program(*argv, **more))


def python(code: str) -> tuple[str, ...]:
    """The argv of a Python program that starts fast."""
    return (sys.executable, "-I", "-S", "-c", code)


def marked_sleep() -> str:
    """Arguments of `sleep` that no other process has, by which `alive` finds it: a time of about an hour."""
    return f"{3600 + next(_numbers)}.{os.getpid()}{time.monotonic_ns() % 1_000_000:06d}"


def alive(mark: str) -> list[int]:
    """Processes with this in their arguments, zombies left out."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in arguments:
            found.append(int(name))
    return found


def described(pid: int) -> str:
    """What a process is and does, for whoever has to find out why it is still there; nothing when it is gone."""
    try:
        about = Path(f"/proc/{pid}")
        words = about.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        fields = about.joinpath("stat").read_text().rpartition(")")[2].split()
        waits = about.joinpath("wchan").read_text()
    except OSError:
        return ""
    state, parent, ticks = fields[0], fields[1], int(fields[11]) + int(fields[12])
    return f"{pid} of {parent}, {state} in {waits}, {ticks} ticks of CPU: {words}"


def wait_until(claim: Callable[[], object], within_s: float = 60.0) -> bool:
    until = time.monotonic() + within_s
    while not claim():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


async def soon(claim: Callable[[], object], within_s: float = 60.0) -> bool:
    return await asyncio.to_thread(wait_until, claim, within_s)


def resident_mib() -> float:
    """The memory that this process takes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def asked(
    question: str = "What is the capital of France?", *, system: str = "", schema: Schema | None = None, **more: Any
) -> Exchange:
    limits = Limits(timeout_s=more.pop("timeout_s", 20.0), max_output_bytes=more.pop("max_output_bytes", 2**20))
    first = (Message(role="system", content=system),) if system else ()
    messages = more.pop("messages", (*first, Message(role="user", content=question)))
    return Exchange(messages=messages, schema=schema, limits=limits, **more)
