"""Runs one program and keeps what it said: no shell, a bounded memory, and nothing left running when it is over.

Every program stands under a reaper (see there), a small process that ends all of its descendants: when the program has
ended, when we are cancelled, and when we are killed. Knows no model and no schema.
"""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TypeVar

from hansard.domain.value import value
from hansard.errors import ProviderError, UsageError
from hansard.finishing import to_the_end
from hansard.providers.programs.environment import found
from hansard.providers.programs.pipes import Inflow, Outflow

REAPER = Path(__file__).with_name("reaper.py")
DRAIN_S = 1.0
END_WITHIN_S = 10.0
T = TypeVar("T")


PATIENCE_S = 10.0
PAUSE_S = 0.1
NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""What the system says when it has no process, no memory or no file left: that may be over in a moment."""


class NotStarted(ProviderError):
    """The program could not be started at all."""

    def __init__(self, program: "Program", number: int | None, why: object) -> None:
        super().__init__(f"{program.argv[0]}: could not be started: {why}")
        self.lacks_room = number in NO_ROOM


@value
class Program:
    """What to run. `environment` is all that it sees; argv[0] is looked up on the PATH in there, or from `folder` with a slash.

    Of the output the first `max_output_bytes` are kept in memory, and `max_spill_bytes` behind them on disk; of stderr
    the last `max_stderr_bytes`. What it left running gets `linger_s` to finish by itself; between asking processes to end
    and killing them lie `grace_s`.
    """

    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    max_output_bytes: int = 10 * 1024 * 1024
    max_spill_bytes: int = 0
    max_stderr_bytes: int = 256 * 1024
    linger_s: float = 0.5
    grace_s: float = 1.0


@value
class Ran:
    """What a program did. Neither an exit code nor a signal means that it was not seen to end.

    `spilled` goes on where `stdout` was cut; `lost` says why something is missing behind that.
    """

    argv: tuple[str, ...]
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stdout_bytes: int = 0
    spilled: bytes = b""
    lost: str = ""
    stderr: bytes = b""
    stderr_bytes: int = 0
    left_behind: int = 0
    duration_us: int = 0

    @property
    def truncated(self) -> bool:
        """Whether `stdout` is less than what was printed."""
        return self.stdout_bytes > len(self.stdout)

    @property
    def output(self) -> bytes:
        """Everything that was kept of what it printed."""
        return self.stdout + self.spilled if self.spilled else self.stdout

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.signal is not None:
            return f"was killed by {_name_of(self.signal)}"
        return "was not seen to end" if self.exit_code is None else f"ended with exit code {self.exit_code}"


async def run(program: Program, *, note: Callable[[Ran], None] | None = None) -> Ran:
    """Run to the end. However this is left, the program and its descendants have ended, and `note` has been told.

    Where the system has no room for it at the moment, it is started a little later.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await _run(program, note)
        except NotStarted as error:
            if not error.lacks_room or time.monotonic() > until:
                raise
        await asyncio.sleep(PAUSE_S)


async def _run(program: Program, note: Callable[[Ran], None] | None) -> Ran:
    process = Process(program)
    try:
        await process.finished()
    finally:
        await process.end()
        ran = process.ran()
        if note:
            note(ran)
    if process.refused:
        raise NotStarted(program, process.refused, os.strerror(process.refused))
    return ran


@cache
def _reaper() -> tuple[str, ...]:
    """The reaper as Python is told to run it: by its file, or by its text where the package lies in an archive."""
    if REAPER.is_file():
        return (str(REAPER),)
    # Imported when it is used: hardly anybody has an archive.
    from pkgutil import get_data

    text = get_data(__name__, REAPER.name)
    assert text is not None
    return "-c", text.decode()


def encoded(prompt: str) -> bytes:
    """A prompt as the bytes that a program reads.

    A lone surrogate has no form in UTF-8. Where all of them stand for bytes that could not be decoded (PEP 383), those
    bytes are restored; otherwise each is written as if it were a character. Nothing is lost and nothing is refused.
    """
    for errors in ("strict", "surrogateescape"):
        with suppress(UnicodeEncodeError):
            return prompt.encode("utf-8", errors)
    return prompt.encode("utf-8", "surrogatepass")


def need_a_system_with_processes() -> None:
    """UsageError where a program cannot be run under the reaper."""
    if sys.platform == "win32":
        raise UsageError("programs are not run on Windows, where we cannot end what they start; use WSL or an API")
    if not sys.executable:
        raise UsageError("programs run under a Python of their own, and sys.executable names none")


class Process:
    """One program that runs. Starting it is one step, without a moment in which a cancellation would lose it."""

    def __init__(self, program: Program) -> None:
        need_a_system_with_processes()
        self.program = program
        self.pid: int | None = None
        self.refused: int | None = None
        self._exit_code: int | None = None
        self._signal: int | None = None
        self._left_behind = 0
        self._duration_us: int | None = None
        self._said = b""
        self._swept = asyncio.Event()
        self._started = time.perf_counter()
        try:
            self._control, theirs = socket.socketpair()
        except OSError as error:
            raise _not_started(program, error) from error
        try:
            self._reaper = self._start_reaper(theirs)
        except (OSError, ValueError) as error:
            # A ValueError: no program can be given a NUL byte, half of a character, or a variable with a = in its name.
            self._control.close()
            raise _not_started(program, error) from error
        finally:
            theirs.close()
        stdin, stdout, stderr = self._reaper.stdin, self._reaper.stdout, self._reaper.stderr
        assert stdin is not None and stdout is not None and stderr is not None  # noqa: PT018 - three pipes were asked for
        self._stdin = Outflow(stdin, program.stdin)
        self._stdout = Inflow(stdout, limit=program.max_output_bytes, spill=program.max_spill_bytes)
        self._stderr = Inflow(stderr, limit=program.max_stderr_bytes, tail=True)
        self._control.setblocking(False)
        asyncio.get_running_loop().add_reader(self._control.fileno(), self._hear)

    @property
    def over(self) -> bool:
        """Whether the program and everything that it started have ended."""
        return self._swept.is_set()

    async def finished(self) -> None:
        """Return when the program and everything that it started have ended, and their output has been read."""
        await self._swept.wait()
        # All of them are gone, so their pipes are too, unless somebody else was handed an end.
        ends = [asyncio.ensure_future(pipe.ended.wait()) for pipe in (self._stdout, self._stderr)]
        try:
            await asyncio.wait(ends, timeout=DRAIN_S)
        finally:
            for end in ends:
                end.cancel()

    async def end(self) -> None:
        """End whatever still runs. A cancellation in the meantime waits for that, a few seconds at most."""
        await to_the_end(self._end())

    def ran(self) -> Ran:
        """What it did, or has done so far."""
        return Ran(
            argv=self.program.argv,
            exit_code=self._exit_code,
            signal=self._signal,
            stdout=self._stdout.kept,
            stdout_bytes=self._stdout.size,
            spilled=self._stdout.spilled,
            lost=self._stdout.lost,
            stderr=self._stderr.kept,
            stderr_bytes=self._stderr.size,
            left_behind=self._left_behind,
            duration_us=self._elapsed_us() if self._duration_us is None else self._duration_us,
        )

    def _start_reaper(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        program, control = self.program, theirs.fileno()
        path = found(program.argv[0], program.environment, folder=program.folder)
        if path is None:
            raise OSError(errno.ENOENT, "there is no such program on its PATH")
        told = (str(control), str(program.linger_s), str(program.grace_s), program.environment.get("LC_CTYPE", ""))
        return subprocess.Popen(
            (sys.executable, "-I", "-S", *_reaper(), *told, path, *program.argv),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=program.folder,
            env=dict(program.environment),
            pass_fds=(control,),
            start_new_session=True,
        )

    def _hear(self) -> None:
        """A line of the reaper's, or its end."""
        try:
            piece = self._control.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        *lines, self._said = (self._said + piece).split(b"\n")
        for line in lines:
            self._note(*line.decode().split())
        if not piece:
            self._reaper_ended()

    def _note(self, word: str, number: str) -> None:
        match word:
            case "started":
                self.pid = int(number)
            case "refused":
                self.refused = int(number)
            case "exited":
                self._exit_code = int(number)
                self._duration_us = self._elapsed_us()
            case "killed":
                self._signal = int(number)
                self._duration_us = self._elapsed_us()
            case "swept":
                self._left_behind = int(number)

    def _reaper_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        if self.pid and self._exit_code is None and self._signal is None:
            # Somebody killed the reaper. The program dies with it; of what it started, we reach its group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._swept.set()

    async def _end(self) -> None:
        if not self._swept.is_set():
            with suppress(OSError):
                self._control.send(b"!")
            # It hears nothing while it is stopped, and a program can do that to its parent.
            self._reaper.send_signal(signal.SIGCONT)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._swept.wait(), self.program.grace_s + END_WITHIN_S)
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()
        if not self._swept.is_set():
            # Something cannot be killed. The reaper sees us hang up and goes on without us.
            asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        if self._swept.is_set():
            # It closed its socket by exiting, so this takes no time.
            self._reaper.wait()

    def _elapsed_us(self) -> int:
        return int((time.perf_counter() - self._started) * 1_000_000)


def _not_started(program: Program, error: OSError | ValueError) -> NotStarted:
    if isinstance(error, OSError):
        return NotStarted(program, error.errno, error.strerror)
    return NotStarted(program, None, error)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
