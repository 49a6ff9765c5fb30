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


def fifty() -> Log:
    """50 entries with bodies of 16 bytes, two epochs, a redaction, and a tail that no checkpoint covers."""
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


def flips(path: Path, step: int, mask: int) -> Iterator[tuple[Path, int, Report]]:
    """Flip every step-th byte of every file in turn, and each file's last, and verify."""
    for file in files(path):
        data = file.read_bytes()
        for at in {*range(0, len(data), step), len(data) - 1} if data else ():
            handle = os.open(file, os.O_WRONLY)
            os.pwrite(handle, bytes([data[at] ^ mask]), at)
            yield file, at, verify(path, ALL, FAST)
            os.pwrite(handle, data[at : at + 1], at)
            os.close(handle)


def assert_every_flip_is_seen(form: str, folder: Path, step: int, mask: int) -> None:
    path = written(form, folder)
    assert verify(path, ALL, FAST).findings == ()
    unseen = [(file.name, at) for file, at, report in flips(path, step, mask) if not report.findings]
    assert {name for name, _ in unseen} == (OUTSIDE if form == "export" else set())
    assert verify(path, ALL, FAST).findings == ()


@pytest.mark.parametrize("form", ["jsonl", "export"])
def test_a_sample_of_flipped_bytes_is_seen(tmp_path: Path, form: str) -> None:
    assert_every_flip_is_seen(form, tmp_path, 149, 0x01)


@pytest.mark.long
@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
@pytest.mark.parametrize("form", ["jsonl", "export"])
def test_every_flipped_byte_is_seen(tmp_path: Path, form: str, mask: int) -> None:
    assert_every_flip_is_seen(form, tmp_path, 1, mask)


@pytest.mark.parametrize("form", ["jsonl", "export"])
def test_a_flip_that_breaks_no_more_than_a_signature_line_costs_the_seal(tmp_path: Path, form: str) -> None:
    """The one kind of flip that is no failure by itself: a signature that no longer names its key is a stranger's."""
    path = written(form, tmp_path)
    softer = set()
    for file, _, report in flips(path, 53, 0x02):
        if report.ok and report.findings:
            softer |= {(file.name, each.code, each.grade) for each in report.findings}
    assert softer <= {("x.checkpoints.jsonl", "half_signed", "warning"), ("checkpoints.jsonl", "half_signed", "warning")}
