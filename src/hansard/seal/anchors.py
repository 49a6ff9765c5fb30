"""The last checkpoint of each log, kept apart from it in the user's state: an older copy of the log becomes loud. And which log
goes on from it, where it was adopted.

The anchor may lag behind the log and is never ahead of it: whoever keeps a checkpoint here has seen it durable there.
"""

import shlex
from collections.abc import Callable
from pathlib import Path

from hansard.domain.value import value
from hansard.errors import StoreError
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import Checkpoint, parse_checkpoint
from hansard.ledger.note import parse_note
from hansard.seal import private

RootAt = Callable[[int], bytes]
"""The root that the log at hand has, or had, at a size within it."""


class Superseded(StoreError):
    """Another log goes on from this one, which is only read from then on."""


@value
class Anchor:
    """A checkpoint that was durable once, and where it is kept."""

    kept: str
    note: str
    checkpoint: Checkpoint

    @classmethod
    def of(cls, note: str, kept: str) -> "Anchor":
        """Read a signed note; StoreError when it is none. Its signatures are not checked: the folder is ours alone."""
        try:
            return cls(kept=kept, note=note, checkpoint=parse_checkpoint(parse_note(note).text))
        except Malformed as error:
            raise StoreError(
                f"the checkpoint in {kept} cannot be read ({error}); run: hansard verify, and only then remove it"
            ) from error


def read(folder: Path) -> Anchor | None:
    """The anchor kept in this folder, or None when none was kept yet."""
    path = _file(folder)
    raw = private.read(path)
    return None if raw is None else Anchor.of(raw.decode(errors="replace"), str(path))


def keep(folder: Path, note: str) -> Anchor:
    """Put this checkpoint in the place of the last one, durably. It must already be durable in the log."""
    path = _file(folder)
    anchor = Anchor.of(note, str(path))
    private.replace(path, note.encode())
    return anchor


def end(folder: Path, successor: str) -> None:
    """Say durably that another log goes on from this one, which is only read from now on."""
    private.replace(_end_file(folder), f"{successor}\n".encode("utf-8", "surrogateescape"))


def refuse_ended(folder: Path, place: str) -> None:
    """Superseded where another log goes on from the one at `place`: two would, and nobody could tell which of them counts."""
    path = _end_file(folder)
    raw = private.read(path)
    if raw is not None:
        raise Superseded(
            f"{place} was adopted: {raw.decode(errors='replace').strip()} goes on from it, and this log is only read. Nothing was "
            f"written; name that one. If it was a mistake or is gone for good, or something is still to be redacted here, remove {path}"
        )


def check(anchor: Anchor, *, origin: str, size: int, root_at: RootAt, place: str) -> None:
    """StoreError unless the log at `place` is the anchor's log and extends what the anchor saw."""
    seen = anchor.checkpoint
    if seen.origin != origin:
        raise StoreError(
            f"{place} is the log {origin}, but {anchor.kept} is of {seen.origin}; give each log its own folder"
        )
    if seen.size > size:
        raise StoreError(
            f"ROLLED BACK: {place} has {size} entries, but {anchor.kept} saw {seen.size} of them signed. This is an older "
            f"copy, or its end was cut off. {what_now(place)}"
        )
    if root_at(seen.size) != seen.root:
        raise StoreError(
            f"FORKED: {place} is not the log that {anchor.kept} saw signed at {seen.size} entries: one of them has been "
            f"changed since. {what_now(place)}"
        )


def what_now(place: str) -> str:
    """What an operator can do about a log that is older than what was signed."""
    return (
        "Nothing was written. Bring back the newer file; if it is gone for good, go on in a new log that names this one: "
        f"hansard ledger adopt {shlex.quote(place)} --ledger NEW.db"
    )


def _end_file(folder: Path) -> Path:
    return folder / "adopted-by"


def _file(folder: Path) -> Path:
    return folder / "last-checkpoint"
