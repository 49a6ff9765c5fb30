"""Programs of every unpleasant kind: loud, deaf, stubborn, prolific, dying. Each claim is a way in which others failed."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zipfile import ZipFile

import pytest

from hansard.errors import UsageError
from hansard.providers.programs import process
from hansard.providers.programs.process import NotStarted, Process, Program, Ran, encoded, run
from providers.programs import SEES, alive, marked_sleep, program, ran, resident_mib, soon

IN_AN_ARCHIVE = """
import asyncio
from pathlib import Path

from hansard.providers.programs.process import REAPER, Program, run

assert not REAPER.exists()
asked = Program(argv=("cat",), folder=Path("."), environment={"PATH": "/usr/bin:/bin"}, stdin=b"heard")
print(asyncio.run(run(asked)).stdout.decode())
"""


def test_programs_run_also_where_the_package_lies_in_an_archive(tmp_path: Path) -> None:
    package = Path(process.__file__).parents[2]
    with ZipFile(tmp_path / "hansard.zip", "w") as archive:
        for path in package.rglob("*.py"):
            archive.write(path, path.relative_to(package.parent))
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "hansard.zip")}
    argv = [sys.executable, "-c", IN_AN_ARCHIVE]
    said = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (said.stdout, said.stderr) == ("heard\n", "")


async def test_output_stderr_exit_code_and_duration_are_kept() -> None:
    done = await ran("sh", "-c", "echo out; echo err >&2; sleep 0.2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code, done.signal) == (b"out\n", b"err\n", 3, None)
    assert done.duration_us >= 200_000
    assert done.ending == "ended with exit code 3"


async def test_bytes_that_are_no_utf8_are_kept_as_they_are() -> None:
    done = await ran("printf", r"\377\376 caf\351")
    assert done.stdout == b"\xff\xfe caf\xe9"


async def test_a_prompt_of_a_mebibyte_arrives_whole() -> None:
    prompt = os.urandom(2**20)
    done = await ran("cat", stdin=prompt)
    assert done.stdout == prompt


async def test_a_program_that_does_not_read_its_prompt_is_no_error() -> None:
    done = await ran("true", stdin=b"x" * 2**20)
    assert done.exit_code == 0


async def test_a_program_without_a_prompt_finds_the_end_of_its_input() -> None:
    assert (await ran("cat")).stdout == b""


async def test_a_prompt_is_never_an_argument() -> None:
    secret = "a-prompt-that-ps-must-not-show"
    running = Process(program("sh", "-c", "cat; sleep 30", stdin=secret.encode()))
    try:
        assert await soon(lambda: running.ran().stdout)
        assert running.ran().stdout == secret.encode()
        assert alive(secret) == []
    finally:
        await running.end()


async def test_a_death_by_signal_is_named() -> None:
    done = await ran("sh", "-c", "kill -SEGV $$")
    assert (done.signal, done.exit_code) == (signal.SIGSEGV, None)
    assert done.ending == "was killed by SIGSEGV"


async def test_memory_stays_flat_while_a_program_says_yes_for_ever() -> None:
    before = resident_mib()
    running = Process(program("yes", max_output_bytes=2**20))
    try:
        assert await soon(lambda: running.ran().stdout_bytes > 50 * 2**20)
    finally:
        await running.end()
    done = running.ran()
    assert len(done.stdout) == 2**20
    assert done.truncated
    assert resident_mib() - before < 30


async def test_two_hundred_megabytes_are_counted_and_the_beginning_is_kept() -> None:
    before = resident_mib()
    done = await ran("sh", "-c", "echo begin; head -c 200000000 /dev/zero; exit 7", max_output_bytes=1000)
    assert (done.exit_code, done.stdout_bytes, len(done.stdout)) == (7, 200_000_006, 1000)
    assert done.stdout.startswith(b"begin\n\0")
    assert resident_mib() - before < 30


async def test_of_stderr_the_end_is_kept() -> None:
    done = await ran("sh", "-c", "(head -c 3000000 /dev/zero; echo the end) >&2", max_stderr_bytes=100)
    assert (done.stderr_bytes, len(done.stderr)) == (3_000_008, 100)
    assert done.stderr.endswith(b"\0the end\n")


async def test_a_grandchild_on_our_pipe_neither_hangs_us_nor_survives() -> None:
    mark, started = marked_sleep(), time.monotonic()
    done = await ran("sh", "-c", f"sleep {mark} & echo good")
    assert (done.stdout, done.exit_code, done.left_behind) == (b"good\n", 0, 1)
    assert time.monotonic() - started < 60
    assert alive(mark) == []


async def test_a_grandchild_that_left_the_session_dies_too() -> None:
    mark = marked_sleep()
    # Twice forked, in a session of its own, and deaf to the polite signal.
    done = await ran("sh", "-c", f"(setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' &) ; exit 0")
    assert done.left_behind >= 1
    assert alive(mark) == []


async def test_what_a_program_left_behind_may_finish_its_sentence() -> None:
    done = await ran("sh", "-c", "(sleep 0.2; echo late) & echo early")
    assert done.stdout == b"early\nlate\n"
    assert done.left_behind == 0


async def test_a_cancellation_ends_the_whole_tree_and_tells_what_was_said() -> None:
    mark = marked_sleep()
    heard: list[Ran] = []
    code = f"echo begun; sleep {mark} & setsid sleep {mark} & sleep {mark}"
    task = asyncio.create_task(run(program("sh", "-c", code), note=heard.append))
    # Those that sleep, their shell, and the reaper, which is told what to run.
    assert await soon(lambda: len(alive(mark)) >= 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(mark) == []
    assert heard[0].stdout == b"begun\n"


async def test_a_program_that_ignores_the_polite_signal_is_killed() -> None:
    mark = marked_sleep()
    running = Process(program("sh", "-c", f"trap '' TERM; echo up; while :; do sleep {mark}; done", grace_s=0.2))
    assert await soon(lambda: running.ran().stdout)
    await running.end()
    assert running.ran().ending == "was killed by SIGKILL"
    assert alive(mark) == []


async def test_a_program_has_time_to_end_politely() -> None:
    running = Process(program("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
    assert await soon(lambda: running.ran().stdout)
    await running.end()
    assert running.ran().stdout == b"up\nbye\n"
    assert running.ran().exit_code == 0


async def test_a_second_cancellation_does_not_leave_the_first_half_done() -> None:
    mark = marked_sleep()
    task = asyncio.create_task(ran("sh", "-c", f"trap '' TERM; sleep {mark}; sleep {mark}", grace_s=0.5))
    assert await soon(lambda: len(alive(mark)) >= 2)
    task.cancel()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(mark) == []


async def test_a_program_that_does_not_exist_is_named() -> None:
    with pytest.raises(NotStarted, match=r"no-such-program: could not be started"):
        await ran("no-such-program")


async def test_a_path_is_meant_from_the_folder_that_it_runs_in(tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_text("#!/bin/sh\npwd\n")
    path.chmod(0o755)
    ran = await run(Program(argv=("./tool",), folder=tmp_path, environment=SEES))
    assert ran.stdout.decode().strip() == str(tmp_path)


async def test_a_program_that_cannot_be_executed_is_told_apart_from_one_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_text("neither a script nor a binary", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(NotStarted, match=r"could not be started: Exec format error"):
        await ran(str(path))


async def test_arguments_that_are_too_long_are_a_clear_error() -> None:
    with pytest.raises(NotStarted, match="Argument list too long"):
        await ran("echo", "x" * 4_000_000)


@pytest.mark.parametrize(
    ("argument", "variable", "why"),
    [("a\0b", "NAME", "null byte"), ("\ud800", "NAME", "surrogates not allowed"), ("a", "A=B", "illegal environment")],
)
async def test_what_no_program_can_be_given_is_a_clear_error(argument: str, variable: str, why: str) -> None:
    with pytest.raises(NotStarted, match=f"echo: could not be started: .*{why}"):
        await ran("echo", argument, environment={**SEES, variable: "value"})


async def test_a_program_sees_only_the_environment_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "of ours")
    done = await ran("env", environment={"PATH": "/usr/bin:/bin", "ONLY": "this"})
    names = {line.partition(b"=")[0] for line in done.stdout.splitlines()}
    assert names == {b"PATH", b"ONLY"}


async def test_a_program_ignores_no_signal_and_holds_no_stream_but_its_own() -> None:
    done = await ran("sh", "-c", "grep SigIgn /proc/self/status; exec ls -1 /proc/self/fd")
    ignored, streams = done.stdout.removeprefix(b"SigIgn:").split(b"\n", 1)
    # From signal 32 on they belong to the C library, and whoever started the tests may have ignored one.
    assert int(ignored, 16) & 0x7FFFFFFF == 0
    # The fourth is the folder that `ls` reads.
    assert streams.split() == [b"0", b"1", b"2", b"3"]


async def test_when_the_reaper_is_killed_the_program_dies_and_we_do_not_hang() -> None:
    mark = marked_sleep()
    running = Process(program("sleep", mark))
    assert await soon(lambda: len(alive(mark)) == 2)
    os.kill(running._reaper.pid, signal.SIGKILL)
    await running.finished()
    await running.end()
    assert await soon(lambda: alive(mark) == [])
    assert running.ran().ending == "was not seen to end"


async def test_a_program_that_stops_its_reaper_is_ended_in_time() -> None:
    mark = marked_sleep()
    running = Process(program("sh", "-c", f"kill -STOP $PPID; echo stopped; sleep {mark}"))
    assert await soon(lambda: running.ran().stdout)
    started = time.monotonic()
    await running.end()
    assert time.monotonic() - started < process.END_WITHIN_S
    assert alive(mark) == []


@contextmanager
def few_files(free: int) -> Iterator[list[int]]:
    """Room for so many more open files; those that take the rest of it can be closed meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 50, hard))
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(free):
            os.close(held.pop())
        yield held
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("free", range(4))
async def test_a_program_for_which_no_file_can_be_opened_is_a_clear_error(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENCE_S", 0.0)
    with few_files(free), pytest.raises(NotStarted, match="true: could not be started: Too many open files"):
        await ran("true")


@pytest.mark.parametrize("free", range(4))
async def test_a_program_for_which_there_is_no_room_at_the_moment_is_started_later(free: int) -> None:
    with few_files(free) as held:
        waiting = asyncio.ensure_future(ran("echo", "answered"))
        await asyncio.sleep(3 * process.PAUSE_S)
        assert not waiting.done()
        for _ in range(40):
            os.close(held.pop())
        assert (await waiting).stdout == b"answered\n"


async def test_a_program_runs_where_more_than_a_thousand_files_are_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard) if hard != resource.RLIM_INFINITY else 2048, hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        done = await ran("sh", "-c", "echo answered; exit 3")
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (done.stdout, done.exit_code) == (b"answered\n", 3)


async def test_many_programs_run_at_once() -> None:
    done = await asyncio.gather(*(ran("echo", str(number)) for number in range(12)))
    assert [each.stdout for each in done] == [f"{number}\n".encode() for number in range(12)]


def test_a_lone_surrogate_becomes_the_byte_that_it_stood_for() -> None:
    assert encoded(b"caf\xe9".decode("utf-8", "surrogateescape")) == b"caf\xe9"


def test_any_other_lone_surrogate_is_written_and_not_refused() -> None:
    assert encoded("a\ud800\0b") == b"a\xed\xa0\x80\0b"


async def test_nul_bytes_in_a_prompt_arrive() -> None:
    assert (await ran("cat", stdin=encoded("a\0b"))).stdout == b"a\0b"


def test_windows_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UsageError, match="Windows"):
        process.need_a_system_with_processes()
