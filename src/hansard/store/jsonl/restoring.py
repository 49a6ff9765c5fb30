"""Lays out a ledger in JSON lines from lines that exist already: an import, never a way to write new entries.

The entries take their name last, when everything is durable: until then there is no ledger. Claims do not come along.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hansard.durable import sync
from hansard.errors import StoreError, plainly, unwritten
from hansard.ledger.canonical import dump
from hansard.store.base import Head, StoredCheckpoint
from hansard.store.jsonl.bodies import Encode, encode_body
from hansard.store.jsonl.checkpoints import encode_checkpoint
from hansard.store.jsonl.files import CHUNK, LF, MODE, Paths, spare
from hansard.store.jsonl.lock import Lock
from hansard.store.jsonl.log import LineLog
from hansard.store.retracing import Restored, Retracing


def restore(
    path: Path, rows: Iterable[Restored], checkpoints: Iterable[StoredCheckpoint], *, encode: Encode = dump
) -> Head:
    """Make a new ledger of these lines, bodies and checkpoints; StoreError when one is there, or they do not fit together."""
    paths = Paths.of(path)
    try:
        lock = Lock(paths.lock)
        try:
            paths.make_room()
            # In the order in which they take their names.
            with _put_in_place((paths.bodies, paths.checkpoints, paths.entries)) as (bodies, notes, entries):
                way = Retracing()
                for line, parts in rows:
                    entry, _ = way.step(line, parts)
                    bodies.writelines(encode_body(entry.seq, part, encode) for part in sorted(parts))
                    entries.writelines((line, LF))
                head = way.end()
                notes.writelines(map(encode_checkpoint, checkpoints))
            _make_index(paths)
        finally:
            lock.release()
    except OSError as error:
        raise unwritten(f"cannot restore to {path}: {plainly(error)}", error) from error
    return head


def _make_index(paths: Paths) -> None:
    """Readers keep none: each of them would have to make its own until somebody writes. Without one it is a ledger all the same."""
    with suppress(StoreError, OSError), paths.entries.open("rb") as lines:
        LineLog(lines.fileno(), paths.index, str(paths.entries), writing=True).close()


@contextmanager
def _put_in_place(paths: Iterable[Path]) -> Iterator[list[BinaryIO]]:
    """Files to write to, which have their names afterwards; none of them is left where that fails."""
    made: list[Path] = []
    try:
        with ExitStack() as opened:
            files = []
            for path in paths:
                made.append(spare(path))
                fd = os.open(made[-1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
                files.append(opened.enter_context(open(fd, "wb", buffering=CHUNK)))
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for at, path in enumerate(paths):
            made[at] = made[at].replace(os.path.realpath(path))
        sync(made[0].parent)
    except BaseException:
        for path in made:
            with suppress(OSError):
                path.unlink()
        raise
