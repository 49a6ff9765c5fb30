"""What the suite writes and how it looks at what came of it: drafts, parts, a clock, a walk along the chain."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import count

from hansard.errors import HansardError
from hansard.ledger.body import TEXT, commitment
from hansard.ledger.canonical import Json
from hansard.ledger.entry import FIRST_PREV, GENESIS, Entry, checked_sketch, parse
from hansard.ledger.merkle import leaf_hash
from hansard.store.base import Draft, Outcome, Part, Placed, Store

START_S = 1_700_000_000.0
_salts = count()


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_s: float = START_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


class Bench:
    """What a store has to provide to be tried."""

    def make(self, genesis: Draft, clock: Clock) -> Store:
        """A new, empty store whose entry 0 is `genesis` and whose time is `clock`."""
        raise NotImplementedError

    def pass_time(self, clock: Clock, seconds: float) -> None:
        """Let leases grow older. A store whose leases run by a server's clock waits here."""
        clock.advance(seconds)

    @contextmanager
    def opened(self) -> Iterator[tuple[Store, Clock]]:
        """A new store and its clock, for one test."""
        clock = Clock()
        store = self.make(genesis(), clock)
        try:
            yield store, clock
        finally:
            store.close()


def genesis() -> Draft:
    """The first entry of an unsigned log."""
    data = {"custody": "none", "nonce": "00" * 16, "origin": "hansard.invalid/conformance", "software": "0", "spec": 1}
    return draft(kind=GENESIS, run="", actor="log", data=data)


def draft(
    *,
    kind: str = "task.requested",
    run: str = "r1",
    actor: str = "coordinator",
    data: Json = None,
    causes: Iterable[int] = (),
    parts: Iterable[Part] = (),
    fence: tuple[str, int] | None = None,
) -> Draft:
    """A draft with sensible values for what a test does not care about."""
    ordered = tuple(sorted(parts))
    body = {each.name: commitment(each.salt, each.media, each.body).hex() for each in ordered}
    sketch = checked_sketch(kind=kind, actor=actor, run=run, data=data or {}, body=body)
    return Draft(run, sketch, tuple(causes), ordered, fence)


def part(body: bytes, *, name: str = "output", media: str = TEXT) -> Part:
    """A part with a salt that no other part has."""
    return Part(name, media, sha256(b"%d" % next(_salts)).digest(), body)


def redacted(seq: int, what: Part, *, committed: str | None = None) -> Draft:
    """The tombstone of a part ([B3])."""
    right = commitment(what.salt, what.media, what.body).hex()
    data = {"commitment": committed or right, "part": what.name, "reason": "other", "seq": seq}
    return draft(kind="body.redacted", run="", actor="human:k1", data=data, causes=(seq,))


def note(size: int, root: bytes = bytes(32), *, by: str = "key") -> str:
    """A checkpoint of this size, as text; a store believes its signatures and looks at none."""
    return f"hansard.invalid/conformance\n{size}\n{b64encode(root).decode()}\n\n— {by} AAAAAA==\n"


def placed(outcome: Outcome) -> list[Placed]:
    """The places of a group that must not have been refused."""
    assert not isinstance(outcome, HansardError), outcome
    return outcome


def put(store: Store, *drafts: Draft) -> list[Placed]:
    """Append one group that must be taken."""
    [outcome] = store.append([drafts])
    return placed(outcome)


def fill(store: Store, size: int) -> None:
    """Let the log grow to a size, many entries a commit."""
    missing = size - store.head().size
    for start in range(0, missing, 4096):
        store.append([[draft(data={"n": at})] for at in range(start, min(start + 4096, missing))])
    assert store.head().size == size


def walk(store: Store) -> list[Entry]:
    """Every entry, after checking that each follows the one before and that the head names the last."""
    entries: list[Entry] = []
    prev, ts = FIRST_PREV, 0
    for at, line in enumerate(store.lines()):
        entry = parse(line)
        assert (entry.seq, entry.prev) == (at, prev), f"entry {at} does not follow the one before"
        assert entry.ts >= ts, f"the time of entry {at} is before its predecessor's"
        prev, ts = leaf_hash(line).hex(), entry.ts
        entries.append(entry)
    head = store.head()
    assert (head.size, head.leaf.hex(), head.ts) == (len(entries), prev, ts), "the head is not the last entry"
    return entries


def kinds(entries: Sequence[Entry]) -> list[str]:
    return [entry.kind for entry in entries]


@contextmanager
def refused(*errors: type[BaseException]) -> Iterator[None]:
    """The block must raise one of these."""
    try:
        yield
    except errors as error:
        if str(error):
            return
        raise AssertionError(f"a {type(error).__name__} that does not say what happened") from error
    raise AssertionError(f"nothing was refused; expected {' or '.join(each.__name__ for each in errors)}")
