"""Receipts and consistency files: every one holds with nothing but the ledger floor, and none discloses what it must not."""

import json
import os
import sqlite3
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hansard.errors import StoreError, UsageError
from hansard.ledger.anchors import load_kept
from hansard.ledger.body import opens
from hansard.ledger.canonical import Malformed, encode
from hansard.ledger.checkpoint import Checkpoint, parse_checkpoint
from hansard.ledger.entry import parse
from hansard.ledger.merkle import leaf_hash, root_at, verify_consistency, verify_inclusion
from hansard.ledger.note import VerifierKey, open_note, parse_note
from hansard.ledger.openings import check_receipt
from hansard.ledger.receipt import HEADER, MAX_RECEIPT, Proof, format_proof, parse_proof
from hansard.ledger.seals import Pin
from hansard.ledger.sources import CannotRead
from hansard.ledger.verify import verify
from hansard.record import receipts
from hansard.record.receipts import make_consistency, make_receipt
from hansard.seal.signing import sign_checkpoint
from hansard.store.base import StoredCheckpoint
from signed_log import SignedLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SignedLog]:
    made = SignedLog.create(tmp_path)
    yield made
    made.store.close()


def read(text: str) -> tuple[Proof, dict[str, Any], Checkpoint]:
    """A receipt taken apart, its inclusion checked as a stranger would."""
    proof = parse_proof(text.encode())
    assert proof.extra is not None
    extra = json.loads(proof.extra)
    assert encode(extra) == proof.extra
    checkpoint = parse_checkpoint(parse_note(proof.checkpoint).text)
    line = extra["line"].encode()
    verify_inclusion(leaf_hash(line), proof.index, checkpoint.size, proof.path, checkpoint.root)
    return proof, extra, checkpoint


def check_path(placed: dict[str, Any], index: int, checkpoint: Checkpoint) -> None:
    path = [b64decode(each) for each in placed["path"]]
    verify_inclusion(leaf_hash(placed["line"].encode()), index, checkpoint.size, path, checkpoint.root)


def test_a_receipt_shows_the_entry_the_genesis_and_the_signed_root(log: SignedLog) -> None:
    seq = log.ask("ship a login api")
    log.checkpoint()
    proof, extra, checkpoint = read(make_receipt(log.store, seq))
    assert (proof.index, extra["v"], extra["open"]) == (seq, 1, {})
    assert extra["line"].encode() == log.store.entry(seq).line
    check_path(extra["genesis"], 0, checkpoint)
    genesis = parse(extra["genesis"]["line"].encode()).data
    keys = [VerifierKey.parse(genesis[name]) for name in ("identity", "epoch_key")]
    assert open_note(parse_note(proof.checkpoint), keys).verified == tuple(keys)


@pytest.mark.parametrize("size", [2, 3, 255, 256, 257, 300, 513])
def test_every_entry_of_every_shape_of_tree_can_be_receipted(log: SignedLog, size: int) -> None:
    log.ask_many(size - 1)
    log.checkpoint()
    for seq in {0, 1, size // 2, size - 2, size - 1}:
        assert read(make_receipt(log.store, seq))[0].index == seq


def test_a_disclosed_part_opens_its_commitment_and_the_others_stay_closed(log: SignedLog) -> None:
    seq = log.ask(b"\xff\x00 not text", plan=b'{"tasks":[]}')
    log.checkpoint()
    _, extra, _ = read(make_receipt(log.store, seq, ("request",)))
    committed = parse(extra["line"].encode()).body["request"]
    given = extra["open"]["request"]
    assert list(extra["open"]) == ["request"]
    assert opens(committed, bytes.fromhex(given["salt"]), given["media"], b64decode(given["body"]))
    assert b64decode(given["body"]) == b"\xff\x00 not text"


def test_what_is_read_as_a_receipt_is_read_as_an_anchor(tmp_path: Path) -> None:
    large = tmp_path / "large.tlog-proof"
    large.write_text(HEADER)
    os.truncate(large, MAX_RECEIPT)
    assert "larger" not in str(verify(large).first_bad)
    with pytest.raises(CannotRead, match="neither a checkpoint, a receipt nor"):
        load_kept(str(large))


def test_a_receipt_that_no_verifier_would_read_is_not_made(log: SignedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "MAX_RECEIPT", 10_000)
    seq = log.ask("x" * 10_000)
    log.checkpoint()
    with pytest.raises(UsageError, match=r"with request opened, the receipt of entry 1 has more than 10,000 bytes"):
        make_receipt(log.store, seq, ("request",))
    assert make_receipt(log.store, seq)


def test_after_rotations_a_receipt_carries_the_entry_that_introduced_its_key(log: SignedLog) -> None:
    seq = log.ask("before")
    log.rotate()
    second = log.rotate()
    log.ask("after")
    log.checkpoint()
    proof, extra, checkpoint = read(make_receipt(log.store, seq))
    assert extra["epoch"]["index"] == second
    check_path(extra["epoch"], second, checkpoint)
    key = VerifierKey.parse(parse(extra["epoch"]["line"].encode()).data["key"])
    assert key.name.endswith("/epoch/2")
    assert key in open_note(parse_note(proof.checkpoint), [key]).verified


def test_the_checkpoint_that_ends_with_a_rotation_belongs_to_the_retiring_key(log: SignedLog) -> None:
    seq = log.rotate()
    proof, extra, _ = read(make_receipt(log.store, seq))
    assert "epoch" not in extra
    assert "/epoch/0 " in proof.checkpoint


def test_the_verifier_accepts_a_receipt_and_refuses_every_altered_one(log: SignedLog) -> None:
    log.ask("before")
    log.rotate()
    seq = log.ask("ship a login api", plan=b"{}")
    log.checkpoint()
    text = make_receipt(log.store, seq, ("request",))
    leaf = leaf_hash(log.store.entry(0).line).hex()
    good = check_receipt(text.encode(), pin=Pin.parse(f"{log.identity}@{leaf}"))
    assert (good.exit_code, good.findings) == (0, ())
    assert good.receipt
    assert (good.receipt.opened, good.receipt.closed, good.signed.keys) == (("request",), ("plan",), "pinned")
    proof, extra, _ = read(text)
    for change in (
        {"line": extra["line"].replace("human:k7", "human:k8")},
        {"line": extra["genesis"]["line"]},
        {"genesis": {**extra["genesis"], "path": extra["genesis"]["path"][::-1]}},
        {"epoch": {**extra["epoch"], "index": extra["epoch"]["index"] + 1}},
        {"open": {"request": {**extra["open"]["request"], "body": "c2hpcA=="}}},
        {"open": {"plan": extra["open"]["request"]}},
    ):
        altered = replace(proof, extra=encode(extra | change))
        assert check_receipt(format_proof(altered).encode()).exit_code == 20, change
    without = {name: value for name, value in extra.items() if name != "epoch"}
    assert check_receipt(format_proof(replace(proof, extra=encode(without))).encode()).exit_code == 20
    assert check_receipt(format_proof(replace(proof, index=seq - 1)).encode()).exit_code == 20


def test_a_receipt_takes_the_newest_checkpoint_unless_told_otherwise(log: SignedLog) -> None:
    seq = log.ask("one")
    old = log.checkpoint()
    log.ask("two")
    new = log.checkpoint()
    assert read(make_receipt(log.store, seq))[2].size == new.size
    assert read(make_receipt(log.store, seq, checkpoint=old))[2].size == old.size


def test_without_a_checkpoint_that_covers_the_entry_the_message_says_what_to_do(log: SignedLog) -> None:
    log.checkpoint()
    seq = log.ask("later")
    with pytest.raises(UsageError, match="sign one: hansard ledger checkpoint"):
        make_receipt(log.store, seq)


def test_an_unsigned_log_gives_no_receipts(tmp_path: Path) -> None:
    log = SignedLog.create(tmp_path, signed=False)
    with pytest.raises(UsageError, match="custody none"):
        make_receipt(log.store, log.ask("hello"))
    log.store.close()


def test_no_receipt_for_an_entry_that_is_not_there(log: SignedLog) -> None:
    log.checkpoint()
    with pytest.raises(UsageError, match="no entry 99"):
        make_receipt(log.store, 99)


def test_a_redacted_part_is_not_disclosed(log: SignedLog) -> None:
    seq = log.ask("my password is hunter2")
    tombstone = log.redact(seq, "request")
    log.checkpoint()
    with pytest.raises(UsageError, match=f"request of entry {seq} was redacted by entry {tombstone}"):
        make_receipt(log.store, seq, ("request",))


def test_a_part_whose_redaction_is_pending_is_not_disclosed(log: SignedLog) -> None:
    seq = log.ask("my password is hunter2")
    log.bury(seq, "request")
    log.checkpoint()
    assert log.store.body(seq, "request")
    with pytest.raises(UsageError, match="was redacted"):
        make_receipt(log.store, seq, ("request",))


def test_beside_a_redacted_part_another_one_is_disclosed(log: SignedLog) -> None:
    seq = log.ask("kept", plan=b"secret")
    log.redact(seq, "plan")
    log.checkpoint()
    assert list(read(make_receipt(log.store, seq, ("request",)))[1]["open"]) == ["request"]


def test_a_missing_part_and_an_unknown_part_are_named(log: SignedLog) -> None:
    seq = log.ask("gone")
    log.store.erase((seq, "request"))
    log.checkpoint()
    with pytest.raises(UsageError, match="request of entry 1 is missing"):
        make_receipt(log.store, seq, ("request",))
    with pytest.raises(UsageError, match="no part 'output'; it has request"):
        make_receipt(log.store, seq, ("output",))


def test_a_body_that_was_swapped_is_not_handed_out(log: SignedLog) -> None:
    seq = log.ask("true")
    log.checkpoint()
    with sqlite3.connect(log.path) as db:
        db.execute("UPDATE bodies SET body = 'false'")
    db.close()
    with pytest.raises(StoreError, match=r"the request of entry 1 .* is not what was recorded"):
        make_receipt(log.store, seq, ("request",))


def test_an_edited_entry_is_not_receipted(log: SignedLog) -> None:
    seq = log.ask("true")
    log.checkpoint()
    with sqlite3.connect(log.path) as db:
        db.execute("UPDATE entries SET line = replace(line, 'human:k7', 'human:k8') WHERE seq = ?", (seq,))
    db.close()
    with pytest.raises(StoreError, match="does not give the root that was signed"):
        make_receipt(log.store, seq)


def test_a_checkpoint_that_one_key_did_not_sign_carries_no_receipt(log: SignedLog) -> None:
    seq = log.ask("one")
    good = log.checkpoint()
    lines = good.note.splitlines(keepends=True)
    assert len(lines) == 6
    for gone in (4, 5):
        half = StoredCheckpoint(size=good.size, note="".join(lines[:gone] + lines[gone + 1 :]))
        with pytest.raises(UsageError, match="has not signed"):
            make_receipt(log.store, seq, checkpoint=half)


def test_a_checkpoint_that_speaks_of_something_else_is_shown_to_nobody(log: SignedLog) -> None:
    """Both keys have signed it, and it is kept for a size that is not its own, or names another log."""
    log.ask("one")
    good = log.checkpoint()
    assert log.ring
    epoch_key, root = log.ring.epoch(0), root_at(good.size, log.store)
    assert epoch_key
    stranger = sign_checkpoint("log.example/other", good.size, root, [log.ring.identity, epoch_key])
    seq = log.ask("two")
    for kept in (replace(good, size=seq + 1), replace(good, note=stranger)):
        with pytest.raises(UsageError, match="cannot carry a receipt: the note of size"):
            make_receipt(log.store, 1 if kept.size == good.size else seq, checkpoint=kept)
        with pytest.raises(UsageError, match="cannot be shown to others: the note of size"):
            make_consistency(log.store, 1, kept)


def test_a_checkpoint_that_does_not_cover_the_entry_carries_no_receipt_of_it(log: SignedLog) -> None:
    old = log.checkpoint()
    with pytest.raises(UsageError, match=r"of size 1 does not cover entry 1; take a newer one"):
        make_receipt(log.store, log.ask("later"), checkpoint=old)


def test_a_spoilt_newest_checkpoint_is_passed_over(log: SignedLog) -> None:
    seq = log.ask("one")
    good = log.checkpoint()
    log.ask("two")
    log.checkpoint()
    with sqlite3.connect(log.path) as db:
        db.execute("UPDATE checkpoints SET note = replace(note, 'log.example', 'log.elsewhere') WHERE size = 3")
    db.close()
    assert parse_proof(make_receipt(log.store, seq).encode()).checkpoint == good.note


def test_a_checkpoint_with_a_bad_signature_of_a_retired_key_carries_no_receipt(log: SignedLog) -> None:
    first = log.checkpoint()
    bad = next(line for line in first.note.splitlines() if "/epoch/0 " in line)
    log.rotate()
    seq = log.ask("behind two keys")
    good = log.checkpoint()
    log.ask("later")
    newest = log.checkpoint()
    spoilt = StoredCheckpoint(size=newest.size, note=f"{newest.note}{bad}\n")
    with sqlite3.connect(log.path) as db:
        db.execute("UPDATE checkpoints SET note = ? WHERE size = ?", (spoilt.note, spoilt.size))
    db.close()
    assert parse_proof(make_receipt(log.store, seq).encode()).checkpoint == good.note
    with pytest.raises(UsageError, match=r"epoch/0.* does not hold"):
        make_receipt(log.store, seq, (), spoilt)


def test_a_consistency_file_shows_that_the_log_only_grew(log: SignedLog) -> None:
    log.ask_many(10)
    old = log.checkpoint()
    log.ask_many(300)
    new = log.checkpoint()
    head, _, note = make_consistency(log.store, old.size, new).partition("\n\n")
    first, *proof = head.split("\n")
    assert (first, note) == ("old 11", new.note)
    old_root = parse_checkpoint(parse_note(old.note).text).root
    new_root = parse_checkpoint(parse_note(new.note).text).root
    hashes = [b64decode(each) for each in proof]
    verify_consistency(11, 311, hashes, old_root, new_root)
    with pytest.raises(Malformed):
        verify_consistency(11, 311, hashes, root_at(10, log.store), new_root)


def test_consistency_at_first_contact_has_an_empty_proof(log: SignedLog) -> None:
    kept = log.checkpoint()
    assert make_consistency(log.store, 0, kept) == f"old 0\n\n{kept.note}"


def test_consistency_with_itself_has_an_empty_proof(log: SignedLog) -> None:
    kept = log.checkpoint()
    assert make_consistency(log.store, kept.size, kept) == f"old {kept.size}\n\n{kept.note}"


def test_a_log_that_was_edited_gives_no_consistency_with_what_was_signed(log: SignedLog) -> None:
    log.ask_many(10)
    new = log.checkpoint()
    with sqlite3.connect(log.path) as db:
        db.execute("UPDATE entries SET line = replace(line, 'human:k7', 'human:k8') WHERE seq = 5")
    db.close()
    with pytest.raises(StoreError, match="does not give the root that was signed for size 11"):
        make_consistency(log.store, 4, new)


@pytest.mark.parametrize("old", [-1, 3])
def test_consistency_from_outside_the_log_is_refused(log: SignedLog, old: int) -> None:
    log.ask("one")
    with pytest.raises(UsageError, match="no consistency from size"):
        make_consistency(log.store, old, log.checkpoint())
