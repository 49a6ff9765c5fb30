"""What a program prints beyond its limit: kept whole for the record, cut for everybody else, and never in our memory."""

import asyncio
import json
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Limits
from hansard.errors import UsageError
from hansard.providers.agents import cli as agent_cli
from hansard.providers.agents.gemini import open_gemini
from hansard.providers.command import open_command
from hansard.providers.programs.process import Process
from hansard.providers.programs.spill import Spill
from hansard.providers.recording import RecordedProgram, Recording
from hansard.providers.replayed import Replayed
from hansard.providers.scrubbed import Scrubbed
from hansard.providers.secrets import Secrets
from providers.pretend_clis import gemini_answers, pretend
from providers.programs import SEES, asked, program, ran, resident_mib, soon

COUNTING = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done"
COUNTED = b"".join(b"%d\n" % number for number in range(20000))


async def said(*argv: str, max_output_bytes: int = 1000, **options: Any) -> Completion:
    exchange = asked(max_output_bytes=max_output_bytes)
    return await open_command("mine", {"argv": list(argv), **options}, SEES).complete(exchange)


def facts(completion: Completion) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(completion.raw or b"")
    return told


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file can grow beyond this, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_the_record_gets_every_byte_in_order_and_others_the_beginning() -> None:
    done = await said("sh", "-c", COUNTING)
    assert done.ok
    assert done.output == COUNTED
    assert (done.text, done.finish) == (COUNTED[:1000].decode().rstrip("\n"), "length")
    assert "stdout_lost" not in facts(done)


async def test_what_fits_is_not_spilled() -> None:
    done = await ran("printf", "12345", max_output_bytes=5, max_spill_bytes=100)
    assert (done.stdout, done.spilled, done.truncated, done.lost) == (b"12345", b"", False, "")


async def test_beyond_the_second_limit_bytes_are_counted_and_said_to_be_lost() -> None:
    done = await said("sh", "-c", COUNTING, max_spill_bytes=500)
    assert done.output == COUNTED[:1500]
    assert facts(done)["stdout_bytes"] == len(COUNTED)
    assert facts(done)["stdout_lost_bytes"] == len(COUNTED) - 1500
    assert facts(done)["stdout_lost"] == "at most 500 bytes are spilled"


async def test_nothing_is_spilled_where_that_is_switched_off() -> None:
    done = await said("sh", "-c", COUNTING, max_spill_bytes=0)
    assert (done.output, done.finish) == (COUNTED[:1000], "length")
    assert facts(done)["stdout_lost_bytes"] == len(COUNTED) - 1000


async def test_bytes_that_are_no_utf8_are_spilled_as_they_are() -> None:
    done = await said("sh", "-c", r"printf 'caf\303\251\377\376'", max_output_bytes=4)
    assert done.output == b"caf\xc3\xa9\xff\xfe"
    # The limit lies in the middle of a character, and a mark for its half would not fit.
    assert (done.text, done.finish) == ("caf", "length")


@pytest.mark.parametrize("ending", ["exit 3", "sleep 60"])
async def test_a_call_that_fails_keeps_what_was_spilled(ending: str) -> None:
    done = await said("sh", "-c", f"{COUNTING}; {ending}", timeout_s=2)
    assert not done.ok
    assert done.output == COUNTED
    # An estimate of what was generated stays within what was asked for.
    assert done.usage.output_tokens <= 1000


async def test_a_failure_quotes_the_end_and_not_the_limit() -> None:
    done = await said("sh", "-c", f"{COUNTING}; exit 3")
    assert done.failure is not None
    assert done.failure.message.endswith("19999")


async def test_memory_stays_flat_while_yes_is_spilled() -> None:
    before = resident_mib()
    running = Process(program("yes", max_output_bytes=2**20, max_spill_bytes=64 * 2**20))
    try:
        assert await soon(lambda: running.ran().lost)
        await asyncio.sleep(0.2)
        grown = resident_mib() - before
    finally:
        await running.end()
    done = running.ran()
    assert grown < 20
    assert (len(done.stdout), len(done.spilled)) == (2**20, 64 * 2**20)
    assert done.output == b"y\n" * (65 * 2**19)


async def test_the_file_never_has_a_name_that_a_kill_could_leave_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    running = Process(program("sh", "-c", "echo long; sleep 60", max_output_bytes=1, max_spill_bytes=100))
    try:
        assert await soon(lambda: _open_below(tmp_path))
        assert os.listdir(tmp_path) == []
    finally:
        await running.end()
    assert running.ran().output == b"long\n"
    assert _open_below(tmp_path) == []


def _open_below(folder: Path) -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return [each for each in found if each.startswith(f"{folder}/")]


async def test_a_full_disk_costs_the_rest_of_the_output_and_not_the_call() -> None:
    with files_end_at(10_000):
        done = await said("sh", "-c", COUNTING)
    assert done.ok
    assert done.output == COUNTED[:11_000]
    assert facts(done)["stdout_lost"] == "the temporary file took no more: File too large"


async def test_a_machine_without_a_temporary_folder_costs_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Process(program("sh", "-c", "sleep 0.3; echo long", max_output_bytes=1, max_spill_bytes=100))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    try:
        await running.finished()
    finally:
        await running.end()
    assert (running.ran().exit_code, running.ran().output) == (0, b"l")
    assert running.ran().lost == "the temporary file took no more: No such file or directory"


def test_nothing_follows_on_a_gap() -> None:
    spill = Spill(4)
    for piece in (b"ab", b"cde", b"f", b""):
        spill.add(piece)
    assert (spill.taken(), spill.taken()) == (b"abcd", b"")
    assert spill.lost


async def test_a_secret_across_the_limit_is_found() -> None:
    key = "sk-live-0123456789"
    command = open_command("mine", {"argv": ["printf", f"key {key} end"]}, SEES)
    done = await Scrubbed(command, Secrets({"KEY": key})).complete(asked(max_output_bytes=12))
    assert done.output == b"key [secret KEY] end"


async def test_a_recorded_program_answers_with_the_same_cut() -> None:
    live = await said("sh", "-c", COUNTING, max_spill_bytes=500)
    assert live.output is not None
    recorded = RecordedProgram(
        argv=live.argv,
        stdin_sha256=sha256(b"").hexdigest(),
        stdout=live.output,
        stderr=b"",
        exit_code=0,
        lost_bytes=facts(live)["stdout_lost_bytes"],
    )
    done = await Replayed(Recording(programs=(recorded,))).run(live.argv, b"", Limits(max_output_bytes=1000))
    assert (done.text, done.output, done.finish) == (live.text, live.output, live.finish)


async def test_events_of_an_agent_cli_that_are_too_many_are_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_cli, "MAX_EVENT_BYTES", 100)
    gemini, events = pretend(tmp_path, "gemini"), gemini_answers("Paris. " * 1000)
    gemini.says(events)
    done = await open_gemini("mine", {"max_spill_bytes": 500}, gemini.environment).complete(asked())
    assert done.failure is not None
    assert done.failure.kind == "internal"
    assert done.output == events.encode()[:600]
    assert facts(done)["stdout_lost"] == "at most 500 bytes are spilled"


@pytest.mark.parametrize("size", [-1, 2**40, True, "much"])
def test_a_limit_that_makes_no_sense_is_refused(size: Any) -> None:
    with pytest.raises(UsageError, match=r"\[providers.mine\].*max_spill_bytes"):
        open_command("mine", {"argv": ["true"], "max_spill_bytes": size}, SEES)
