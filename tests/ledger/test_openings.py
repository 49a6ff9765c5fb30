"""A receipt shows one entry, and nothing in it is believed that does not re-hash."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hansard.ledger.anchors import load_kept
from hansard.ledger.canonical import dump
from hansard.ledger.openings import check_receipt
from hansard.ledger.report import Report, lines
from hansard.ledger.seals import Pin
from hansard.ledger.verify import Options, verify
from specimens import FAST, Key, Log, honest

ROTATION = 30
"""The entry that introduced the epoch key of the newest checkpoint of the honest log."""


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


def test_an_honest_receipt_opens_its_part_and_names_its_signers() -> None:
    log = honest()
    report = checked(receipt(), log.pin)
    assert report.findings == ()
    assert (report.form, report.size, report.origin, report.signed.keys) == ("receipt", 40, log.origin, "pinned")
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


def test_a_receipt_of_the_first_epoch_and_of_the_genesis_itself_needs_no_rotation() -> None:
    log = Log.begun()
    log.grow(4)
    assert checked(log.receipt(2), log.pin).findings == ()
    assert checked(log.receipt(0), log.pin).findings == ()
    alone = Log.begun()
    assert checked(alone.receipt(0), alone.pin).findings == ()


def test_the_standard_library_alone_verifies_it() -> None:
    assert check_receipt(receipt()).ok


@pytest.mark.parametrize(
    ("tamper", "code"),
    [
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(task="t9")), "inclusion"),
        (lambda: with_line(receipt(), lambda entry: entry.update(seq=21)), "index"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(nonce="1" * 32), "genesis"), "inclusion"),
        (lambda: with_line(receipt(), lambda entry: entry.update(kind="task.answered"), "genesis"), "genesis"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(origin="other"), "genesis"), "genesis"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(reason="lost"), "epoch"), "inclusion"),
        (lambda: with_line(receipt(), lambda entry: entry["data"].update(epoch=1), "epoch"), "epoch"),
        (lambda: with_line(receipt(), lambda entry: entry.update(kind="task.answered"), "epoch"), "epoch"),
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
        (lambda: b"\n".join(receipt().split(b"\n")[:1] + receipt().split(b"\n")[2:]), "receipt"),
        (lambda: b"", "receipt"),
        (lambda: b"c2sp.org/tlog-proof@v1\n", "receipt"),
    ],
)  # fmt: skip
def test_a_tampered_receipt_is_refused(tamper: Callable[[], bytes], code: str) -> None:
    report = checked(tamper())
    assert code in [each.code for each in report.findings]
    assert report.exit_code == 20


@pytest.mark.parametrize(
    "other", [Log.begun(seed="new keys"), Log.begun(epoch_seed="new genesis")], ids=["new keys", "new genesis"]
)
def test_a_receipt_of_a_rebuilt_log_contradicts_the_pin(other: Log) -> None:
    assert checked(other.receipt(0)).ok
    report = checked(other.receipt(0), honest().pin)
    assert (report.exit_code, report.signed.keys) == (21, "self-asserted")


def test_an_unsigned_log_gives_no_receipts() -> None:
    log = Log.begun(signed=False)
    assert checked(log.receipt(0, note=honest().note())).exit_code == 20


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
