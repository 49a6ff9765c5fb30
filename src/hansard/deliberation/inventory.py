"""What lies in a session's directory: the names of its files, each of them read and hashed, and the seal that lists them [§7].

Looks and compares, and writes nothing. Which of two lists is right is for whoever holds the record.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hansard.deliberation.documents import Breach
from hansard.deliberation.documents.reading import MAX_BYTES
from hansard.domain.strict_json import read_json
from hansard.errors import Unavailable, UsageError

ARTIFACT, CONFIG, MANIFEST = "artifact.json", "config.json", "manifest.json"
JOURNAL, EVENTS, SEAL, LOCK = "transcript.jsonl", "observability.jsonl", "seal.json", ".lock"
PINS, METRICS, SELECTION, TOOLS = "pins.json", "metrics.json", "selector_output.json", "tool_events.jsonl"
WRITTEN = frozenset({ARTIFACT, CONFIG, MANIFEST, JOURNAL, EVENTS, SEAL, LOCK, PINS, METRICS, SELECTION, TOOLS})
"""Whatever sessions write."""
CHUNK = 1 << 16


def read_file(path: Path) -> bytes:
    """The bytes of a file of a directory. OSError where something else has its name: a pipe would never end.

    So it is where there are more than of any document: a file that is mostly holes takes no room until it is read.
    """
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode):
        raise OSError("it is no file, but a folder, a link or a pipe")
    if about.st_size > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES} bytes")
    with _from_disk(path):
        return path.read_bytes()


@contextmanager
def _from_disk(path: Path) -> Iterator[None]:
    """Unavailable where the disk fails: that says nothing of the bytes on it, and is no finding."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Unavailable(f"cannot read {path}: {error.strerror}") from error


def listing(folder: Path, among: Container[str] | None = None) -> dict[str, Any]:
    """Size and SHA-256 of every file but the seal and the empty lock, or of these alone; of whatever is no file, only that it
    is there.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if among is not None and path.name not in among:
            continue
        name, about = os.fsencode(path.name).decode("utf-8", "backslashreplace"), path.lstat()
        if not stat.S_ISREG(about.st_mode):
            found[name] = {"size": None}
        elif name != SEAL and (name != LOCK or about.st_size):
            found[name] = hashed_file(path)
    return found


def hashed(data: bytes) -> dict[str, Any]:
    """Size and SHA-256 of bytes, as a list has them."""
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def hashed_file(path: Path) -> dict[str, Any]:
    """The same of a file, which is not taken into memory whole."""
    found, size = hashlib.sha256(), 0
    with _from_disk(path), path.open("rb", buffering=0) as file:
        while data := file.read(CHUNK):
            found.update(data)
            size += len(data)
    return {"sha256": found.hexdigest(), "size": size}


def says(path: Path, wanted: bytes) -> bool:
    """Whether this is what the file says, and it says no more. To compare is a tenth of the work of hashing it."""
    try:
        with _from_disk(path), path.open("rb") as file:
            return file.read(len(wanted) + 1) == wanted
    except FileNotFoundError:
        return False


def strangers(folder: Path) -> list[str]:
    """What lies in a directory and was written by no session."""
    entries = [(path.name, path.lstat()) for path in sorted(folder.iterdir())]
    return [
        os.fsencode(name).decode("utf-8", "backslashreplace")
        for name, about in entries
        if name not in WRITTEN or not stat.S_ISREG(about.st_mode) or (name == LOCK and about.st_size)
    ]


def lacking(folder: Path, listed: Iterable[str]) -> list[str]:
    """The files that a complete directory has besides, the seal among them."""
    return [name for name in (*listed, SEAL) if not os.path.lexists(folder / name)]


def differing(listed: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The files that two lists do not have in common."""
    return [name for name in sorted({*listed, *found}) if listed.get(name) != found.get(name)]


def closest(folder: Path, listings: Iterable[bytes]) -> bytes:
    """The list with the fewest differences from what lies there, the first of several."""
    found = listing(folder)
    return min(listings, key=lambda each: len(differing(json.loads(each), found)))


def seal_of(seq: int, listed: bytes) -> bytes:
    """The seal of a directory whose list stands on the record in this entry."""
    return b'{"entry":%d,"files":%b}\n' % (seq, listed)


def seal_breaches(folder: Path, recorded: bytes | None = None) -> list[Breach]:
    """Every file that is not as it was sealed. With the list that is on the record, a seal that was made anew is found too."""
    try:
        found, sealed = listing(folder), read_json(read_file(folder / SEAL), where="it")
        listed = sealed.get("files") if isinstance(sealed, dict) else None
        if not isinstance(listed, dict):
            raise UsageError("it lists no files")
    except (OSError, UsageError) as error:
        return [_unsealed(SEAL, f"cannot be read: {error}"[:200])]
    known = listed if recorded is None else json.loads(recorded)
    return [
        *(
            _unsealed(name, f"{difference(name in known, name in found)} since the directory was sealed")
            for name in differing(known, found)
        ),
        *([_unsealed(SEAL, "is not what the record says of this directory")] if listed != known else []),
    ]


def difference(listed: bool, found: bool) -> str:
    """What became of a file that is in one of two lists, or in both."""
    return "was changed" if listed and found else "is missing" if listed else "was added"


def _unsealed(name: str, message: str) -> Breach:
    return Breach(document=name, path="", rule="seal", message=message)
