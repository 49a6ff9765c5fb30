"""The port: what every store of entries can do, in our own verbs. Knows no engine, no key and no kind.

The port is synchronous; whoever stands on an event loop decides where it runs. Stores are written natively and share
the pure rules of `sequence` only.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple, Protocol

from hansard.domain.value import value
from hansard.errors import HansardError, UsageError
from hansard.ledger.entry import Entry, Sketch

Freed = Literal["new", "resumed", "expired", "dead"]
"""Why a claim could be taken."""


def repair_of(place: str) -> str:
    """What to type where something that can be derived anew is damaged."""
    return f"run: hansard ledger repair --ledger {quote(place)}"


def verify_of(place: str, *, deep: bool = False) -> str:
    """What to type where something is not as it was recorded."""
    return f"run: hansard verify {'--deep ' if deep else ''}{quote(place)}"


def no_ledger(path: Path) -> UsageError:
    """What is wrong with a path at which there is no file. Where something else bears the name, none can be made there."""
    if path.is_symlink():
        return UsageError(f"{path} is a link that leads to no file; mend or remove it, or name another place")
    if path.exists():
        return UsageError(f"{path} is no file, and so no ledger; name another place")
    return UsageError(
        f"no ledger at {path}; check the path, or make one with: hansard init --ledger {quote(str(path))}"
    )


class Part(NamedTuple):
    """One body on its way into a store, with the salt of its commitment."""

    name: str
    media: str
    salt: bytes
    body: bytes
    digest: bytes | None = None
    """The unsalted one, where it is known: a store that keeps large bodies once has to name them by it."""


class Draft(NamedTuple):
    """An entry before its place is known.

    A cause below zero points into the draft's own group: `~i` is the i-th draft. Parts are sorted by name. `fence` names a
    claim and its epoch; unless the claim still has that epoch, the append is refused. None: anybody may write this.
    """

    run: str
    sketch: Sketch
    causes: tuple[int, ...]
    parts: tuple[Part, ...]
    fence: tuple[str, int] | None


Group = Sequence[Draft]
"""Drafts that stand or fall together."""


class Placed(NamedTuple):
    """An entry at its place, with all that a store has to write for it."""

    seq: int
    ts: int
    leaf: bytes
    line: bytes
    causes: tuple[int, ...]
    draft: Draft


Outcome = list[Placed] | HansardError
"""What became of one group: its places, or why it was refused while its batch went on."""


def _always(_: int) -> bool:
    return True


class Seal(NamedTuple):
    """The right to sign what a commit ends with: the `seal` claim's epoch, and what makes a note of a size and a root.

    `sign` gives None when no checkpoint is due, and `due` tells so before anybody works out the root. `sign` runs inside
    the transaction, so the note is durable together with the entries that it covers, and never before them.
    """

    epoch: int
    sign: Callable[[int, bytes], str | None]
    due: Callable[[int], bool] = _always


@value
class Head:
    """The end of the log: how many entries, the leaf hash and time of the last, and the root of all."""

    size: int
    leaf: bytes
    ts: int
    root: bytes


@value
class StoredBody:
    """A body as it sleeps, with what opens its commitment."""

    seq: int
    part: str
    media: str
    salt: bytes
    body: bytes


@value
class StoredCheckpoint:
    """A signed note and the size that it speaks of."""

    size: int
    note: str


@value
class Query:
    """Which entries: all given conditions hold. `after` and `before` bound the seq, exclusive."""

    run: str | None = None
    kind: str | None = None
    actor: str | None = None
    from_ts: int | None = None
    to_ts: int | None = None
    after: int = -1
    before: int | None = None
    limit: int | None = None
    newest_first: bool = False

    @property
    def names(self) -> dict[str, str]:
        """The names that are asked for. By the first an index finds the fewest entries; the others are compared, since a
        planner that has no figures would as soon look through all entries of a kind for those of one run."""
        asked = {"run": self.run, "kind": self.kind, "actor": self.actor}
        return {name: each for name, each in asked.items() if each is not None}


@value
class Claim:
    """The right to drive a run, or to seal the log, until the lease ends."""

    name: str
    epoch: int
    because: Freed


class Store(Protocol):
    """A log that can be appended to and read. Every method may raise StoreError."""

    @property
    def place(self) -> str:
        """Where this ledger lies, for messages."""
        ...

    @property
    def inline(self) -> Callable[[Draft], Placed] | None:
        """Appends one draft at once, where that is so cheap that it needs neither a queue nor a thread; None elsewhere.

        It raises what append would answer.
        """
        ...

    @property
    def busy(self) -> bool:
        """Whether a commit may have to wait for somebody else: whoever must not wait leaves it to a thread."""
        ...

    @property
    def broken(self) -> str | None:
        """Why this ledger may be read but not extended; None when all is well."""
        ...

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        """Write all groups, and the checkpoint that ends with them, in one durable commit.

        Refused groups are answered one by one; a failed commit raises for all. A seal whose epoch is over is passed over.
        """
        ...

    def head(self) -> Head: ...

    def node(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree ([H6]), at any level down to the leaves."""
        ...

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]: ...

    def entry(self, seq: int) -> Entry:
        """One entry; UsageError when there is none, StoreError when its line cannot be read."""
        ...

    def select(self, query: Query) -> Iterator[Entry]: ...

    def count(self, run: str) -> int:
        """How many entries a run has, without reading them."""
        ...

    def effects(self, seq: int) -> list[int]:
        """The entries that name `seq` among their causes."""
        ...

    def wait(self, size: int, timeout_s: float) -> int:
        """Wait until the log is larger than `size`, or the time is over; gives the size then."""
        ...

    def body(self, seq: int, part: str) -> StoredBody | None:
        """The body of a part, or None when it is not here; Tampered when what lies there cannot be read as a body."""
        ...

    def erase(self, *parts: tuple[int, str]) -> None:
        """Delete bodies and their salts for good; their tombstones must already be durable ([B3])."""
        ...

    def checkpoints(self, *, newest_first: bool = False) -> Iterator[StoredCheckpoint]: ...

    def add_checkpoint(self, checkpoint: StoredCheckpoint, epoch: int) -> None:
        """Keep a checkpoint; refused as fenced unless the `seal` claim still has that epoch."""
        ...

    def claim(self, name: str, lease_s: float) -> Claim:
        """Take a claim that is free, expired or held by a process that is dead; Fenced when somebody holds it."""
        ...

    def renew(self, claim: Claim, lease_s: float) -> None: ...

    def renew_all(self, claims: Sequence[Claim], lease_s: float) -> None:
        """Renew those of these claims that nobody has taken since, in one durable commit."""
        ...

    def release(self, claim: Claim) -> None: ...

    def epoch(self, name: str) -> int:
        """The claim's newest epoch; where it was never taken 0, or the highest of those that the store has forgotten."""
        ...

    def repair(self) -> list[tuple[str, int]]:
        """Put right what is derived or torn, never an entry; what was done, as (what, count). Uncleaned where that left traces."""
        ...

    def sync(self) -> None:
        """Return when everything acknowledged is durable."""
        ...

    def close(self) -> None: ...
