"""What a writer finds when it opens a ledger that was left in the middle of something ([J4], [B3]). Decides, cuts nothing."""

from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import checked_sketch
from hansard.store.base import Draft
from hansard.store.jsonl.bodies import key_at
from hansard.store.jsonl.files import Tail, line_before, whole_end


def leftovers(bodies: Tail, size: int) -> tuple[int, int]:
    """Where the body lines of a log of this size end, and how many follow, a torn one included."""
    end = cut = whole_end(bodies.fd)
    count = 1 if end < bodies.kept else 0
    while cut:
        at = line_before(bodies.fd, cut)
        try:
            seq, _ = key_at(bodies.fd, at)
        except Malformed as error:
            raise Malformed(f"{bodies.path} holds something else than bodies at byte {at}") from error
        if seq < size:
            break
        cut, count = at, count + 1
    return cut, count


def repaired(what: str, count: int) -> Draft:
    """The entry that says what was put right."""
    sketch = checked_sketch(kind="log.repaired", actor="log", run="", data={"count": count, "what": what}, body={})
    return Draft("", sketch, (), (), None)
