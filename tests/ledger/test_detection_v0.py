"""The column of the detection table for a verifier who has the files only, over ledgers made by hand in every form.

K is caught, - is not. The cells that say "-" are claims like the others.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hansard.ledger.verify import Options, verify
from specimens import FAST, Log, honest

FORMS = ("sqlite", "jsonl", "export")
ALL = Options(deep=True, all_signatures=True)


def written(log: Log, folder: Path, form: str) -> Path:
    if form == "sqlite":
        return log.write_sqlite(folder / "x.db")
    return log.write_jsonl(folder / "x.jsonl") if form == "jsonl" else log.write_export(folder / "x")


def edited(log: Log) -> None:
    log.edit(7, lambda entry: entry["data"].update(task="t9"))


def edited_and_rechained(log: Log) -> None:
    edited(log)
    log.rechain(8)


def dropped(log: Log) -> None:
    del log.lines[7]
    log.bodies = {place: body for place, body in log.bodies.items() if place[0] != 7}
    log.bodies = {(seq - (seq > 7), part): body for (seq, part), body in log.bodies.items()}


def dropped_and_rechained(log: Log) -> None:
    dropped(log)
    log.edit(7, lambda entry: entry.update(causes=[]))
    log.rechain(7)


def reordered(log: Log) -> None:
    log.lines[7], log.lines[8] = log.lines[8], log.lines[7]


def inserted(log: Log) -> None:
    log.lines.insert(8, log.lines[7])
    log.bodies = {(seq + (seq > 7), part): body for (seq, part), body in log.bodies.items()}


def clock_backwards(log: Log) -> None:
    log.edit(7, lambda entry: entry.update(ts=1))


def body_swapped(log: Log) -> None:
    log.bodies[7, "prompt"] = replace(log.bodies[7, "prompt"], body=b"other")


def body_deleted(log: Log) -> None:
    del log.bodies[7, "prompt"]


def tail_cut(log: Log) -> None:
    log.cut(35)


CAUGHT = [
    edited, edited_and_rechained, dropped, dropped_and_rechained, reordered, inserted,
    clock_backwards, body_swapped, body_deleted, tail_cut,
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attack", CAUGHT, ids=lambda attack: attack.__name__)
def test_what_the_files_alone_betray_is_caught(tmp_path: Path, form: str, attack: Callable[[Log], None]) -> None:
    log = honest()
    assert verify(written(log, tmp_path, form), ALL, FAST).findings == ()
    attack(log)
    (tmp_path / "after").mkdir()
    published = None if attack is not tail_cut else log.checkpoints[-2]
    path = (
        log.write_export(tmp_path / "after" / "x", published=published)
        if form == "export"
        else written(log, tmp_path / "after", form)
    )
    report = verify(path, ALL, FAST)
    assert not report.ok
    assert report.exit_code == (22 if attack is body_deleted else 20)
    assert report.first_bad is not None


def cut_with_its_checkpoints(log: Log) -> Log:
    log.cut(25)
    del log.checkpoints[3:]
    return log


def rebuilt_under_new_keys(log: Log) -> Log:
    forged = Log.begun(seed="somebody else")
    forged.grow(39)
    forged.checkpoint()
    return forged


def rebuilt_without_keys(log: Log) -> Log:
    forged = Log.begun(signed=False)
    forged.grow(39)
    return forged


def rebuilt_with_todays_keys(log: Log) -> Log:
    """Today's identity and epoch key; the genesis names the one as if it had been the first."""
    forged = Log.begun(epoch_seed="today")
    forged.grow(39)
    forged.checkpoint()
    return forged


def rebuilt_with_every_key(log: Log) -> Log:
    forged = Log.begun()
    forged.grow(5)
    forged.rotate()
    forged.grow(5)
    forged.rotate()
    forged.grow(27)
    forged.checkpoint()
    return forged


def newest_epoch_rebuilt_without_keys(log: Log) -> Log:
    log.cut(31)
    del log.checkpoints[4:]
    log.grow(20)
    return log


def newest_epoch_rebuilt_with_todays_keys(log: Log) -> Log:
    forged = newest_epoch_rebuilt_without_keys(log)
    forged.checkpoint()
    return forged


def never_recorded(log: Log) -> Log:
    return honest()


def false_content(log: Log) -> Log:
    log.append("task.answered", bodies={"output": b"all tests passed, honestly"})
    log.checkpoint()
    return log


NOT_CAUGHT = [
    cut_with_its_checkpoints, rebuilt_under_new_keys, rebuilt_without_keys, rebuilt_with_todays_keys, rebuilt_with_every_key,
    newest_epoch_rebuilt_without_keys, newest_epoch_rebuilt_with_todays_keys, never_recorded, false_content,
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attack", NOT_CAUGHT, ids=lambda attack: attack.__name__)
def test_what_the_files_alone_cannot_betray_is_not_claimed(
    tmp_path: Path, form: str, attack: Callable[[Log], Log]
) -> None:
    report = verify(written(attack(honest()), tmp_path, form), ALL, FAST)
    assert report.ok
    assert report.findings == ()
    assert any("no pin" in each or "unsigned" in each for each in report.not_proven)
    assert any("newest state" in each for each in report.not_proven)
    assert any("true" in each for each in report.not_proven)
