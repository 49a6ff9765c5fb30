"""A copy of a ledger that does not hold together, for a verifier who is to tell what is wrong with it: whatever can be read of it,
in JSON lines ([J1]-[J3]).

Judges nothing. What is whole is exported instead.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from hansard.errors import HansardError, Unavailable, unwritten
from hansard.ledger.canonical import Malformed, encode
from hansard.ledger.form import read
from hansard.record.export import body_line
from hansard.store.base import Store

WIDTH = 256


def copy_lines(store: Store, folder: Path, progress: Callable[[int, int], None]) -> Path:
    """Write the lines, bodies and checkpoints to a new folder; the file of the lines."""
    path = folder / "ledger.jsonl"
    try:
        folder.mkdir(mode=0o700)
        # What is signed meanwhile must not look like an end that was cut off.
        with (folder / "ledger.checkpoints.jsonl").open("xb") as notes:
            notes.writelines(encode({"note": stored.note}) + b"\n" for stored in store.checkpoints())
        with path.open("xb") as lines, (folder / "ledger.bodies.jsonl").open("xb") as bodies:
            for done, line in enumerate(store.lines()):
                lines.write(line + b"\n")
                bodies.writelines(_body_lines(store, line))
                if done % WIDTH == 0:
                    progress(done, done)
    except OSError as error:
        raise unwritten(f"cannot copy to {folder}: {error.strerror}", error) from error
    return path


def _body_lines(store: Store, line: bytes) -> Iterator[bytes]:
    with suppress(Malformed):
        entry = read(line)
        for part in sorted(entry.body):
            try:
                found = store.body(entry.seq, part)
            except Unavailable:
                raise
            except HansardError:
                # A verifier finds it missing.
                continue
            if found is not None:
                yield body_line(found)
