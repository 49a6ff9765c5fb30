"""Each byte of a record counts: flip it and the verdict changes, or it is provably outside the record."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansard.ledger.report import Report
from hansard.ledger.verify import Options, verify
from specimens import FAST, Log

ALL = Options(deep=True, all_signatures=True)
OUTSIDE = {"README.txt", "verify.pyz"}
"""The files of an export that are not part of the record ([X3]); every byte of every other file is."""

WARNED = {"half_signed", "unsealed_rotation", "torn_tail"}
"""Where a flip is no failure by itself but costs a seal: a signature line that names no key of the log any more is a
stranger's; and the last checkpoint of a live file, when its line end is gone, is a torn tail."""


def fifty() -> Log:
    """50 entries with bodies of 16 bytes, two epochs and a redaction, sealed to the end."""
    log = Log.begun()
    log.grow(12)
    log.checkpoint()
    log.grow(6)
    log.rotate()
    log.append(bodies={"output": b"\xff" + b"bytes, not text", "prompt": b"0123456789abcdef"})
    log.grow(20)
    log.redact(5, "prompt")
    log.checkpoint()
    log.grow(50 - log.size)
    log.checkpoint()
    return log


def written(form: str, folder: Path) -> Path:
    log = fifty()
    if form == "jsonl":
        return log.write_jsonl(folder / "x.jsonl")
    path = log.write_export(folder / "x")
    (path / "verify.pyz").write_bytes(b"not part of the record")
    return path


def files(path: Path) -> list[Path]:
    found = path.rglob("*") if path.is_dir() else path.parent.glob("x.*")
    return sorted(each for each in found if each.is_file())


def flips(path: Path, first: int, step: int, mask: int) -> Iterator[tuple[Path, Report]]:
    """Flip every step-th byte of every file in turn, and each file's last, and verify."""
    for file in files(path):
        data = file.read_bytes()
        for at in {*range(first, len(data), step), len(data) - 1} if data else ():
            handle = os.open(file, os.O_WRONLY)
            os.pwrite(handle, bytes([data[at] ^ mask]), at)
            yield file, verify(path, ALL, FAST)
            os.pwrite(handle, data[at : at + 1], at)
            os.close(handle)


def assert_every_flip_is_seen(form: str, folder: Path, *, first: int, step: int, mask: int) -> None:
    path = written(form, folder)
    assert verify(path, ALL, FAST).findings == ()
    unseen, only_warned = set(), set()
    for file, report in flips(path, first, step, mask):
        if not report.findings:
            unseen.add(file.name)
        elif report.ok:
            only_warned |= {each.code for each in report.findings}
    assert unseen == (OUTSIDE if form == "export" else set())
    assert only_warned <= WARNED
    assert verify(path, ALL, FAST).findings == ()


@pytest.mark.parametrize("form", ["jsonl", "export"])
def test_a_sample_of_flipped_bytes_is_seen(tmp_path: Path, form: str) -> None:
    assert_every_flip_is_seen(form, tmp_path, first=0, step=149, mask=0x01)


@pytest.mark.long
@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("form", ["jsonl", "export"])
def test_every_flipped_byte_is_seen(tmp_path: Path, form: str, first: int) -> None:
    assert_every_flip_is_seen(form, tmp_path, first=first, step=4, mask=0x01)


@pytest.mark.long
@pytest.mark.parametrize("mask", [0x20, 0x80, 0xFF])
@pytest.mark.parametrize("form", ["jsonl", "export"])
def test_other_bits_of_a_byte_count_too(tmp_path: Path, form: str, mask: int) -> None:
    assert_every_flip_is_seen(form, tmp_path, first=1, step=11, mask=mask)


def test_the_last_entry_is_held_by_its_checkpoint_and_by_nothing_else(tmp_path: Path) -> None:
    """What follows an entry covers it. Past the last checkpoint nothing follows the last one, and the report says so."""
    log = fifty()
    log.checkpoints.pop()
    path = log.write_jsonl(tmp_path / "x.jsonl")
    data = path.read_bytes()
    at = data.rindex(b'"cost_usd_nano":') + 17
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    report = verify(path, ALL, FAST)
    assert report.findings == ()
    assert any(f"{report.unsealed_tail} entries past size" in each for each in report.not_proven)
