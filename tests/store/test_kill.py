"""kill -9 at each step of a writer's work: afterwards the ledger opens, verifies, and holds every acknowledged entry."""

import random
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hansard.errors import UsageError
from store import writer
from store.faults import FORMS, Acknowledged, after_fault, named, new_ledger, opened, run, told
from store.tracing import Step, inject, need_strace, steps_of, turning_points

# Bodies in their own rows and one that is large enough to be shared; the end of it empties the WAL.
WORK = ("open", "append 2 2 300", "append 1 1 20000", "close")
GROUP = 2
SEED = 20_261_115


@pytest.mark.needs_root
@pytest.mark.parametrize("form", FORMS)
def test_a_writer_killed_where_its_work_turns_loses_nothing_acknowledged(quick_folder: Path, form: str) -> None:
    need_strace()
    _kill_at(turning_points(_steps(quick_folder, form), most=10), quick_folder, form)


@pytest.mark.long
@pytest.mark.needs_root
@pytest.mark.parametrize("form", FORMS)
def test_a_writer_killed_at_any_step_loses_nothing_acknowledged(quick_folder: Path, form: str) -> None:
    need_strace()
    _kill_at(_steps(quick_folder, form), quick_folder, form)


def _steps(folder: Path, form: str) -> list[Step]:
    traced = folder / "traced"
    traced.mkdir()
    steps = steps_of(new_ledger(named(traced, form)), WORK, folder / "trace")
    assert sum(step.call == "fdatasync" for step in steps) >= 3, "a commit is a sync"
    return steps


def _kill_at(steps: Iterable[Step], folder: Path, form: str) -> None:
    clean = folder / "clean"
    clean.mkdir()
    new_ledger(named(clean, form))
    promised = 0
    for step in steps:
        with told(f"killed before {step}"):
            place = folder / f"{step.call}-{step.nth}"
            shutil.copytree(clean, place)
            child = run(named(place, form), WORK, prefix=inject(step.call, "signal=KILL", step.nth))
            assert child.status == -signal.SIGKILL
            after_fault(named(place, form), child.acknowledged, batch=GROUP)
            promised += len(child.acknowledged)
    assert promised, "some of them came to acknowledge something"


@pytest.mark.needs_root
@pytest.mark.parametrize("form", FORMS)
def test_a_creator_killed_where_its_work_turns_leaves_a_ledger_or_room_for_one(quick_folder: Path, form: str) -> None:
    need_strace()
    _kill_a_creator_at(turning_points(_creation(quick_folder, form), most=6), quick_folder, form)


@pytest.mark.long
@pytest.mark.needs_root
@pytest.mark.parametrize("form", FORMS)
def test_a_creator_killed_at_any_step_leaves_a_ledger_or_room_for_one(quick_folder: Path, form: str) -> None:
    need_strace()
    _kill_a_creator_at(_creation(quick_folder, form), quick_folder, form)


def _creation(folder: Path, form: str) -> list[Step]:
    traced = folder / "traced"
    traced.mkdir()
    return steps_of(named(traced, form), ["create"], folder / "trace")


def _kill_a_creator_at(steps: Iterable[Step], folder: Path, form: str) -> None:
    outcomes = set()
    for step in steps:
        with told(f"killed before {step}"):
            place = folder / f"{step.call}-{step.nth}"
            place.mkdir()
            path = named(place, form)
            child = run(path, ["create"], prefix=inject(step.call, "signal=KILL", step.nth))
            assert child.status == -signal.SIGKILL
            outcomes.add(path.exists())
            if not path.exists():
                with pytest.raises(UsageError, match="no ledger at"):
                    writer.reopen(path)
                new_ledger(path)
            after_fault(path, {}, batch=0)
    assert outcomes == {True, False}


@pytest.mark.parametrize("form", FORMS)
def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged(quick_folder: Path, form: str) -> None:
    _kill_by_chance(new_ledger(named(quick_folder, form)), random.Random(SEED), rounds=6)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_a_writer_killed_two_hundred_times_loses_nothing_acknowledged(quick_folder: Path, form: str) -> None:
    for seed in range(20):
        folder = quick_folder / f"{seed}"
        folder.mkdir()
        with told(f"seed {seed}"):
            _kill_by_chance(new_ledger(named(folder, form)), random.Random(seed), rounds=10)


def _kill_by_chance(path: Path, chance: random.Random, *, rounds: int) -> None:
    promised: Acknowledged = {}
    for turn in range(1, rounds + 1):
        with told(f"in round {turn}"), opened(path) as child:
            child.tell("append 100000 3 700")
            for _ in range(chance.randrange(1, 12)):
                assert child.hear("ack ")
            time.sleep(chance.random() * 0.004)
            child.kill()
            child.finish()
            assert child.stderr == b""
            promised |= child.acknowledged
            # In each round at most one group was under way, and the look afterwards adds an entry.
            after_fault(path, promised, batch=4 * turn)


def test_of_four_writers_one_is_killed_and_the_others_go_on(quick_folder: Path) -> None:
    path = new_ledger(named(quick_folder, "sqlite"))
    with ExitStack() as stack:
        victim, *others = [stack.enter_context(opened(path)) for _ in range(4)]
        victim.tell("append 100000 3 300")
        for other in others:
            other.tell("append 60 3 300")
        for _ in range(10):
            assert victim.hear("ack ")
        victim.kill()
        for other in others:
            assert other.hear("done"), other.refusals
            other.tell("close")
            assert other.hear("closed")
        victim.finish()
    promised = {seq: leaf for child in (victim, *others) for seq, leaf in child.acknowledged.items()}
    assert len(promised) == sum(len(child.acknowledged) for child in (victim, *others))
    after_fault(path, promised, batch=3)


def test_a_look_after_a_fault_sees_what_is_missing(quick_folder: Path) -> None:
    path = new_ledger(named(quick_folder, "sqlite"))
    child = run(path, ["open", "append 3 1 300", "close"])
    with pytest.raises(AssertionError, match="acknowledged and lost"):
        after_fault(path, child.acknowledged | {4: "00" * 32}, batch=0)
    with pytest.raises(AssertionError, match="nobody was promised"):
        after_fault(path, {}, batch=2)
