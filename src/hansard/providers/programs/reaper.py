"""Runs one program, and takes every descendant of it along when it ends.

A program of its own, started as

    python -I -S reaper.py CONTROL_FD LINGER_S GRACE_S LC_CTYPE PROGRAM ARGV0 [ARGV...]

in front of the program, which gets the standard streams and the environment that the reaper was started with. Where no
locale is set, Python sets LC_CTYPE for itself; its value for the program is therefore told. CONTROL_FD is one end of a
socket. Whoever holds the other end reads one line for each of: `started PID` or `refused ERRNO`; `exited CODE` or
`killed SIGNAL`; `swept COUNT` when nothing is left, with the number of processes that had to be ended. A byte from him,
or his end closing because he was killed, ends everything: SIGTERM, a grace, SIGKILL.

On Linux the reaper is a subreaper: a descendant that outlives its parent, or that left the session, becomes its child,
so it has no descendants exactly when it has no children. Elsewhere it only has the process group. It is no security
boundary: a program of the same user can kill the reaper first, and then only the program itself dies with it.

It imports no more than it needs, because it starts before every program; it knows nothing of Hansard.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    # The module behind the public one: making enums of its constants would take as long as starting Python does.
    import _signal as signal

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0


class Reaper:
    """One program and what came of it. `adopts` says that descendants cannot get away."""

    def __init__(self, control: int, *, linger_s: float, grace_s: float) -> None:
        self.control = control
        self.linger_s = linger_s
        self.grace_s = grace_s
        self.adopts = _become_subreaper()
        self.child = 0
        self.child_ended = False
        self.childless = False
        self.told_to_end = False
        self.ended: set[int] = set()
        self._wake = _wake_on_signals()

    def run(self, program: str, argv: list[str]) -> None:
        error = self._start(program, argv)
        _let_go_of_streams()
        self._tell(f"refused {error}" if error else f"started {self.child}")
        if not self.child:
            return
        self._watch(None, lambda: self.child_ended or self.told_to_end)
        # What the program left behind may be about to finish: the last stage of a pipe, say.
        self._watch(self.linger_s, lambda: self._none_left() or self.told_to_end)
        self._sweep()
        self._tell(f"swept {len(self.ended - {self.child})}")

    def _start(self, program: str, argv: list[str]) -> int:
        """Fork and execute; the errno when the program could not be executed, or there is no child at all, else 0."""
        reading, writing = os.pipe()
        parent = os.getpid()
        try:
            self.child = os.fork()
        except OSError as error:
            # The user has as many processes as he may, or there is no memory for another one.
            return error.errno or errno.EAGAIN
        if self.child == 0:
            _become(program, argv, writing, parent)
        os.close(writing)
        said = os.read(reading, 16)
        os.close(reading)
        return int(said or b"0")

    def _watch(self, limit_s: float | None, enough: Callable[[], bool]) -> None:
        """Wait until it is enough or the time is over."""
        until = None if limit_s is None else time.monotonic() + limit_s
        while True:
            self._reap()
            if enough():
                return
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            # Without adoption nobody tells when the last one of the group ends.
            self._wait(left if self.adopts or left is None else min(left, FIRST_PAUSE_S))

    def _wait(self, limit_s: float | None) -> None:
        # Said once is enough; a closed socket would go on saying it.
        watched = [self._wake] if self.told_to_end else [self._wake, self.control]
        ready, _, _ = select.select(watched, [], [], limit_s)
        if self.control in ready:
            self._hear()
            self.told_to_end = True
        if self._wake in ready and set(os.read(self._wake, 4096)) & set(ENDING):
            self.told_to_end = True

    def _hear(self) -> None:
        """Read it: a socket that is closed with something unread resets its other end. So did he, if he was killed in time."""
        try:
            os.read(self.control, 64)
        except ConnectionResetError:
            return

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            if pid == self.child:
                self.child_ended = True
                code = os.waitstatus_to_exitcode(status)
                self._tell(f"exited {code}" if code >= 0 else f"killed {-code}")

    def _none_left(self) -> bool:
        if self.adopts or not self.childless:
            return self.childless
        try:
            os.killpg(self.child, 0)
        except (ProcessLookupError, PermissionError):
            return True
        return False

    def _sweep(self) -> None:
        """End what is left. A fork may slip between looking and killing, so look again until there is nothing."""
        self._reap()
        if self._none_left():
            return
        self._signal_all(signal.SIGTERM)
        self._watch(self.grace_s, self._none_left)
        pause_s = FIRST_PAUSE_S
        while not self._none_left():
            self._signal_all(signal.SIGKILL)
            # Not before the pause: what cannot be killed (another user's) would have us spin.
            select.select([self._wake], [], [], pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            _drain(self._wake)
            self._reap()

    def _signal_all(self, number: int) -> None:
        targets = descendants(os.getpid()) if self.adopts else []
        if not self.adopts:
            _signal(-self.child, number)
        for pid in targets:
            self.ended.add(pid)
            _signal(pid, number)

    def _tell(self, line: str) -> None:
        try:
            os.write(self.control, f"{line}\n".encode())
        except OSError:
            # Nobody listens any more; the work is to be done all the same.
            self.told_to_end = True


def descendants(root: int) -> list[int]:
    """Every living process below this one, as /proc shows them now."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name of a program may hold spaces and parentheses.
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(name))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _become_subreaper() -> bool:
    return sys.platform == "linux" and not ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wake_on_signals() -> int:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    for number in (signal.SIGCHLD, *ENDING):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writing)
    return reading


def _become(program: str, argv: list[str], report: int, parent: int) -> None:
    """In the forked child: a session of its own, the signals as a program expects them, and then the program."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            # Python ignores these two, and what is ignored stays so over an exec.
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            os.execv(program, argv)
    except OSError as error:
        os.write(report, str(error.errno).encode())
    finally:
        os._exit(127)


def _let_go_of_streams() -> None:
    """The program alone holds its pipes, so that they end with it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone already, or another user's by now: the sweep looks again.
        return


def _drain(fd: int) -> None:
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return


def main(arguments: list[str]) -> None:
    control, linger_s, grace_s, lc_ctype, program, *argv = arguments
    # A copy has the lowest number that is free, and the program does not get it. `select` takes none beyond 1023.
    own = os.dup(int(control))
    os.close(int(control))
    os.putenv("LC_CTYPE", lc_ctype) if lc_ctype else os.unsetenv("LC_CTYPE")
    Reaper(own, linger_s=float(linger_s), grace_s=float(grace_s)).run(program, argv)


if __name__ == "__main__":
    main(sys.argv[1:])
    # Nothing of the interpreter needs tidying, and it would take longer than all of the above.
    os._exit(0)
