"""Which witnesses vouch for a log ([W5]): many tokens, forged ones, those of other logs, and keys in odd places."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hansard.domain.custody import AnchorRecorded
from hansard.domain.fact import Body
from hansard.ledger.checkpoint import parse_checkpoint
from hansard.ledger.note import Signature, VerifierKey, cosignature_message, format_note, parse_note
from hansard.ledger.report import Witnessed
from hansard.ledger.verify import CannotRead, Options, Report, verify
from hansard.record.export import export
from hansard.record.receipts import make_consistency
from hansard.record.recorder import Step, record_now
from hansard.seal.signing import SigningKey, sign_checkpoint
from hansard.seal.witness import Witness
from signed_log import SignedLog
from specimens import Key, Log

NAME, NOW = "witness.example/w1", 1_800_000_000
MANY = 1_200
"""More than a day of them, one a minute, is less than two thousand."""


@pytest.fixture
def witness(tmp_path: Path, log: SignedLog) -> Witness:
    made = Witness.open(tmp_path / "w", NAME)
    made.trust(VerifierKey.parse(log.identity))
    return made


def cosigned(log: SignedLog, witness: Witness) -> str:
    """The log as it stands, signed and cosigned."""
    log.ask("something new")
    kept, known = log.checkpoint(), witness.logs()[0].checkpoint
    body = make_consistency(log.store, known.size if known else 0, kept)
    return kept.note + witness.cosign(body.encode(), lambda: NOW)


def anchor(note: str, token: str | None = None) -> AnchorRecorded:
    """What is recorded of a note; `token` is another one that is kept in its place."""
    seen = parse_checkpoint(parse_note(note).text)
    return AnchorRecorded(
        by="witness", size=seen.size, root=seen.root.hex(), time_us=NOW, token=Body.text(token or note)
    )


def record(log: SignedLog, *facts: AnchorRecorded) -> None:
    record_now(log.store, [Step(fact, "sealer") for fact in facts])


def size_of(note: str) -> int:
    return parse_checkpoint(parse_note(note).text).size


Checked = Callable[[SignedLog, Witness], Report]


@pytest.fixture(params=["sqlite", "export"])
def checked(request: pytest.FixtureRequest, tmp_path: Path) -> Checked:
    """How the log is verified: as it is, or as lines that were carried away."""

    def check(log: SignedLog, witness: Witness) -> Report:
        path = log.path
        if request.param == "export":
            path = tmp_path / "out"
            log.checkpoint()
            export(log.store, path)
        log.store.close()
        return verify(path, Options(witnesses=(witness.key.text(),)))

    return check


def test_the_newest_of_many_words_counts(log: SignedLog, witness: Witness, checked: Checked) -> None:
    first = cosigned(log, witness)
    record(log, *[anchor(first)] * MANY)
    newest = cosigned(log, witness)
    record(log, anchor(newest))
    report = checked(log, witness)
    assert report.exit_code == 0, report.findings
    assert report.witnessed == (Witnessed(name=NAME, size=size_of(newest), time_s=NOW),)


def test_a_witness_that_came_late_or_went_early_is_found_among_many(
    log: SignedLog, witness: Witness, checked: Checked, tmp_path: Path
) -> None:
    mine = cosigned(log, witness)
    other = Witness.open(tmp_path / "other", "witness.example/w2")
    other.trust(VerifierKey.parse(log.identity))
    theirs = cosigned(log, other)
    record(log, *[anchor(theirs)] * (MANY // 2), anchor(mine), *[anchor(theirs)] * MANY)
    report = checked(log, witness)
    assert report.exit_code == 0, report.findings
    assert [each.size for each in report.witnessed] == [size_of(mine)]


def test_every_recorded_anchor_is_held_against_the_log(log: SignedLog, witness: Witness, checked: Checked) -> None:
    note = cosigned(log, witness)
    lie = AnchorRecorded(by="witness", size=size_of(note), root="00" * 32, time_us=NOW, token=Body.text(note))
    record(log, *[anchor(note)] * MANY, lie)
    seq = log.store.head().size - 1
    report = checked(log, witness)
    assert report.exit_code == 20
    assert [each.seq for each in report.findings if each.code == "anchored_root"] == [seq]
    assert len(report.brackets) == 1_000


def test_a_word_on_entries_that_were_not_there_yet_is_none(log: SignedLog, witness: Witness, checked: Checked) -> None:
    note = cosigned(log, witness)
    root = parse_checkpoint(parse_note(note).text).root.hex()
    beyond = log.store.head().size + 1
    record(log, AnchorRecorded(by="witness", size=beyond, root=root, time_us=NOW, token=Body.text(note)))
    report = checked(log, witness)
    assert report.exit_code == 20
    assert report.witnessed == ()


def test_forged_tokens_count_for_nothing_and_hide_nothing(log: SignedLog, witness: Witness, checked: Checked) -> None:
    good = cosigned(log, witness)
    record(log, anchor(good))
    log.ask("more")
    later = parse_note(log.checkpoint().note)
    blob = NOW.to_bytes(8, "big") + bytes(64)
    forged = format_note(later.text, (*later.signatures, Signature(name=NAME, key_id=witness.key.key_id, blob=blob)))
    record(log, *[anchor(forged)] * 5)
    report = checked(log, witness)
    assert report.exit_code == 0
    assert [each.size for each in report.witnessed] == [size_of(good)]
    assert {each.grade for each in report.findings if each.code == "cosignature"} == {"warning"}


def test_what_a_witness_said_of_another_log_is_no_word_on_this_one(
    log: SignedLog, witness: Witness, checked: Checked
) -> None:
    log.ask("something")
    kept, stranger = log.checkpoint(), SigningKey.generate("log.example/other")
    witness.trust(stranger.verifier)
    seen = parse_checkpoint(parse_note(kept.note).text)
    other = sign_checkpoint("log.example/other", seen.size, seen.root, [stranger])
    other += witness.cosign(f"old 0\n\n{other}".encode(), lambda: NOW)
    record(log, anchor(kept.note, token=other), anchor(kept.note, token="no note at all"))
    report = checked(log, witness)
    assert report.exit_code == 23
    assert report.witnessed == ()


@pytest.mark.parametrize("part", ["note", "token", "word"])
def test_a_word_counts_where_it_is_the_token_in_every_form_of_a_log(tmp_path: Path, part: str) -> None:
    log = Log.begun()
    log.grow(5)
    text = parse_note(log.note()).text
    private = Key.of(NAME).private
    key = VerifierKey.cosigner(NAME, private.public_key().public_bytes_raw())
    blob = NOW.to_bytes(8, "big") + private.sign(cosignature_message(text, NOW))
    note = format_note(text, [Signature(name=NAME, key_id=key.key_id, blob=blob)])
    seen = parse_checkpoint(text)
    log.append(
        "anchor.recorded",
        data={"by": "witness", "size": seen.size, "root": seen.root.hex(), "time_us": NOW},
        bodies={"another": b"x", "token": b"x"} | {part: note.encode()},
        run="",
    )
    log.checkpoint()
    for path in (
        log.write_sqlite(tmp_path / "x.db"),
        log.write_jsonl(tmp_path / "x.jsonl"),
        log.write_export(tmp_path / "x"),
    ):
        report = verify(path, Options(witnesses=(key.text(),)))
        assert [each.size for each in report.witnessed] == ([6] if part == "token" else []), path
        assert report.exit_code == (0 if part == "token" else 23)


def test_a_token_that_was_redacted_is_gone(log: SignedLog, witness: Witness, checked: Checked) -> None:
    record(log, anchor(cosigned(log, witness)))
    log.redact(log.store.head().size - 1, "token")
    assert checked(log, witness).exit_code == 23


@pytest.mark.parametrize("time_s", [0, 2**63 - 1])
def test_any_time_can_be_reported(log: SignedLog, witness: Witness, time_s: int) -> None:
    log.ask("something")
    kept = log.checkpoint()
    line = witness.cosign(make_consistency(log.store, 0, kept).encode(), lambda: time_s)
    record(log, anchor(kept.note + line))
    log.store.close()
    report = verify(log.path, Options(witnesses=(witness.key.text(),)))
    assert report.witnessed == (Witnessed(name=NAME, size=kept.size, time_s=time_s),)


def test_a_key_that_is_named_twice_is_one_witness(log: SignedLog, witness: Witness, tmp_path: Path) -> None:
    record(log, anchor(cosigned(log, witness)))
    log.store.close()
    (tmp_path / "its+key").write_text(f"{witness.key.text()}\n")
    report = verify(log.path, Options(witnesses=(witness.key.text(), str(tmp_path / "its+key"))))
    assert [each.name for each in report.witnessed] == [NAME]


@pytest.mark.parametrize("name", ["", "a" * 300, "a+b+c", "folder", "pipe", "with+plus", "nothing\0here"])
def test_what_is_no_key_of_a_witness(log: SignedLog, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "with+plus").write_text(log.identity)
    log.store.close()
    with pytest.raises(CannotRead):
        verify(
            log.path, Options(witnesses=(str(tmp_path / name) if name in ("folder", "pipe", "with+plus") else name,))
        )
    with pytest.raises(CannotRead):
        verify(log.path, Options(pin=name))
