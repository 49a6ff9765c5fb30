"""A receipt shows one entry, and nothing in it is believed that does not re-hash."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hansard.ledger.anchors import load_kept
from hansard.ledger.canonical import dump
from hansard.ledger.checkpoint import format_checkpoint
from hansard.ledger.merkle import root_of
from hansard.ledger.note import Signature, VerifierKey, cosignature_message, format_note, parse_note
from hansard.ledger.openings import check_receipt
from hansard.ledger.report import Report, lines
from hansard.ledger.seals import Pin
from hansard.ledger.verify import Options, verify
from specimens import FAST, ORIGIN, Key, Log, honest

ROTATION = 30
"""The entry that introduced the epoch key of the newest checkpoint of the honest log."""
FIRST_KEY = {"epoch": 0, "key": Key.of(f"{ORIGIN}/epoch/0").verifier.text()}
"""What no rotation introduces."""


def checked(data: bytes, pin: str | None = None) -> Report:
    return check_receipt(data, pin=Pin.parse(pin) if pin else None, tools=FAST)


def receipt(**changes: Any) -> bytes:
    return honest().receipt(20, disclose=["prompt"], **({"rotation": ROTATION} | changes))


def with_extra(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The receipt with its extra changed and encoded again."""
    header, extra, rest = data.split(b"\n", 2)
    value = json.loads(b64decode(extra.removeprefix(b"extra ")))
    change(value)
    return b"\n".join([header, b"extra " + b64encode(dump(value)), rest])


def with_line(data: bytes, change: Callable[[dict[str, Any]], object], *place: str) -> bytes:
    """The receipt with one of the entries that it carries changed."""

    def edit(extra: dict[str, Any]) -> None:
        holder = extra
        for name in place:
            holder = holder[name]
        entry = json.loads(holder["line"])
        change(entry)
        holder["line"] = dump(entry).decode()

    return with_extra(data, edit)


def signed_for(origin: str) -> str:
    """A checkpoint of the honest log that speaks of another one, signed by its keys all the same."""
    log = honest()
    text = format_checkpoint(origin, log.size, root_of(log.leaves))
    return format_note(text, [key.sign(text) for key in (log.identity, log.epochs[-1]) if key])


def test_an_honest_receipt_opens_its_part_and_names_its_signers() -> None:
    log = honest()
    report = checked(receipt(), log.pin)
    assert report.findings == ()
    assert (report.form, report.size, report.origin, report.signed.keys) == ("receipt", 40, log.origin, "pinned")
    assert (report.genesis, report.custody) == (log.leaves[0].hex(), "file")
    assert (report.signed.checkpoints, report.signed.epochs, report.signed.sealed_to) == (1, 3, 40)
    shown = report.receipt
    assert shown is not None
    assert (shown.index, shown.kind, shown.actor, shown.opened, shown.closed) == (
        20,
        "task.answered",
        "lane:backend",
        ("prompt",),
        (),
    )
    assert shown.signed_by == (log.origin, f"{log.origin}/epoch/2")
    text = "\n".join(lines(report))
    assert "20: task.answered" in text


def test_without_a_pin_the_keys_are_the_receipts_own_claim() -> None:
    report = checked(receipt())
    assert (report.ok, report.signed.keys) == (True, "self-asserted")
    assert any("no pin" in each for each in report.not_proven)


def test_a_receipt_says_that_it_does_not_show_whether_rotations_are_sealed() -> None:
    log = honest()
    log.rotate(seal=False)
    log.grow(2)
    log.checkpoint()
    report = checked(log.receipt(20, rotation=40), log.pin)
    assert report.ok
    assert any("rotation is sealed" in each for each in report.not_proven)
    assert not any("rotation is sealed" in each for each in checked(Log.begun().receipt(0)).not_proven)


def test_what_is_not_disclosed_is_named() -> None:
    report = checked(honest().receipt(20, rotation=ROTATION))
    assert report.ok
    assert report.receipt is not None
    assert (report.receipt.opened, report.receipt.closed) == ((), ("prompt",))


def test_a_retired_key_that_signed_too_changes_nothing() -> None:
    log = honest()
    text = log.note().split("\n\n")[0] + "\n"
    report = checked(receipt(note=log.note() + log.epochs[0].sign(text).line()))
    assert report.findings == ()
    assert report.receipt is not None
    assert report.receipt.signed_by == (log.origin, f"{log.origin}/epoch/2")


def test_a_new_key_does_not_sign_the_size_that_ends_with_its_own_rotation() -> None:
    log = honest()
    log.rotate(seal=False)
    report = checked(log.receipt(20, rotation=40), log.pin)
    assert (report.exit_code, [each.code for each in report.findings]) == (20, ["epoch"])
    assert report.signed.sealed_to == 0
    log.grow(1)
    assert checked(log.receipt(20, rotation=40), log.pin).ok


def test_only_a_receipt_of_a_later_epoch_needs_a_rotation() -> None:
    log = Log.begun()
    log.grow(4)
    assert checked(log.receipt(2), log.pin).findings == ()
    assert checked(log.receipt(0), log.pin).findings == ()
    alone = Log.begun()
    assert checked(alone.receipt(0), alone.pin).findings == ()
    log.rotate()
    log.grow(1)
    assert checked(log.receipt(2, rotation=5), log.pin).findings == ()


def test_the_standard_library_alone_verifies_it() -> None:
    assert check_receipt(receipt()).ok


@pytest.mark.parametrize(
    ("tamper", "code"),
    [
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(task="t9")), "inclusion"),
        (lambda: with_line(receipt(), lambda entry: entry.update(seq=21)), "index"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(nonce="1" * 32), "genesis"), "inclusion"),
        (lambda: with_line(receipt(), lambda entry: entry.update(kind="task.answered"), "genesis"), "genesis"),
        (lambda: with_line(receipt(), lambda entry: entry.update(seq=1), "genesis"), "genesis"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(origin="other"), "genesis"), "genesis"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(reason="lost"), "epoch"), "inclusion"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(epoch=1), "epoch"), "epoch"),
        (lambda: with_line(receipt(), lambda entry: entry.update(kind="task.answered"), "epoch"), "epoch"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(FIRST_KEY), "epoch"), "epoch"),
        (lambda: with_extra(receipt(), lambda extra: extra.pop("epoch")), "signature"),
        (lambda: receipt(rotation=15), "signature"),
        (lambda: with_extra(receipt(), lambda extra: extra["open"]["prompt"].update(body="AAAA")), "opening"),
        (lambda: with_extra(receipt(), lambda extra: extra["open"]["prompt"].update(media="text/html")), "opening"),
        (lambda: with_extra(receipt(), lambda extra: extra["open"]["prompt"].update(salt="0" * 64)), "opening"),
        (lambda: with_extra(receipt(), lambda extra: extra["open"].update(other=extra["open"]["prompt"])), "opening"),
        (lambda: with_extra(receipt(), lambda extra: extra["open"]["prompt"].update(body="AAB=")), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra["open"]["prompt"].pop("salt")), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra.update(v=2)), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra.update(v=True)), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra.update(more=1)), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra.pop("genesis")), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra["genesis"]["path"].pop()), "inclusion"),
        (lambda: with_extra(receipt(), lambda extra: extra["genesis"]["path"].append(7)), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra.update(line=extra["line"] + " ")), "receipt"),
        (lambda: with_extra(receipt(), lambda extra: extra["epoch"].update(index=29)), "epoch"),
        (lambda: receipt().replace(b"index 20\n", b"index 21\n"), "index"),
        (lambda: receipt().replace(b"\nindex", b"\nAAAA\nindex"), "receipt"),
        (lambda: receipt(note=honest().note(keys=[honest().epochs[2]])), "signature"),
        (lambda: receipt(note=honest().note(keys=[k for k in [honest().identity] if k])), "signature"),
        (lambda: receipt(note=honest().note(keys=[Key.of("stranger.example")])), "signature"),
        (lambda: receipt(note=honest().note() + honest().epochs[0].sign("another text").line()), "signature"),
        (lambda: receipt(note=honest().note(39)), "inclusion"),
        (lambda: receipt(note=signed_for("other.example.invalid")), "origin"),
        (lambda: b"\n".join(receipt().split(b"\n")[:1] + receipt().split(b"\n")[2:]), "receipt"),
        (lambda: b"", "receipt"),
        (lambda: b"c2sp.org/tlog-proof@v1\n", "receipt"),
    ],
)  # fmt: skip
def test_a_tampered_receipt_is_refused(tamper: Callable[[], bytes], code: str) -> None:
    for pin in (None, honest().pin):
        report = checked(tamper(), pin)
        assert code in [each.code for each in report.findings]
        assert report.exit_code == 20


def into(place: str, member: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda extra: (extra["open"]["prompt"] if place == "prompt" else extra[place]).update({member: value})


@pytest.mark.parametrize(
    "change",
    [
        lambda extra: extra.update(line=7),
        lambda extra: extra.update(genesis=["line", "path"]),
        lambda extra: extra.update(open=[]),
        lambda extra: extra["open"].update(prompt=["body", "media", "salt"]),
        into("genesis", "more", 1),
        into("genesis", "line", 7),
        into("genesis", "path", {}),
        into("genesis", "path", ""),
        into("epoch", "index", "30"),
        into("epoch", "index", True),
        into("epoch", "index", -1),
        into("prompt", "media", 7),
        into("prompt", "salt", "A" * 64),
        into("prompt", "salt", "0" * 62),
        into("prompt", "salt", "0" * 66),
    ],
)
def test_what_a_receipt_carries_has_one_form(change: Callable[[dict[str, Any]], object]) -> None:
    assert [each.code for each in checked(with_extra(receipt(), change)).findings] == ["receipt"]


def test_a_list_of_the_right_names_is_no_receipt() -> None:
    header, _, rest = receipt().split(b"\n", 2)
    extra = b64encode(dump(["genesis", "line", "open", "v"]))
    assert [each.code for each in checked(b"\n".join([header, b"extra " + extra, rest])).findings] == ["receipt"]


def test_a_receipt_is_as_long_as_one_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for longest, ok in ((len(receipt()), True), (len(receipt()) - 1, False)):
        monkeypatch.setattr("hansard.ledger.openings.MAX_RECEIPT", longest)
        assert checked(receipt()).ok is ok


def test_only_who_signed_is_named_as_a_signer() -> None:
    log = honest()
    for key in (log.identity, log.epochs[-1]):
        assert key
        report = checked(receipt(note=log.note(keys=[key])))
        assert report.receipt
        assert (report.receipt.signed_by, report.signed.sealed_to) == ((key.name,), 0)


@pytest.mark.parametrize(
    "other", [Log.begun(seed="new keys"), Log.begun(epoch_seed="new genesis")], ids=["new keys", "new genesis"]
)
def test_a_receipt_of_a_rebuilt_log_contradicts_the_pin(other: Log) -> None:
    assert checked(other.receipt(0)).ok
    report = checked(other.receipt(0), honest().pin)
    assert (report.exit_code, report.signed.keys) == (21, "self-asserted")


def test_an_unsigned_log_gives_no_receipts() -> None:
    log = Log.begun(signed=False)
    note = signed_for(log.origin)
    for pin, found in ((None, ["unsigned"]), (honest().pin, ["unsigned", "pin_identity"])):
        report = checked(log.receipt(0, note=note), pin)
        assert ([each.code for each in report.findings if each.code != "inclusion"], report.exit_code) == (found, 20)


def test_an_anchor_of_the_same_size_shows_a_fork(tmp_path: Path) -> None:
    log = honest()
    forked = log.copy()
    forked.edit(39, lambda entry: entry["data"].update(task="t9"))
    kept = []
    for number, note in enumerate((log.note(), log.note(25), forked.note())):
        (tmp_path / str(number)).write_text(note)
        kept.append(load_kept(str(tmp_path / str(number))))
    report = check_receipt(receipt(), against=kept, tools=FAST)
    assert [each.ok for each in report.anchors] == [True, False]
    assert [(each.code, each.grade) for each in report.findings] == [("anchor_unused", "grade"), ("fork", "anchor")]
    assert report.exit_code == 21


def test_an_anchor_of_another_log_contradicts_a_receipt(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text(signed_for("other.example.invalid"))
    report = check_receipt(receipt(), against=[load_kept(str(tmp_path / "kept"))], tools=FAST)
    assert ([each.code for each in report.findings], report.exit_code) == (["anchor_origin"], 21)
    assert [each.ok for each in report.anchors] == [False]


def test_a_word_on_another_size_is_no_word_on_a_receipt(tmp_path: Path) -> None:
    log, private = honest(), Key.of("witness.example").private
    witness = VerifierKey.cosigner("witness.example", private.public_key().public_bytes_raw())
    for size, sizes in ((40, [40]), (25, [])):
        text = parse_note(log.note(size)).text
        blob = (7).to_bytes(8, "big") + private.sign(cosignature_message(text, 7))
        said = Signature(name=witness.name, key_id=witness.key_id, blob=blob)
        (tmp_path / "kept").write_text(format_note(text, [said]))
        kept = load_kept(str(tmp_path / "kept"))
        report = check_receipt(receipt(), against=[kept], witnesses=[witness], tools=FAST)
        assert [each.size for each in report.witnessed] == sizes


@pytest.mark.parametrize("asked", ["against", "since"])
def test_a_receipt_never_agrees_with_an_anchor_of_another_size(tmp_path: Path, asked: str) -> None:
    forked = honest()
    forked.edit(10, lambda entry: entry["data"].update(task="t9"))
    forked.rechain(10)
    path, kept = tmp_path / "x.tlog-proof", tmp_path / "kept"
    path.write_bytes(receipt())
    kept.write_text(forked.note(25))
    options = Options(since=str(kept)) if asked == "since" else Options(against=(str(kept),))
    report = verify(path, options, FAST)
    assert (report.exit_code, report.anchors) == (23, ())
    assert not any(line.startswith("  anchor") for line in lines(report))


def test_a_receipt_file_is_verified_like_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "x.tlog-proof"
    path.write_bytes(receipt())
    assert verify(path, Options(pin=honest().pin), FAST).ok
    path.write_bytes(b"something else")
    report = verify(path, Options(), FAST)
    assert (report.form, report.exit_code) == ("receipt", 20)
