"""A process that writes to a ledger as it is told on its standard input, and says what was acknowledged.

It is run as a program of its own, so that it can be killed, stopped, traced and starved. An order that the ledger refuses
is answered with the refusal; anything else that goes wrong ends the process with a traceback, which no test forgives.

    create | open              the ledger at the path that it was started with
    append COUNT GROUP BYTES   COUNT groups of GROUP entries, a commit each, with bodies of BYTES
    claim NAME LEASE_S         take a claim, and drive with it from now on
    drive                      append one entry that only the holder of the claim may write
    close                      close the ledger
"""

import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from hansard.errors import HansardError
from hansard.ledger.body import TEXT, commitment
from hansard.ledger.canonical import Json
from hansard.ledger.entry import GENESIS, checked_sketch
from hansard.store.base import Claim, Draft, Part, Store
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore

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
    return (JsonlStore if path.suffix == ".jsonl" else SqliteStore).create(path, genesis())


def reopen(path: Path) -> Store:
    """The ledger that lies there."""
    return (JsonlStore if path.suffix == ".jsonl" else SqliteStore).open(path)


class Writer:
    """Does what it is told, one line at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store: Store | None = None
        self._claim: Claim | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None, "open or create first"
        return self._store

    def obey(self, order: Sequence[str]) -> None:
        match order:
            case ["create" | "open" as how]:
                self._store = create(self._path) if how == "create" else reopen(self._path)
                say(f"ready {self._store.head().size}")
            case ["append", count, group, size]:
                for at in range(int(count)):
                    self._put([draft(f"{os.getpid()} {at} {each}", size=int(size)) for each in range(int(group))])
                say("done")
            case ["claim", name, lease_s]:
                self._claim = self.store.claim(name, float(lease_s))
                say(f"claimed {self._claim.epoch} {self._claim.because}")
            case ["drive"]:
                assert self._claim is not None, "claim first"
                self._put([draft("driven", fence=(self._claim.name, self._claim.epoch))])
            case ["close"]:
                self.store.close()
                say("closed")
            case _:
                raise SystemExit(f"no such order: {order}")

    def _put(self, group: Sequence[Draft]) -> None:
        [outcome] = self.store.append([group])
        if isinstance(outcome, HansardError):
            raise outcome
        say("ack " + " ".join(f"{place.seq}:{place.leaf.hex()}" for place in outcome))


def say(line: str) -> None:
    """One system call for each line: a reader gets all of it or nothing."""
    os.write(1, f"{line}\n".encode())


def main(path: Path) -> None:
    writer = Writer(path)
    say("here")
    for line in sys.stdin:
        try:
            writer.obey(line.split())
        except HansardError as error:
            say(f"refused {type(error).__name__} {' '.join(str(error).split())}")
            if line.strip() in ("create", "open"):
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
