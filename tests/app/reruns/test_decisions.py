from collections.abc import Mapping

from hansard.app.reruns.decisions import decisions
from hansard.ledger.canonical import Json
from hansard.ledger.entry import Entry
from hansard.record.replaying import Reader
from signed_log import SignedLog


def entry(seq: int, kind: str, data: Mapping[str, Json]) -> Entry:
    return Entry(seq=seq, ts=seq, run="r", kind=kind, actor="engine", causes=(), data=data, body={}, prev="", line=b"")


def test_what_was_decided_behind_a_retry_does_not_hide_what_was_decided_before(log: SignedLog) -> None:
    each: list[tuple[str, Mapping[str, Json]]] = [
        ("task.skipped", {"task": "b", "because": "upstream"}),
        ("task.escalated", {"task": "a", "from_rung": "cheap", "to_rung": "capable"}),
    ]
    retried = [*each, ("run.retry_asked", {"task": "a", "surface": "cli"}), *each]
    entries = [entry(seq, kind, data) for seq, (kind, data) in enumerate(retried)]
    assert [(" ".join(key), value) for key, value in decisions(Reader(log.store), entries)] == [
        ("skip b", ("upstream", 0)),
        ("escalation a cheap", ("to capable", 1)),
        ("skip b retry 1", ("upstream", 3)),
        ("escalation a cheap retry 1", ("to capable", 4)),
    ]
