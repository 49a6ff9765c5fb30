"""What a log says about itself is read strictly: a key, a tombstone or an anchor that is nearly one is none."""

import json
from typing import Any

import pytest

from hansard.ledger.canonical import Malformed
from hansard.ledger.events import read_event
from hansard.ledger.note import VerifierKey
from specimens import ORIGIN, Key, Log

WITNESS = VerifierKey.cosigner(ORIGIN, Key.of(ORIGIN).verifier.public).text()
OTHER = Key.of("other.example.invalid").verifier.text()
SOUND: dict[str, dict[str, Any]] = {
    "log.genesis": json.loads(Log.begun().lines[0])["data"],
    "key.rotated": {"epoch": 1, "key": Key.of(f"{ORIGIN}/epoch/1").verifier.text()},
    "body.redacted": {"seq": 0, "part": "a", "commitment": "0" * 64},
    "anchor.recorded": {"by": "copy", "size": 0, "root": "0" * 64, "time_us": 0},
}


def test_what_is_of_its_form_is_read() -> None:
    for kind, data in SOUND.items():
        assert read_event(kind, 0, "0" * 64, data).seq == 0
    unsigned = json.loads(Log.begun(signed=False).lines[0])["data"]
    read_event("log.genesis", 0, "0" * 64, unsigned)
    for other in ({"identity": OTHER}, {"epoch_key": OTHER}, {"origin": ""}):
        with pytest.raises(Malformed):
            read_event("log.genesis", 0, "0" * 64, unsigned | other)


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        ("log.genesis", "spec", (True, "1", 0, 2, None)),
        ("log.genesis", "origin", ("", 7, "other.example.invalid")),
        ("log.genesis", "nonce", ("", 7, "0" * 31, "0" * 33, "A" * 32)),
        ("log.genesis", "custody", (7, None)),
        ("log.genesis", "identity", (7, None, "", WITNESS, OTHER)),
        ("log.genesis", "epoch_key", (7, None, "", WITNESS, OTHER)),
        ("key.rotated", "epoch", (True, "1", -1, None)),
        ("key.rotated", "key", (7, None, "", WITNESS)),
        ("body.redacted", "seq", (True, "1", -1, None)),
        ("body.redacted", "part", (7, "", "A", "a/b", "a\n")),
        ("body.redacted", "commitment", (7, "", "A" * 64, "0" * 63, "0" * 64 + "\n")),
        ("anchor.recorded", "by", (7, None)),
        ("anchor.recorded", "size", (True, "1", -1, None)),
        ("anchor.recorded", "root", (7, "", "A" * 64, "0" * 63, "0" * 64 + "\n")),
        ("anchor.recorded", "time_us", (True, "1", -1, None)),
    ],
)
def test_what_is_nearly_of_its_form_is_refused(kind: str, name: str, values: tuple[object, ...]) -> None:
    for value in values:
        with pytest.raises(Malformed):
            read_event(kind, 0, "0" * 64, SOUND[kind] | {name: value})
