"""An export: the whole log in a folder that a stranger can check with the verifier inside it ([X1]-[X3]).

Writes what the store holds and judges nothing: what is broken, and can be read, is exported broken. It appears under its
name only when it is complete; what a crash leaves is a hidden folder beside it, which the next export there removes.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from hansard.domain.value import value
from hansard.durable import sync
from hansard.errors import StoreError, Tampered, UsageError, unwritten
from hansard.ledger.canonical import Json, Malformed, dump, encode
from hansard.ledger.events import REDACTED, ROTATED, read_note, tombstone_of
from hansard.ledger.form import read
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.note import to_base64
from hansard.ledger.tiles import WIDTH, bundle_path, encode_bundle, tile_path, tiles_for
from hansard.record.sealed import newest_sealed
from hansard.record.verifier_archive import archive, readme
from hansard.store.base import Query, Store, StoredBody, StoredCheckpoint, verify_of
from hansard.store.unfinished import unfinished

Progress = Callable[[int, int], None]
CHECKPOINTS = "checkpoints.jsonl"


@value
class Exported:
    """What an export holds. `published` is the size of its tiles; parts are opened, redacted, left out or missing."""

    folder: Path
    size: int
    checkpoints: int
    published: int | None
    bodies: int
    redacted: int
    left_out: int
    missing: int


_Part = tuple[int, str, str]
"""A part by its entry, its name and its commitment."""


@dataclass(slots=True)
class _Parts:
    written: int = 0
    redacted: int = 0
    left_out: int = 0
    missing: set[_Part] = field(default_factory=set)


def export(
    store: Store,
    folder: Path,
    *,
    upto: int | None = None,
    bodies: bool = True,
    pending: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write the first `upto` entries, or all, to a new folder; files are 0600 and folders 0700.

    Where a body is erased meanwhile, the entries up to the one that says so come along. A body whose tombstone stands
    anywhere in the log is not exported, even where its deletion is still `pending`; but for a copy that is verified and
    thrown away it is, since a verifier has to tell that it is still there.
    """
    _check_target(folder)
    try:
        with unfinished(folder, lambda place: place.mkdir(mode=0o700)) as partial:
            made = partial
            try:
                while (done := _written(store, partial, folder, upto, bodies, pending, progress)) is None:
                    _empty(partial)
                for each, _, _ in os.walk(partial):
                    sync(Path(each))
                os.rename(partial, folder)
                made = folder
                sync(folder.parent)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
    except OSError as error:
        raise unwritten(f"cannot export to {folder}: {error.strerror}; nothing was left there", error) from error
    return done


def _written(
    store: Store, partial: Path, folder: Path, upto: int | None, bodies: bool, pending: bool, progress: Progress | None
) -> Exported | None:
    """What was written; None where a key was rotated meanwhile, and it has to be written anew."""
    try:
        return _Export(store, partial, _size(store, upto), upto is None, bodies, pending, progress).run(folder)
    except _RotatedMeanwhile:
        return None


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


def _size(store: Store, upto: int | None) -> int:
    size = store.head().size
    if upto is None:
        return size
    if not 1 <= upto <= size:
        raise UsageError(f"cannot export {upto} entries of {store.place}: it has {size}; name 1 to {size}")
    return upto


def _check_target(folder: Path) -> None:
    if not folder.name:
        raise UsageError(f"cannot export to {folder}: an export is a new folder; name one, such as {folder / 'audit'}")
    if not folder.parent.is_dir():
        raise UsageError(f"cannot export to {folder}: {folder.parent} is not a folder; make it first")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"cannot export to {folder}: something that is not a folder is there; choose another name")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"cannot export to {folder}: it is not empty; choose another name")


class _RotatedMeanwhile(Exception):
    """Entries that have to come along introduce an epoch key, and the checkpoint that seals it ([C5]) was left behind."""


class _Export:
    """One export on its way; every file is durable when it is closed."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        size: int,
        grows: bool,
        bodies: bool,
        pending: bool,
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._folder = folder
        self._size = size
        self._grows = grows
        self._bodies = bodies
        self._pending = pending
        self._progress = progress
        self._parts = _Parts()
        self._tombstones = self._buried(Query(kind=REDACTED, before=size if grows else None))
        self._later: set[_Part] = set()

    def run(self, name: Path) -> Exported:
        checkpoints = self._write_checkpoints()
        # Whoever signs meanwhile keeps others, which do not come along.
        sealed = newest_sealed(self._store, self._size, self._written_checkpoints)
        published = sealed.checkpoint.size if sealed else 0
        self._write_entries(published)
        if sealed:
            self._write_upper_tiles(published)
            self._write("checkpoint", sealed.note.encode())
        self._write("verify.pyz", archive())
        words = readme(self._store.entry(0), self._size, bodies=self._bodies, tiles=sealed is not None)
        self._write("README.txt", words.encode())
        return Exported(
            folder=name,
            size=self._size,
            checkpoints=checkpoints,
            published=published or None,
            bodies=self._parts.written,
            redacted=self._parts.redacted,
            left_out=self._parts.left_out,
            missing=len(self._parts.missing),
        )

    def _write_checkpoints(self) -> int:
        count, reached = 0, self._size
        with self._file(CHECKPOINTS) as file:
            for stored in self._store.checkpoints():
                if stored.size > reached:
                    reached = self._store.head().size
                # What covers later entries stays behind. One of more than there are shows that the end was cut off ([C9]).
                if stored.size <= self._size or stored.size > reached:
                    file.write(encode({"note": stored.note}) + b"\n")
                    count += 1
        return count

    def _written_checkpoints(self) -> Iterator[StoredCheckpoint]:
        with (self._folder / CHECKPOINTS).open("rb") as file:
            for line in file:
                note = json.loads(line)["note"]
                with suppress(Malformed):
                    yield StoredCheckpoint(size=read_note(note).size, note=note)

    def _write_entries(self, published: int) -> None:
        with ExitStack() as stack:
            entries = stack.enter_context(self._file("entries.jsonl"))
            bodies = stack.enter_context(self._file("bodies.jsonl"))
            done = 0
            while done < self._size:
                done = self._write_lines(entries, bodies, done, published)
                self._follow()
        if self._later and not self._pending:
            self._take_out({(seq, part) for seq, part, commitment in self._later if self._has(seq, part, commitment)})

    def _write_lines(self, entries: BinaryIO, bodies: BinaryIO, done: int, published: int) -> int:
        lines = self._store.lines(done, self._size)
        while block := list(islice(lines, WIDTH)):
            entries.writelines(line + b"\n" for line in block)
            for line in block:
                bodies.writelines(self._body_lines(line))
            self._write_block(done // WIDTH, block[: max(0, published - done)])
            done += len(block)
            if self._progress:
                self._progress(done, self._size)
        if done != self._size:
            raise StoreError(f"{self._store.place} gave {done} entries of {self._size}; {verify_of(self._store.place)}")
        return done

    def _buried(self, query: Query) -> set[_Part]:
        """What these tombstones name."""
        stones = map(tombstone_of, self._store.select(query))
        return {(stone.seq, stone.part, stone.commitment) for stone in stones if stone}

    def _follow(self) -> None:
        """Where a body was erased since this began, go on up to the entry that says so."""
        if not (self._grows and self._parts.missing):
            return
        size = self._store.head().size
        later = self._buried(Query(kind=REDACTED, after=self._size - 1, before=size))
        if told := self._parts.missing & later:
            if any(self._store.select(Query(kind=ROTATED, after=self._size - 1, before=size, limit=1))):
                raise _RotatedMeanwhile
            self._parts.missing -= told
            self._parts.redacted += len(told)
            self._tombstones |= later
            self._later |= later
            self._size = size

    def _has(self, seq: int, part: str, commitment: str) -> bool:
        try:
            return any(read(line).body.get(part) == commitment for line in self._store.lines(seq, seq + 1))
        except Malformed:
            return False

    def _take_out(self, buried: set[tuple[int, str]]) -> None:
        """Bodies that were still there when they were read, and whose tombstones came along."""
        old, new = self._folder / "bodies.jsonl", self._folder / "bodies.new"
        with old.open("rb") as read, self._file(new.name) as kept:
            for line in read:
                stored = json.loads(line)
                if (stored["seq"], stored["part"]) in buried:
                    self._parts.written -= 1
                    self._parts.redacted += 1
                else:
                    kept.write(line)
        new.replace(old)

    def _body_lines(self, line: bytes) -> Iterator[bytes]:
        try:
            entry = read(line)
        except Malformed:
            # The entry is exported as it is; what it might commit to cannot be told.
            return
        for part in sorted(entry.body):
            place = (entry.seq, part, entry.body[part])
            buried = place in self._tombstones
            if buried and not self._pending:
                self._parts.redacted += 1
            elif not self._bodies:
                self._parts.left_out += 1
            elif (found := self._body(entry.seq, part)) is not None:
                self._parts.written += 1
                yield body_line(found)
            elif buried:
                self._parts.redacted += 1
            else:
                self._parts.missing.add(place)

    def _body(self, seq: int, part: str) -> StoredBody | None:
        """What is damaged beyond reading is missing from the copy, as a verifier finds it missing here."""
        try:
            return self._store.body(seq, part)
        except Tampered:
            return None

    def _write_block(self, index: int, lines: list[bytes]) -> None:
        if lines:
            self._write(bundle_path(index, len(lines)), encode_bundle(lines))
            self._write(tile_path(0, index, len(lines)), b"".join(map(leaf_hash, lines)))

    def _write_upper_tiles(self, size: int) -> None:
        for level, index, width in tiles_for(size):
            if level:
                first = index * WIDTH
                nodes = [self._store.node(8 * level, at) for at in range(first, first + width)]
                self._write(tile_path(level, index, width), b"".join(nodes))

    def _write(self, path: str, data: bytes) -> None:
        for parent in reversed(Path(path).parents[:-1]):
            (self._folder / parent).mkdir(mode=0o700, exist_ok=True)
        with self._file(path) as file:
            file.write(data)

    def _file(self, path: str) -> "_Durable":
        return _Durable(self._folder / path)


@dataclass(slots=True)
class _Durable:
    """A new private file that is on the disk when its block ends well."""

    path: Path
    _file: BinaryIO = field(init=False)

    def __enter__(self) -> BinaryIO:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = open(fd, "wb", buffering=1 << 16)
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        with self._file as file:
            if kind is None:
                file.flush()
                os.fsync(file.fileno())


def body_line(body: StoredBody) -> bytes:
    """One body as a line of bodies.jsonl, with its line end ([J2])."""
    value: dict[str, Json] = {"media": body.media, "part": body.part, "salt": body.salt.hex(), "seq": body.seq}
    try:
        value["text"] = body.body.decode()
    except UnicodeDecodeError:
        value["b64"] = to_base64(body.body)
    return dump(value) + b"\n"
