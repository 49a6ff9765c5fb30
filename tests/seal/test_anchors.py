import os
import stat
from pathlib import Path

import pytest

from hansard.errors import StoreError
from hansard.seal import anchors
from hansard.seal.anchors import Anchor
from hansard.seal.signing import SigningKey, sign_checkpoint

ORIGIN = "log.example/anchors"
KEY = SigningKey.generate(ORIGIN)


def note(size: int, root: bytes = bytes(32)) -> str:
    return sign_checkpoint(ORIGIN, size, root, [KEY])


def check(anchor: Anchor, size: int, root: bytes = bytes(32)) -> None:
    asked: list[int] = []

    def root_at(at: int) -> bytes:
        asked.append(at)
        return root

    anchors.check(anchor, origin=ORIGIN, size=size, root_at=root_at, place="x.db")
    assert asked == [anchor.checkpoint.size]


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    assert anchors.read(tmp_path) is None
    anchors.keep(tmp_path, note(5))
    kept = anchors.keep(tmp_path, note(7))
    assert anchors.read(tmp_path) == kept
    assert kept.checkpoint.size == 7
    [path] = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("size", [7, 8, 1000])
def test_a_log_that_extends_the_anchor_passes(tmp_path: Path, size: int) -> None:
    check(anchors.keep(tmp_path, note(7)), size)


def test_a_shorter_log_is_refused_and_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"ROLLED BACK: x\.db has 6 entries.*saw 7.*newer file.*hansard ledger adopt x\.db"
    ):
        check(anchors.keep(tmp_path, note(7)), 6)


def test_another_log_of_the_same_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"FORKED: x\.db.*at 7 entries.*hansard ledger adopt"):
        check(anchors.keep(tmp_path, note(7)), 9, b"\x01" * 32)


def test_an_anchor_of_another_origin_is_refused(tmp_path: Path) -> None:
    anchor = anchors.keep(tmp_path, sign_checkpoint("log.example/other", 7, bytes(32), [KEY]))
    with pytest.raises(StoreError, match=r"is of log\.example/other"):
        check(anchor, 9)


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"not a note", note(7).encode()[:-10]])
def test_an_anchor_that_cannot_be_read_is_refused_and_not_taken_for_none(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "last-checkpoint").write_bytes(raw)
    (tmp_path / "last-checkpoint").chmod(0o600)
    with pytest.raises(StoreError, match="cannot be read"):
        anchors.read(tmp_path)


def test_an_anchor_that_others_can_change_is_refused(tmp_path: Path) -> None:
    anchors.keep(tmp_path, note(7))
    (tmp_path / "last-checkpoint").chmod(0o666)
    with pytest.raises(StoreError, match="has mode 0666"):
        anchors.read(tmp_path)


def test_the_new_anchor_is_synced_before_it_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def watched_sync(fd: int) -> None:
        done.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")
        sync(fd)

    def watched_replace(old: Path, new: Path) -> None:
        done.append(f"rename {old.name} {new.name}")
        replace(old, new)

    anchors.keep(tmp_path, note(5))
    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "replace", watched_replace)
    anchors.keep(tmp_path, note(7))
    names = ("last-checkpoint.new", "last-checkpoint")
    assert done == [f"sync {names[0]}", f"rename {names[0]} {names[1]}", f"sync {tmp_path.name}"]


def test_what_a_crash_left_of_the_last_attempt_does_not_hinder_the_next(tmp_path: Path) -> None:
    anchors.keep(tmp_path, note(5))
    (tmp_path / "last-checkpoint.new").write_text("half")
    found = anchors.read(tmp_path)
    assert found is not None
    assert found.checkpoint.size == 5
    anchors.keep(tmp_path, note(7))
    assert [path.name for path in tmp_path.iterdir()] == ["last-checkpoint"]
