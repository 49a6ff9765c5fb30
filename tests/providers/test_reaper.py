"""Nothing outlives us. The engine here is a process of its own, killed as an out-of-memory killer would."""

import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from hansard.providers.programs import reaper
from providers.programs import PATH, alive, marked_sleep, wait_until

SOURCE = Path(reaper.__file__).parents[2]
ENGINE = """
    import asyncio, os, sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from hansard.providers.programs.process import Program, run

    code = sys.stdin.read()
    asyncio.run(run(Program(argv=("sh", "-c", code), folder=Path("/"), environment={"PATH": os.defpath})))
"""


def engine(code: str) -> subprocess.Popen[bytes]:
    """A process that runs this through our `run`; the code is on its input, so its arguments hold no mark."""
    argv = (sys.executable, "-I", "-c", textwrap.dedent(ENGINE), str(SOURCE))
    started = subprocess.Popen(argv, stdin=subprocess.PIPE, env={"PATH": PATH})
    assert started.stdin is not None
    started.stdin.write(code.encode())
    started.stdin.close()
    return started


def test_an_engine_that_is_killed_leaves_no_child_behind() -> None:
    mark = marked_sleep()
    ours = engine(f"sleep {mark} & setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &) ; sleep {mark}")
    # The shells, and five that sleep.
    assert wait_until(lambda: len(alive(mark)) >= 7)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    assert wait_until(lambda: alive(mark) == []), alive(mark)


def test_not_even_one_that_ignores_every_signal_it_can() -> None:
    mark = marked_sleep()
    ours = engine(
        f"trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' & sleep {mark}; sleep {mark}"
    )
    assert wait_until(lambda: len(alive(mark)) >= 4)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    assert wait_until(lambda: alive(mark) == []), alive(mark)


def test_a_program_that_forks_as_fast_as_it_can_is_caught(tmp_path: Path) -> None:
    """Each of its processes is gone before anybody can look at it, so it leaves a trace: a byte for each."""
    trace = tmp_path / "trace"
    trace.touch()
    hop = f"""import os
trace = os.open("{trace}", os.O_WRONLY | os.O_APPEND)
while 1:
    os.write(trace, b"x")
    if os.fork():
        os._exit(0)
    os.setsid()"""
    ours = engine(f"exec {sys.executable} -I -S -c '{hop}'")
    assert wait_until(lambda: trace.stat().st_size > 10)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    assert wait_until(lambda: _is_still(trace)), trace.stat().st_size


def _is_still(trace: Path) -> bool:
    before = trace.stat().st_size
    time.sleep(0.5)
    return trace.stat().st_size == before


def lines_of(*argv: str, say: bytes | None = None, hang_up: bool = False) -> list[str]:
    """What a reaper tells while it runs this, and what it does when spoken to."""
    ours, theirs = socket.socketpair()
    arguments = (str(theirs.fileno()), "0.1", "0.2", "", argv[0], *argv)
    command = (sys.executable, "-I", "-S", reaper.__file__, *arguments)
    with subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdout=subprocess.DEVNULL) as process, ours:
        theirs.close()
        told = ours.recv(100).decode()
        if say:
            ours.send(say)
        if hang_up:
            ours.close()
            process.wait(timeout=10)
            return told.splitlines()
        while piece := ours.recv(100):
            told += piece.decode()
    return told.splitlines()


def test_it_tells_of_the_beginning_the_end_and_the_sweep() -> None:
    started, *rest = lines_of("/bin/sh", "-c", "exit 5")
    assert started.startswith("started ")
    assert rest == ["exited 5", "swept 0"]


def test_it_tells_why_a_program_was_refused() -> None:
    assert lines_of("/no/such/program")[0] == "refused 2"


def test_it_tells_why_it_could_make_no_process() -> None:
    """Nobody can take processes away from root, who runs tests too, so it is the system call that fails here."""
    code = f"""import errno, os, runpy
def no_more(): raise BlockingIOError(errno.EAGAIN, "no more processes")
os.fork = no_more
runpy.run_path({reaper.__file__!r}, run_name="__main__")"""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        arguments = (str(theirs.fileno()), "0.1", "0.2", "", "/bin/true", "true")
        command = (sys.executable, "-I", "-S", "-c", code, *arguments)
        done = subprocess.run(command, pass_fds=(theirs.fileno(),), capture_output=True, timeout=30, check=True)
        assert ours.recv(100) == b"refused %d\n" % errno.EAGAIN
    assert done.stderr == b""


@pytest.mark.parametrize("way", ["a byte", "hanging up"])
def test_it_ends_everything_when_it_is_told_or_left_alone(way: str) -> None:
    mark = marked_sleep()
    lines_of(
        "/bin/sh",
        "-c",
        f"setsid sleep {mark} & sleep {mark}",
        say=b"!" if way == "a byte" else None,
        hang_up=way != "a byte",
    )
    assert alive(mark) == []


def test_it_ends_everything_when_its_owner_dies_before_reading_what_it_told() -> None:
    mark = marked_sleep()
    ours, theirs = socket.socketpair()
    argv = ("/bin/sh", "/bin/sh", "-c", f"setsid sleep {mark} & sleep {mark}")
    command = (sys.executable, "-I", "-S", reaper.__file__, str(theirs.fileno()), "0.1", "0.2", "", *argv)
    with subprocess.Popen(command, pass_fds=(theirs.fileno(),)) as process:
        theirs.close()
        # The reaper, the shell, and two that sleep. What the reaper told lies unread, so closing resets the connection.
        assert wait_until(lambda: len(alive(mark)) == 4)
        ours.close()
        assert process.wait(timeout=10) == 0
    assert alive(mark) == []


def test_descendants_are_found_through_every_generation() -> None:
    with subprocess.Popen(("/bin/sh", "-c", "sleep 30 & echo $!; read x"), stdin=-1, stdout=-1) as shell:
        assert shell.stdout is not None
        sleeper = int(shell.stdout.readline())
        below = reaper.descendants(os.getpid())
        assert {shell.pid, sleeper} <= set(below)
        assert reaper.descendants(shell.pid) == [sleeper]
        os.kill(sleeper, signal.SIGKILL)
