"""A session's directory: written once, never overwritten, complete only when its manifest says so [§7].

The record comes first and this second: a journal that is shorter than the record is completed from it, and one that says
something else is refused. Every file but the lock is listed with its hash in the seal, and that list is on the record.
Nothing else may lie there: no other file, and no folder, link or pipe.
"""

import fcntl
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from hansard.deliberation.documents import SCHEMA_VERSION, Invalid, RunManifest
from hansard.deliberation.documents.vocabulary import NAME
from hansard.deliberation.inventory import (
    ARTIFACT,
    CONFIG,
    EVENTS,
    JOURNAL,
    LOCK,
    MANIFEST,
    PINS,
    SEAL,
    WRITTEN,
    difference,
    differing,
    hashed,
    hashed_file,
    lacking,
    listing,
    read_file,
    says,
    seal_of,
    strangers,
)
from hansard.deliberation.quoting import ANNOTATIONS
from hansard.domain.strict_json import read_json
from hansard.domain.value import value
from hansard.durable import sync
from hansard.errors import StoreError, UsageError, plainly

RETOLD = frozenset({CONFIG, MANIFEST})
"""What the record has by its meaning and not by its bytes: made anew, it says the same in other words."""
MANIFEST_VERSION = "1.0.0"
LF = b"\n"


class Taken(UsageError):
    """Another session has the directory of this id, perhaps since a moment ago."""


@value
class Beginning:
    """What a session's directory begins with, and when."""

    session: str
    config: Mapping[str, Any]
    pins: Mapping[str, Any]
    producer: Mapping[str, str]
    now: str


class Archive:
    """One directory, locked by this process. The lock dies with it."""

    def __init__(self, folder: Path, lock: int, lines: Iterable[bytes] = ()) -> None:
        self.folder = folder
        self.fault: str | None = None
        self._lock: int | None = lock
        self._journal = os.open(folder / JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lines = list(lines)
        """What the journal has to say."""
        self._begun = {name: hashed_file(folder / name) for name in (CONFIG, PINS) if (folder / name).exists()}

    @classmethod
    def create(cls, runs: Path, given: Beginning) -> Self:
        """A new directory for this session. One that is there already belongs to another session, even if it is empty.

        Where it cannot be begun, nothing of it stays: nobody would find a session in it, and its id would be taken.
        """
        check_name(given.session)
        folder = runs / given.session
        try:
            runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make {runs}: {error}") from error
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise Taken(
                f"{folder} exists, and a session is never overwritten; give this one another id, or resume that one"
            ) from error
        except OSError as error:
            raise StoreError(f"cannot make {folder}: {error}") from error
        with ExitStack() as undo:
            undo.callback(_remove_begun, folder)
            lock = _locked(folder)
            try:
                archive = cls(folder, lock)
            except OSError as error:
                os.close(lock)
                raise StoreError(f"cannot begin in {folder}: {error}") from error
            undo.callback(archive.close)
            archive.begin(given)
            undo.pop_all()
        return archive

    @classmethod
    def reopen(cls, folder: Path, lines: Iterable[bytes], *, ended: bool = False) -> Self:
        """The directory of a session that was interrupted, with its journal completed from the record; made where it is gone.

        `ended` says that the session itself was over, and only its directory is to be completed.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make {folder}: {error}") from error
        lock = _locked(folder)
        try:
            # Only that it is held says something; what stands in it is no part of the session.
            os.ftruncate(lock, 0)
            for unfinished in folder.glob(".*.new"):
                # A crash while a file was written: it never became one.
                if not unfinished.is_dir():
                    unfinished.unlink()
            if foreign := strangers(folder):
                raise UsageError(f"{folder / foreign[0]} was written by no session; move it away, and resume then")
            status = read_manifest(folder).status if (folder / MANIFEST).exists() else "in_progress"
            if status not in {"in_progress", "crashed"} and not ended:
                raise UsageError(
                    f"{folder} is {status}, and the record has not come so far: this ledger was put back to an earlier "
                    "state, or another copy of it went on; move the folder away, and resume then"
                )
            known = list(lines)
            recorded = b"".join(line + LF for line in known)
            written = read_file(folder / JOURNAL) if (folder / JOURNAL).exists() else b""
            if not recorded.startswith(written):
                raise StoreError(
                    f"{folder / JOURNAL} says something else than the record, so it was changed; keep it elsewhere, and "
                    "resume then: the record has all of it"
                )
            archive = cls(folder, lock, known)
        except OSError as error:
            os.close(lock)
            raise StoreError(f"cannot go on in {folder}: {error}") from error
        except BaseException:
            os.close(lock)
            raise
        archive._append(recorded[len(written) :])
        return archive

    def begin(self, given: Beginning) -> None:
        """What a directory begins with, as far as it is not there; the manifest that makes it one of a session is the last."""
        for name, data in ((CONFIG, given.config), (PINS, given.pins)):
            if not (self.folder / name).exists():
                written = shown(data)
                self._put(name, written)
                self._begun[name] = hashed(written)
        if not (self.folder / MANIFEST).exists():
            begun = _manifest(given.session, given.producer, given.now, status="in_progress", updated_at=given.now)
            self._put_manifest(begun)

    def add(self, line: bytes) -> None:
        """One more line of the journal. A disk that fails here is told at the end; the session goes on [R-4.1-8]."""
        self._lines.append(line)
        self._append(line + LF)

    def _append(self, data: bytes) -> None:
        if self.fault is None:
            try:
                _write(self._journal, data)
            except OSError as error:
                self.fault = f"cannot write {self.folder / JOURNAL}: {error}"

    def finish(self, files: Mapping[str, bytes]) -> dict[str, Any]:
        """These files in their order, the artifact before the manifest that calls it complete [R-7.4-2]; the hash of every file.

        Of what a session writes at its end, nothing else stays: it is not of this session.
        """
        if self.fault is not None:
            raise StoreError(self.fault)
        if foreign := strangers(self.folder):
            raise StoreError(f"{self.folder / foreign[0]} was written by no session; move it away, and resume then")
        begun = self._begun_and_unchanged()
        os.fsync(self._journal)
        for name in WRITTEN - files.keys() - begun.keys() - {LOCK}:
            (self.folder / name).unlink(missing_ok=True)
        for name, data in files.items():
            self._put(name, data)
        # As it was written, and not as it may lie there meanwhile: what somebody changes or adds is not sealed.
        return begun | {name: hashed(data) for name, data in files.items()}

    def _begun_and_unchanged(self) -> dict[str, Any]:
        """The hashes of what the session has written until now. Had somebody changed it, it would be sealed as something else."""
        begun, journal = listing(self.folder, self._begun), b"".join([line + LF for line in self._lines])
        changed = [name for name, known in self._begun.items() if begun.get(name) != known]
        if changed or not says(self.folder / JOURNAL, journal):
            raise StoreError(
                f"{self.folder / [*changed, JOURNAL][0]} was changed while the session was held; move it away, and resume then"
            )
        return {**begun, JOURNAL: hashed(journal)}

    def restore(self, files: Mapping[str, bytes], seq: int, listed: bytes) -> dict[str, Any]:
        """Of these files, those that are missing from a directory that was complete; the hash of every file.

        Whatever is there, and whatever is made again, must be as the record lists it, or nothing is sealed.
        """
        known: dict[str, Any] = json.loads(listed)
        missing = [name for name in lacking(self.folder, known) if name in files]
        for name in missing:
            if name in RETOLD or hashed(files[name]) == known[name]:
                self._put(name, files[name])
        found = listing(self.folder)
        wrong = [name for name in differing(known, found) if name not in RETOLD or name not in missing]
        if wrong:
            raise StoreError(
                f"{self.folder / wrong[0]} {difference(wrong[0] in known, wrong[0] in found)} since the record has listed "
                f"it (entry {seq}), and cannot be made again from the record; put it back as it was"
            )
        return found

    def seal(self, seq: int, listed: bytes) -> None:
        """The list of hashes as it stands on the record, and where."""
        self._put(SEAL, seal_of(seq, listed))

    def close(self) -> None:
        """Let go of the directory. A second call does nothing."""
        if self._lock is not None:
            os.close(self._journal)
            os.close(self._lock)
            self._lock = None

    def _put_manifest(self, data: dict[str, Any]) -> None:
        self._put(MANIFEST, shown(RunManifest.parse(data).as_data()))

    def _put(self, name: str, data: bytes) -> None:
        write_whole(self.folder / name, data)


def _remove_begun(folder: Path) -> None:
    """Remove a directory that this process has just made, as far as it goes."""
    with suppress(OSError):
        for name in WRITTEN:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def check_name(session: str) -> None:
    """UsageError where a session's id cannot be the name of its directory."""
    if not re.fullmatch(NAME, session):
        raise UsageError(f"{session[:80]!r} cannot be a session's id; use 1 to 64 of A-Z a-z 0-9 _ - [R-7.1-1]")


def finished_manifest(artifact: Mapping[str, Any], producer: Mapping[str, str], *, notes: str) -> bytes:
    """The manifest of a session that is over, from its artifact alone: nothing that lay in the directory is believed."""
    data = _manifest(
        artifact["session_id"],
        producer,
        artifact["started_at"],
        status="complete" if artifact["outcome"]["kind"] == "synthesis" else "terminated",
        outcome_kind=artifact["outcome"]["kind"],
        transcript_digest=artifact["transcript_digest"],
        observability_log_path=EVENTS,
        notes=notes,
    )
    return shown(RunManifest.parse(data).as_data())


def write_whole(path: Path, data: bytes) -> None:
    """A file that is never seen half written [R-7.4-1]."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with open(beside, "wb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise StoreError(f"cannot write {path}: {error}") from error


def read_manifest(folder: Path) -> RunManifest:
    """The manifest of a directory; UsageError where there is none, or none that can be read."""
    try:
        return RunManifest.parse(json.loads(read_file(folder / MANIFEST)))
    except (OSError, ValueError, RecursionError, Invalid) as error:
        raise UsageError(f"{folder / MANIFEST} is no manifest of a session: {plainly(error)}") from error


def session_around(place: Path) -> Path | None:
    """The directory of a session, in whatever state, that this is or lies in: whatever is added there breaks its seal."""
    real = Path(os.path.realpath(place))
    for folder in (real, *real.parents):
        with suppress(UsageError):
            read_manifest(folder)
            return folder
    return None


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """The messages of a journal, of each its last line, which adds nothing but annotations to those before it. A torn end is
    passed over [R-7.4-3]."""
    found: dict[str, dict[str, Any]] = {}
    try:
        data = read_file(folder / JOURNAL)
    except OSError as error:
        raise UsageError(f"cannot read the journal of {folder}: {plainly(error)}") from error
    whole, _, _ = data.rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        try:
            message = read_json(line, where="it")
            before = found.setdefault(message["id"], message)
            if _unannotated(before) != _unannotated(message):
                raise ValueError("it says something else of a message than a line before it")
            found[message["id"]] = message
        except (UsageError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(f"{folder / JOURNAL} is damaged in line {number}: {error}") from error
    return list(found.values())


def _unannotated(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name not in ANNOTATIONS}


def is_crashed(folder: Path) -> bool:
    """Whether a session says that it is running while nobody runs it [S-7.3-2]. Looking writes nothing."""
    if read_manifest(folder).status != "in_progress":
        return False
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        # Nobody holds what is not there; what cannot be opened may be held.
        return isinstance(error, FileNotFoundError)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _manifest(session: str, producer: Mapping[str, str], created_at: str, **more: Any) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "manifest_version": MANIFEST_VERSION,
        "session_id": session,
        "producer": dict(producer),
        "created_at": created_at,
        "artifact_path": ARTIFACT,
        "config_path": CONFIG,
        "journal_path": JOURNAL,
        **{name: value for name, value in more.items() if value is not None},
    }


def _locked(folder: Path) -> int:
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UsageError(f"cannot lock {folder / LOCK}: {plainly(error)}; put that right, and try again") from error
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            os.close(lock)
            raise UsageError(f"{folder / LOCK} is no file; move it away")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise UsageError(f"another process is running the session in {folder}; wait for it, or end it") from error
    return lock


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def shown(data: Mapping[str, Any]) -> bytes:
    """Data as a file of the directory has it."""
    return json.dumps(data, ensure_ascii=False, indent=2).encode() + b"\n"
