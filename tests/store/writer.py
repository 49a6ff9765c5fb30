"""A process that writes to a ledger as it is told on its standard input, and says what was acknowledged.

It is run as a program of its own, so that it can be killed, stopped, traced and starved. Needs the package on the path.

    append COUNT GROUP BYTES   COUNT groups of GROUP entries, a commit each, with bodies of BYTES
    claim NAME LEASE_S         take a claim, and drive with it from now on
    drive                      append one entry that only the holder of the claim may write
    close                      close the ledger
"""

import os
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from hansard.errors import HansardError
from hansard.ledger.body import TEXT, commitment
from hansard.ledger.canonical import Json
from hansard.ledger.entry import GENESIS, checked_sketch
from hansard.store.base import Claim, Draft, Outcome, Part, Store

ORIGIN = {"custody": "none", "nonce": "00" * 16, "origin": "hansard.invalid/faults", "software": "0", "spec": 1}


def genesis() -> Draft:
    return Draft("", checked_sketch(kind=GENESIS, actor="log", run="", data=ORIGIN, body={}), (), (), None)


def draft(text: str, *, size: int = 0, fence: tuple[str, int] | None = None) -> Draft:
    """An entry with one body that says `text`, and goes on until it is of a size."""
    body = text.encode().ljust(size, b".")
    part = Part("output", TEXT, sha256(os.urandom(16)).digest(), body)
    committed = {part.name: commitment(part.salt, part.media, part.body).hex()}
    data: Json = {"by": os.getpid()}
    sketch = checked_sketch(kind="task.noted", actor="lane:test", run="r1", data=data, body=committed)
    return Draft("r1", sketch, (), (part,), fence)


def create(path: Path) -> Store:
    """A new ledger in the form that the name's ending asks for."""
    if path.suffix == ".jsonl":
        from hansard.store.jsonl import JsonlStore

        return JsonlStore.create(path, genesis())
    from hansard.store.sqlite import SqliteStore

    return SqliteStore.create(path, genesis())


def reopen(path: Path) -> Store:
    """The ledger that lies there."""
    if path.suffix == ".jsonl":
        from hansard.store.jsonl import JsonlStore

        return JsonlStore.open(path)
    from hansard.store.sqlite import SqliteStore

    return SqliteStore.open(path)


class Writer:
    """Does what it is told, one line at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._claim: Claim | None = None

    def obey(self, order: Sequence[str]) -> None:
        match order:
            case ["append", count, group, size]:
                for at in range(int(count)):
                    drafts = [draft(f"{os.getpid()} {at} {each}", size=int(size)) for each in range(int(group))]
                    _acknowledge(self._store.append([drafts]))
                say("done")
            case ["claim", name, lease_s]:
                self._claim = self._store.claim(name, float(lease_s))
                say(f"claimed {self._claim.epoch} {self._claim.because}")
            case ["drive"]:
                assert self._claim is not None
                _acknowledge(self._store.append([[draft("driven", fence=(self._claim.name, self._claim.epoch))]]))
            case ["close"]:
                self._store.close()
                say("closed")
            case _:
                raise SystemExit(f"no such order: {order}")


def _acknowledge(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, HansardError):
            raise outcome
        say("ack " + " ".join(f"{place.seq}:{place.leaf.hex()}" for place in outcome))


def say(line: str) -> None:
    """One system call for each line: a reader gets all of it or nothing."""
    os.write(1, f"{line}\n".encode())


def _attempt(work: Callable[[], None]) -> None:
    try:
        work()
    except HansardError as error:
        say(f"refused {type(error).__name__} {' '.join(str(error).split())}")


def main(mode: str, name: str) -> None:
    path = Path(name)
    stores: list[Store] = []
    _attempt(lambda: stores.append((create if mode == "create" else reopen)(path)))
    if not stores:
        return
    writer = Writer(stores[0])
    say(f"ready {stores[0].head().size}")
    for line in sys.stdin:
        _attempt(lambda order=line.split(): writer.obey(order))  # type: ignore[misc]


if __name__ == "__main__":
    main(*sys.argv[1:])
