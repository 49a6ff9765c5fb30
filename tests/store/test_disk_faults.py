"""Disks that fail, for real: full, refusing to sync, writing by halves, without power, suddenly read-only.

After each: a clear error and no traceback; then the ledger opens, verifies, and holds every acknowledged entry.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest

from hansard.errors import StoreError
from store import writer
from store.disks import Ext4, halving_disk, make_space, tmpfs
from store.faults import FORMS, Acknowledged, Child, after_fault, named, new_ledger, opened, run, told
from store.tracing import inject, need_strace, steps_of

pytestmark = pytest.mark.needs_root

SEED = 20_261_115
WORK = ("open", "append 3 2 300", "append 1 1 20000", "append 2 1 300", "close")
GROUP = 2


def assert_clear(child: Child) -> None:
    """Whatever was refused was refused as the store's trouble, in words, and nothing else went wrong."""
    assert child.stderr == b"", child.stderr.decode()
    for refusal in child.refusals:
        _, kind, message = refusal.split(" ", 2)
        assert kind in ("StoreError", "Unavailable", "OutcomeUnknown"), refusal
        assert "log" in message, "it says which ledger"


@pytest.mark.parametrize("size", [300, 5_000, 40_000])
@pytest.mark.parametrize("form", FORMS)
def test_on_a_full_disk_appending_is_refused_and_goes_on_when_there_is_space(
    tmp_path: Path, form: str, size: int
) -> None:
    with tmpfs(tmp_path / "full", 1024) as place:
        path = new_ledger(named(place, form))
        with opened(path) as child:
            child.tell(f"append 100000 2 {size}")
            assert child.hear("refused "), child.stderr
            before = len(child.acknowledged)
            # Something smaller may still fit, or not; either way it must be told.
            if child.ask("append 1 1 200").startswith("ack "):
                assert child.hear("done")
            make_space(place)
            child.tell(f"append 3 2 {size}")
            assert child.hear("done"), child.refusals
            child.tell("close")
            assert child.hear("closed")
            child.finish()
        assert_clear(child)
        assert len(child.acknowledged) >= before + 6
        # Of each refused group at most all may have come through all the same.
        after_fault(path, child.acknowledged, batch=GROUP * len(child.refusals))


def test_a_database_that_finds_no_space_to_be_opened_says_so(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "full", 512) as place:
        path = new_ledger(named(place, "sqlite"))
        _fill(place)
        assert "see whether its disk is full" in _open(path)


@pytest.mark.parametrize("form", FORMS)
def test_a_ledger_that_finds_no_space_to_be_made_leaves_nothing_of_itself(tmp_path: Path, form: str) -> None:
    with tmpfs(tmp_path / "full", 64) as place:
        _fill(place)
        with pytest.raises(StoreError, match="log"):
            new_ledger(named(place, form))
        assert {each.name for each in place.iterdir()} <= {"fill", "log.lock", "log.db.lock"}
        make_space(place)
        new_ledger(named(place, form))


def test_a_database_that_is_made_and_finds_no_space_to_be_opened_says_so(tmp_path: Path) -> None:
    said = set[str]()
    for pages in range(8, 80, 4):
        with tmpfs(tmp_path / f"{pages}", pages * 4) as place:
            try:
                new_ledger(named(place, "sqlite"))
            except StoreError as error:
                said.add(" ".join(str(error).split()[:2]))
    assert said == {"cannot create", "cannot open"}


@pytest.mark.parametrize("form", FORMS)
def test_a_ledger_whose_name_may_not_last_is_not_made(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def failing(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), tmp_path.stat()):
            raise OSError(5, "Input/output error")
        sync(fd)

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", failing)
        with pytest.raises(StoreError, match="Input/output error"):
            new_ledger(named(tmp_path, form))
    new_ledger(named(tmp_path, form))


def _fill(place: Path) -> None:
    with suppress(OSError), (place / "fill").open("wb", buffering=0) as fill:
        while fill.write(bytes(4 << 10)):
            pass


@pytest.mark.parametrize("form", FORMS)
def test_a_writer_killed_on_a_full_disk_loses_nothing_acknowledged(tmp_path: Path, form: str) -> None:
    with tmpfs(tmp_path / "full", 1024) as place:
        path = new_ledger(named(place, form))
        with opened(path) as child:
            child.tell("append 100000 1 900")
            assert child.hear("refused "), child.stderr
            child.kill()
            child.finish()
        assert_clear(child)
        assert child.acknowledged
        assert "log" in _open(path), "full or not, it opens or says what is the matter"
        make_space(place)
        after_fault(path, child.acknowledged, batch=1)


def _open(path: Path) -> str:
    """What is said when it is opened: where it lies, or what is the matter with it."""
    try:
        with closing(writer.reopen(path)) as store:
            return store.place
    except StoreError as error:
        return str(error)


@pytest.mark.parametrize("form", FORMS)
def test_a_sync_that_fails_is_never_taken_for_one_that_succeeded(quick_folder: Path, form: str) -> None:
    _fail_each(_syncs(quick_folder, form)[::4], quick_folder, form)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_whichever_sync_fails_is_never_taken_for_one_that_succeeded(quick_folder: Path, form: str) -> None:
    _fail_each(_syncs(quick_folder, form), quick_folder, form)


def _fail_each(syncs: list[tuple[str, int]], folder: Path, form: str) -> None:
    refusals = 0
    for call, when in syncs:
        with told(f"{call} {when} gave EIO"):
            refusals += len(_fail_sync(folder, form, call, when).refusals)
    assert refusals, "some of them were commits, and were refused"


def _syncs(folder: Path, form: str) -> list[tuple[str, int]]:
    need_strace()
    traced = folder / "traced"
    traced.mkdir()
    steps = steps_of(new_ledger(named(traced, form)), WORK, folder / "trace")
    counted = Counter(step.call for step in steps if step.call in ("fsync", "fdatasync"))
    assert counted["fdatasync"] >= 6, "a commit is a sync"
    return [(call, nth) for call, count in counted.items() for nth in range(1, count + 1)]


def _fail_sync(folder: Path, form: str, call: str, when: int | str) -> Child:
    place = folder / f"{call}-{when}"
    place.mkdir()
    path = new_ledger(named(place, form))
    child = run(path, WORK, prefix=inject(call, "error=EIO", when))
    assert_clear(child)
    after_fault(path, child.acknowledged, batch=GROUP * len(child.refusals))
    return child


@pytest.mark.parametrize("form", FORMS)
def test_on_a_disk_that_never_syncs_nothing_is_acknowledged(quick_folder: Path, form: str) -> None:
    need_strace()
    child = _fail_sync(quick_folder, form, "fdatasync", "1+")
    assert not child.acknowledged
    assert child.refusals


@pytest.mark.parametrize("form", FORMS)
def test_short_writes_are_gone_on_with(quick_folder: Path, form: str) -> None:
    path = new_ledger(named(quick_folder, form))
    env = {"LD_PRELOAD": str(halving_disk(quick_folder)), "TORN_NAME": f"{quick_folder}/log"}
    env |= {"TORN_AT": "1", "TORN_EVERY": "2"}
    assert _bytes_written(f"{quick_folder}/log.try", env) == "4 8 4"
    child = run(path, WORK, env=env)
    assert child.stderr == b""
    assert not child.refusals
    assert len(child.acknowledged) == 9
    after_fault(path, child.acknowledged, batch=0)


def _bytes_written(path: str, env: dict[str, str]) -> str:
    """What such a disk says of three writes of eight bytes."""
    program = "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); print(*[os.write(fd, bytes(8)) for _ in range(3)])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, path], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("form", FORMS)
def test_a_write_torn_in_the_middle_loses_nothing_acknowledged(quick_folder: Path, form: str) -> None:
    _tear(quick_folder, form, every=9)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_any_write_torn_in_the_middle_loses_nothing_acknowledged(quick_folder: Path, form: str) -> None:
    _tear(quick_folder, form, every=1)


def _tear(folder: Path, form: str, *, every: int) -> None:
    library = halving_disk(folder)
    clean = folder / "clean"
    clean.mkdir()
    new_ledger(named(clean, form))
    for at in range(1, 1000, every):
        with told(f"write {at} was torn"):
            place = folder / f"{at}"
            shutil.copytree(clean, place)
            env = {"LD_PRELOAD": str(library), "TORN_NAME": str(place), "TORN_AT": f"{at}", "TORN_EXIT": "1"}
            child = run(named(place, form), WORK, env=env)
            assert_clear(child)
            after_fault(named(place, form), child.acknowledged, batch=GROUP)
            if child.status == 0:
                break
            assert child.status == 75
    assert at > 10, "some writes were torn"


@pytest.mark.parametrize("form", FORMS)
def test_a_power_cut_takes_nothing_that_was_acknowledged(tmp_path: Path, form: str) -> None:
    _cut_the_power(tmp_path, form, random.Random(SEED), rounds=4)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_sixty_power_cuts_take_nothing_that_was_acknowledged(tmp_path: Path, form: str) -> None:
    for seed in range(6):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        with told(f"seed {seed}"):
            _cut_the_power(folder, form, random.Random(seed), rounds=10)


def _cut_the_power(folder: Path, form: str, chance: random.Random, *, rounds: int) -> None:
    disk = Ext4(folder)
    promised: Acknowledged = {}
    for turn in range(1, rounds + 1):
        with told(f"in round {turn}"):
            with disk.mounted() as place, Child(named(place, form)) as child:
                # Made by the process whose power is cut: what was only just created is easily lost.
                child.tell("open" if named(place, form).exists() else "create")
                assert child.hear("ready "), child.refusals
                child.tell("append 100000 2 600")
                for _ in range(chance.randrange(1, 40)):
                    assert child.hear("ack ")
                # Stopped wherever it is, but not inside a sync: ext4 lets one that meets the shutdown succeed, and keeps
                # nothing of it. A loop of bare pwrite and fdatasync loses what it was promised there, too.
                child.stop()
                disk.cut_the_power()
                child.signal(signal.SIGCONT)
                assert child.hear("refused "), child.stderr
                child.kill()
                child.finish()
            assert_clear(child)
            promised |= child.acknowledged
            with disk.mounted() as place:
                after_fault(named(place, form), promised, batch=3 * turn)


@pytest.mark.parametrize("form", FORMS)
def test_a_disk_that_turns_read_only_is_told_and_goes_on_when_it_is_writable_again(tmp_path: Path, form: str) -> None:
    disk = Ext4(tmp_path)
    with disk.mounted() as place:
        path = new_ledger(named(place, form))
        with opened(path) as child:
            assert child.ask("append 2 1 300").startswith("ack ")
            assert child.hear("done")
            disk.make_read_only()
            assert child.ask("append 1 1 300").startswith("refused ")
            assert child.ask("append 1 1 300").startswith("refused ")
            child.kill()
            child.finish()
        assert_clear(child)
        with pytest.raises(StoreError, match=r"(?i)read-?only"):
            writer.reopen(path)
    with disk.mounted() as place:
        after_fault(path, child.acknowledged, batch=1)
