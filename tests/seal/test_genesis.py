from pathlib import Path

import pytest

from hansard.errors import UsageError
from hansard.ledger.checkpoint import Checkpoint
from hansard.ledger.events import Genesis, read_event
from hansard.ledger.note import VerifierKey
from hansard.record import codec
from hansard.seal.genesis import MAX_ORIGIN, checked_origin, found


def test_a_log_is_founded_with_keys_outside_it_that_its_first_entry_names(tmp_path: Path) -> None:
    genesis, ring = found(lambda nonce: tmp_path / nonce, None, "test")
    assert ring is not None
    assert ring.folder == tmp_path / genesis.nonce
    assert genesis.origin == ring.origin == f"hansard.invalid/{genesis.nonce}"
    first = ring.epoch(0)
    assert first is not None
    assert genesis.identity == ring.identity.verifier.text()
    assert genesis.epoch_key == first.verifier.text()
    assert (genesis.custody, genesis.spec, len(bytes.fromhex(genesis.nonce))) == ("file", 1, 16)


def test_two_logs_share_neither_nonce_nor_keys(tmp_path: Path) -> None:
    one, other = (found(lambda nonce: tmp_path / nonce, "log.example/x", "test")[0] for _ in range(2))
    assert one.nonce != other.nonce
    assert one.identity != other.identity


def test_an_unsigned_log_names_no_key_and_makes_none(tmp_path: Path) -> None:
    genesis, ring = found(lambda nonce: tmp_path / nonce, None, "test", signed=False)
    assert (genesis.custody, genesis.identity, genesis.epoch_key, ring) == ("none", None, None, None)
    assert not list(tmp_path.iterdir())


def test_a_log_that_adopts_another_names_its_last_state(tmp_path: Path) -> None:
    old = Checkpoint(origin="log.example/old", size=41, root=b"\x07" * 32)
    genesis, _ = found(lambda nonce: tmp_path / nonce, None, "test", old)
    assert (genesis.adopts_origin, genesis.adopts_size, genesis.adopts_root) == ("log.example/old", 41, "07" * 32)


@pytest.mark.parametrize("origin", ["", "a b", "a+b", "a\nb", "a\u2003b", "a\x00b", "\ud800", "x" * (MAX_ORIGIN + 1)])
def test_an_origin_that_cannot_name_a_key_is_refused_before_a_key_is_made(tmp_path: Path, origin: str) -> None:
    with pytest.raises(UsageError, match="origin"):
        found(lambda nonce: tmp_path / nonce, origin, "test")
    assert not list(tmp_path.iterdir())


def test_the_longest_origin_still_gives_a_first_entry_that_can_be_recorded(tmp_path: Path) -> None:
    origin = checked_origin("x" * MAX_ORIGIN)
    genesis, _ = found(lambda nonce: tmp_path / nonce, origin, "test")
    _, data, _ = codec.encode(genesis)
    read = read_event("log.genesis", 0, "", data)
    assert isinstance(read, Genesis)
    assert read.identity == VerifierKey.parse(genesis.identity or "")
    assert read.origin == origin
