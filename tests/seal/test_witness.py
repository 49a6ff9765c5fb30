"""A witness, request by request: what it cosigns, what it refuses and with which word, and that it never goes back."""

import re
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from hansard.errors import StoreError, UsageError
from hansard.ledger.note import VerifierKey, format_note, open_note, parse_note, parse_signature
from hansard.ledger.witness import Refused
from hansard.record.receipts import make_consistency
from hansard.seal.signing import SigningKey, sign_checkpoint
from hansard.seal.witness import Witness, log_id
from hansard.store.base import StoredCheckpoint
from signed_log import ORIGIN, SignedLog

NAME, NOW = "witness.example/w1", 1_800_000_000
Asking = Callable[[int, StoredCheckpoint], bytes]


@pytest.fixture
def log(tmp_path: Path) -> SignedLog:
    return SignedLog.create(tmp_path / "log")


@pytest.fixture
def witness(tmp_path: Path, log: SignedLog) -> Witness:
    made = Witness.open(tmp_path / "witness", NAME)
    made.trust(VerifierKey.parse(log.identity))
    return made


@pytest.fixture
def asking(log: SignedLog) -> Asking:
    return lambda old, kept: make_consistency(log.store, old, kept).encode()


def at(time_s: int) -> Callable[[], int]:
    """A clock that shows this time."""
    return lambda: time_s


def grown(log: SignedLog, entries: int = 3) -> StoredCheckpoint:
    log.ask_many(entries)
    return log.checkpoint()


def refused(witness: Witness, data: bytes) -> tuple[int, int | None]:
    with pytest.raises(Refused) as error:
        witness.cosign(data, at(NOW))
    return error.value.status, error.value.size


def test_a_growing_log_is_cosigned_from_size_to_size(witness: Witness, log: SignedLog, asking: Asking) -> None:
    old = 0
    for step in range(6):
        kept = grown(log, 1 + step)
        line = witness.cosign(asking(old, kept), at(NOW + step))
        note = parse_note(kept.note)
        cosigned = format_note(note.text, (*note.signatures, parse_signature(line.removesuffix("\n"))))
        assert open_note(parse_note(cosigned), [witness.key]).cosigned == ((witness.key, at(NOW + step)),)
        old = kept.size
    known = witness.watched(ORIGIN)
    assert known is not None
    assert known.checkpoint is not None
    assert known.checkpoint.size == old


def test_the_same_checkpoint_again_is_cosigned_again(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    witness.cosign(asking(0, kept), at(NOW))
    assert witness.cosign(asking(kept.size, kept), at(NOW + 1)) != witness.cosign(asking(kept.size, kept), at(NOW + 2))


def test_what_it_saw_last_outlives_it(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    witness.cosign(asking(0, kept), at(NOW))
    again = Witness.open(witness.folder)
    assert again.key == witness.key
    assert refused(again, asking(0, kept)) == (409, kept.size)
    newest = again.watched(ORIGIN)
    assert newest is not None
    assert newest.newest is not None
    assert open_note(parse_note(newest.newest), [again.key]).cosigned == ((again.key, NOW),)


def test_a_log_that_is_not_known(witness: Witness, tmp_path: Path) -> None:
    stranger = SigningKey.generate("log.example/other")
    note = sign_checkpoint("log.example/other", 3, bytes(32), [stranger])
    assert refused(witness, f"old 0\n\n{note}".encode()) == (404, None)


def test_a_checkpoint_that_its_log_has_not_signed(witness: Witness, log: SignedLog) -> None:
    stranger, head = SigningKey.generate(ORIGIN), log.store.head()
    note = sign_checkpoint(ORIGIN, head.size, head.root, [stranger])
    assert refused(witness, f"old 0\n\n{note}".encode()) == (403, None)


def test_a_signature_of_the_log_that_does_not_hold(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    other = kept.note.replace(f"\n{kept.size}\n", f"\n{kept.size + 1}\n")
    assert refused(witness, f"old 0\n\n{other}".encode()) == (403, None)


def test_an_old_size_beyond_the_checkpoint(witness: Witness, log: SignedLog) -> None:
    kept = grown(log)
    assert refused(witness, f"old {kept.size + 1}\n\n{kept.note}".encode()) == (400, None)


def test_an_older_checkpoint_than_the_newest(witness: Witness, log: SignedLog, asking: Asking) -> None:
    first, second = grown(log), grown(log)
    witness.cosign(asking(0, second), at(NOW))
    assert refused(witness, asking(0, first)) == (409, second.size)
    assert refused(witness, asking(first.size, first)) == (409, second.size)


def test_another_root_at_the_same_size(witness: Witness, log: SignedLog, asking: Asking) -> None:
    kept = grown(log)
    witness.cosign(asking(0, kept), at(NOW))
    assert log.ring
    fork = sign_checkpoint(ORIGIN, kept.size, bytes(32), [log.ring.identity])
    assert refused(witness, f"old {kept.size}\n\n{fork}".encode()) == (409, kept.size)


def test_a_fork_that_is_longer(witness: Witness, log: SignedLog, asking: Asking) -> None:
    first = grown(log)
    witness.cosign(asking(0, first), at(NOW))
    second = grown(log)
    assert log.ring
    fork = sign_checkpoint(ORIGIN, second.size, bytes(32), [log.ring.identity])
    body = asking(first.size, second).decode()
    assert refused(witness, body.replace(second.note, fork).encode()) == (422, None)
    witness.cosign(asking(first.size, second), at(NOW))


@pytest.mark.parametrize("hashes", [1, 2])
def test_a_proof_where_there_is_nothing_to_prove(witness: Witness, log: SignedLog, asking: Asking, hashes: int) -> None:
    kept = grown(log)
    line = b64encode(bytes(32)).decode() + "\n"
    assert refused(witness, f"old 0\n{line * hashes}\n{kept.note}".encode()) == (422, None)
    witness.cosign(asking(0, kept), at(NOW))
    assert refused(witness, f"old {kept.size}\n{line * hashes}\n{kept.note}".encode()) == (422, None)


@pytest.mark.parametrize(
    "data",
    [b"", b"old 0\n", b"old 0\n\n", b"old 00\n\nx", b"old -1\n\nx", b"new 0\n\nx", b"\xff\n\n", b"old 0\n%%%\n\nx"],
)
def test_whatever_is_no_request(witness: Witness, data: bytes) -> None:
    assert refused(witness, data) == (400, None)


def test_a_proof_without_end(witness: Witness, log: SignedLog) -> None:
    line = b64encode(bytes(32)).decode() + "\n"
    assert refused(witness, f"old 1\n{line * 65}\n{grown(log).note}".encode()) == (400, None)


def test_many_at_once_never_take_it_back(witness: Witness, log: SignedLog, asking: Asking) -> None:
    """Each of many asks from what it takes for the newest size; whoever comes late hears the true one."""
    kept = [grown(log, 1) for _ in range(12)]
    bodies = [asking(old.size if old else 0, new) for old, new in zip([None, *kept], kept, strict=False)]

    def one(body: bytes) -> int:
        with suppress(Refused):
            witness.cosign(body, at(NOW))
        known = witness.watched(ORIGIN)
        assert known is not None
        return known.checkpoint.size if known.checkpoint else 0

    for _ in range(len(kept)):
        with ThreadPoolExecutor(8) as pool:
            sizes = list(pool.map(one, bodies))
        assert sizes[-1] <= kept[-1].size
    assert max(sizes) == kept[-1].size
    assert refused(witness, bodies[0]) == (409, kept[-1].size)


def test_what_strangers_have_signed_beside_it_is_not_kept(witness: Witness, log: SignedLog) -> None:
    kept = grown(log)
    note = parse_note(kept.note)
    stranger = SigningKey.generate("stranger.example/x").sign(note.text)
    witness.cosign(f"old 0\n\n{format_note(note.text, (*note.signatures, stranger))}".encode(), at(NOW))
    known = witness.watched(ORIGIN)
    assert known is not None
    assert known.newest is not None
    assert re.findall("^— ([^ ]+)", known.newest, re.MULTILINE) == [ORIGIN, NAME]


def test_a_witness_needs_a_name_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--name"):
        Witness.open(tmp_path / "w")
    assert not (tmp_path / "w").exists()
    with pytest.raises(UsageError, match="cannot be called"):
        Witness.open(tmp_path / "w", "two words")
    made = Witness.open(tmp_path / "w", NAME)
    assert Witness.open(tmp_path / "w").key == made.key == Witness.open(tmp_path / "w", NAME).key
    with pytest.raises(UsageError, match=NAME):
        Witness.open(tmp_path / "w", "witness.example/w2")


def test_a_key_that_others_can_read_is_refused(witness: Witness) -> None:
    (witness.folder / "witness.key").chmod(0o644)
    with pytest.raises(StoreError, match="others can read"):
        Witness.open(witness.folder)


def test_another_key_under_a_known_name(witness: Witness, log: SignedLog) -> None:
    assert witness.trust(VerifierKey.parse(log.identity)).origin == ORIGIN
    with pytest.raises(UsageError, match="another key"):
        witness.trust(SigningKey.generate(ORIGIN).verifier)
    with pytest.raises(UsageError, match="witness's key"):
        witness.trust(witness.key)
    assert [each.origin for each in witness.logs()] == [ORIGIN]


@pytest.mark.parametrize("id", ["", "..", "../../witness.key", "A" * 64, log_id("log.example/other")])
def test_only_ids_of_known_logs_name_anything(witness: Witness, id: str) -> None:
    assert witness.log(id) is None
