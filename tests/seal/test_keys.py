import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from hansard.errors import StoreError
from hansard.seal import keys
from hansard.seal.keys import KeyRing
from hansard.seal.signing import SigningKey

ORIGIN = "log.example/keys"


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing.create(tmp_path / "state" / "log", ORIGIN)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with pytest.raises(StoreError, match="is not a folder; give keys a folder of their own"):
        KeyRing.create(tmp_path / "log", ORIGIN)


def test_keys_are_made_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ring = KeyRing.create(tmp_path / "state" / "log", ORIGIN)
        ring.make_epoch(1)
    finally:
        os.umask(before)
    assert mode(ring.folder) == 0o700
    assert {path.name: mode(path) for path in ring.folder.iterdir()} == {
        "identity.key": 0o600,
        "epoch-0.key": 0o600,
        "epoch-1.key": 0o600,
    }


def test_keys_are_read_back_under_the_names_of_the_log(ring: KeyRing) -> None:
    again = KeyRing.open(ring.folder, ORIGIN)
    first = again.epoch(0)
    assert first is not None
    assert again.identity.verifier.name == ORIGIN
    assert first.verifier.name == f"{ORIGIN}/epoch/0"
    assert again.identity.verifier == ring.identity.verifier != first.verifier


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o610])
def test_a_key_that_others_can_reach_is_refused(ring: KeyRing, bits: int) -> None:
    (ring.folder / "identity.key").chmod(bits)
    with pytest.raises(StoreError, match=f"identity.key has mode {bits:04o}.*chmod 0600"):
        _ = ring.identity
    (ring.folder / "epoch-0.key").chmod(bits)
    with pytest.raises(StoreError, match="others can read"):
        ring.epoch(0)


@pytest.mark.parametrize("bits", [0o750, 0o705, 0o711])
def test_a_folder_that_others_can_reach_is_refused(ring: KeyRing, bits: int) -> None:
    ring.folder.chmod(bits)
    with pytest.raises(StoreError, match=f"has mode {bits:04o}.*chmod 0700"):
        KeyRing.open(ring.folder, ORIGIN)
    with pytest.raises(StoreError, match="others can read"):
        KeyRing.create(ring.folder, ORIGIN)


def test_a_key_of_another_user_is_refused(ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StoreError, match="belongs to user"):
        _ = ring.identity
    with pytest.raises(StoreError, match="belongs to user"):
        KeyRing.open(ring.folder, ORIGIN)


def test_a_link_in_the_place_of_a_key_is_not_followed(ring: KeyRing) -> None:
    moved = ring.folder / "elsewhere"
    (ring.folder / "epoch-0.key").rename(moved)
    (ring.folder / "epoch-0.key").symlink_to(moved)
    with pytest.raises(StoreError, match="cannot use"):
        ring.epoch(0)


def test_a_file_that_holds_no_ed25519_key_is_refused(ring: KeyRing) -> None:
    (ring.folder / "identity.key").write_text("not a key")
    with pytest.raises(StoreError, match=f"key {ORIGIN} holds no readable private key"):
        _ = ring.identity


def test_missing_keys_are_named(ring: KeyRing) -> None:
    with pytest.raises(StoreError, match="no keys of"):
        KeyRing.open(ring.folder.parent / "other", ORIGIN)
    (ring.folder / "identity.key").unlink()
    with pytest.raises(StoreError, match=r"bring the file back.* `hansard ledger adopt`"):
        _ = ring.identity
    assert ring.epoch(7) is None


def test_an_existing_key_is_never_overwritten(ring: KeyRing) -> None:
    before = {path: path.read_bytes() for path in ring.folder.iterdir()}
    with pytest.raises(StoreError, match="exists already"):
        KeyRing.create(ring.folder, ORIGIN)
    with pytest.raises(StoreError, match="exists already"):
        ring.make_epoch(0)
    assert {path: path.read_bytes() for path in ring.folder.iterdir()} == before


def test_a_pipe_in_the_place_of_a_key_to_be_destroyed_holds_nobody(ring: KeyRing) -> None:
    os.mkfifo(ring.folder / "epoch-1.key", 0o600)
    with pytest.raises(StoreError, match=r"cannot use .*epoch-1\.key"):
        ring.destroy_epoch(1)


def test_a_destroyed_key_is_overwritten_before_its_name_goes(ring: KeyRing, tmp_path: Path) -> None:
    os.link(ring.folder / "epoch-0.key", tmp_path / "same-blocks")
    length = (tmp_path / "same-blocks").stat().st_size
    ring.destroy_epoch(0)
    assert ring.epochs() == []
    assert (tmp_path / "same-blocks").read_bytes() == bytes(length)
    ring.destroy_epoch(0)


def test_a_new_key_and_its_name_are_synced_before_anyone_is_told(
    ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def watched(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    ring.make_epoch(1)
    assert synced == [str(ring.folder / "epoch-1.key"), str(ring.folder)]


def test_a_key_that_could_not_be_made_durable_leaves_nothing_behind(
    ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"epoch-1\.key: No space left"):
            ring.make_epoch(1)
    assert ring.epochs() == [0]
    ring.make_epoch(1)


def test_only_key_files_count_as_epochs(ring: KeyRing) -> None:
    for name in ("epoch-07.key", "epoch-x.key", "epoch-3.key.new", "epoch-12.key"):
        (ring.folder / name).touch()
    assert ring.epochs() == [0, 12]


def test_two_processes_do_not_change_keys_at_once(ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "LOCK_WAIT_S", 0.05)
    with ring.locked(), pytest.raises(StoreError, match="another process changes the keys"), ring.locked():
        pass
    fd = os.open(ring.folder / "lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


def test_a_folder_that_went_away_is_told_and_not_a_traceback(ring: KeyRing) -> None:
    moved = ring.folder.rename(ring.folder.with_name("moved"))
    with pytest.raises(StoreError, match=r"cannot use .*lock"), ring.locked():
        pass
    with pytest.raises(StoreError, match="cannot read"):
        ring.epochs()
    with pytest.raises(StoreError, match="cannot use"):
        ring.make_epoch(1)
    moved.rename(ring.folder)
    (ring.folder / "epoch-1.key").mkdir(mode=0o700)
    with pytest.raises(StoreError, match="not a plain file"):
        ring.epoch(1)
    os.mkfifo(ring.folder / "epoch-2.key", 0o600)
    with pytest.raises(StoreError, match="not a plain file"):
        ring.epoch(2)


def test_a_key_shows_its_public_half_only(ring: KeyRing) -> None:
    key = ring.identity
    seed = key.private.private_bytes_raw()
    shown = repr(key) + repr(ring)
    assert key.verifier.name in shown
    assert not any(each in shown for each in (seed.hex(), repr(seed)[2:-1], "PRIVATE"))


def test_a_private_key_file_is_plain_pkcs_8(ring: KeyRing) -> None:
    pem = (ring.folder / "epoch-0.key").read_bytes()
    assert pem.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert SigningKey.from_pem(f"{ORIGIN}/epoch/0", pem).pem() == pem
