"""Commands in processes of their own that need not import anything first.

A daemon imports for longer than most tests of it take. So one process imports everything once; whenever a command is to run,
it forks, and its child becomes that command: with its own folder, environment, arguments and streams, and the signals and the
exit code of any other process. Whatever is about the start itself runs `command_line.started` instead.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from runpy import run_module
from typing import IO

LARGEST = 1 << 20
WORD = 16
MODULES = (
    *("hansard.surfaces.cli.main", "hansard.surfaces.cli.arguments", "hansard.surfaces.cli.serve"),
    *("hansard.surfaces.http.serving", "hansard.surfaces.http.app", "hansard.surfaces.http.logs"),
    *("hansard.surfaces.http.at_first", "hansard.surfaces.mcp.http", "hansard.store.sqlite", "hansard.record.sealer"),
)


class Forked:
    """A command that is under way, with what tests use of a `subprocess.Popen`."""

    def __init__(self, folder: Path, environment: dict[str, str], argv: list[str], stderr: int) -> None:
        stdin, self._in = os.pipe()
        out, stdout = os.pipe()
        self._told, telling = os.pipe()
        request = json.dumps({"folder": str(folder), "environment": environment, "argv": argv}).encode()
        socket.send_fds(_preloaded(), [request], [stdin, stdout, stderr, telling])
        for each in (stdin, stdout, telling):
            os.close(each)
        self.args = argv
        self.returncode: int | None = None
        self.pid = int(self._hear())
        self.stdin: IO[str] = os.fdopen(self._in, "w")
        self.stdout: IO[str] = os.fdopen(out)

    def _hear(self) -> bytes:
        return os.read(self._told, WORD)

    def poll(self) -> int | None:
        """The exit code, where it has ended."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        if (code := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, within_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], within_s)[0]:
            self.returncode = int(self._hear())
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, None]:
        """What is left on standard output, once it has ended."""
        self.stdin.close()
        with self.stdout:
            said = self.stdout.read()
        self.wait()
        return said, None


@cache
def _preloaded() -> socket.socket:
    """The way to the process that has imported everything. It ends when nobody holds this end of it any more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
        argv = [sys.executable, __file__, str(theirs.fileno())]
        process = subprocess.Popen(argv, env=environment, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)

    def let_go() -> None:
        ours.close()
        process.wait()

    atexit.register(let_go)
    return ours


def _next(plug: socket.socket) -> list[str]:
    """Wait until a command is to run, in a process that becomes it; its arguments. SystemExit where nobody asks any more."""
    while True:
        request, files, _, _ = socket.recv_fds(plug, LARGEST, 4)
        if not request:
            raise SystemExit
        if os.fork() == 0:
            break
        for each in files:
            os.close(each)
    plug.close()
    telling = files.pop()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if child := os.fork():
        for each in files:
            os.close(each)
        os.write(telling, b"%d" % child)
        os.write(telling, b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os._exit(0)
    os.close(telling)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    return [str(each) for each in asked["argv"]]


if __name__ == "__main__":
    for name in MODULES:
        import_module(name)
    # Whoever watches over a command ends with it, and nobody asks how.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.argv[1:] = _next(socket.socket(fileno=int(sys.argv[1])))
    run_module("hansard", run_name="__main__", alter_sys=True)
