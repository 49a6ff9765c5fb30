"""A session's directory: written once, never overwritten, complete only when its manifest says so [§7].

The record comes first and this second: a journal that is shorter than the record is completed from it, and one that says
something else is refused. Every file but the lock is listed with its hash in the seal, and that list is on the record.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from hansard.deliberation.documents import SCHEMA_VERSION, Breach, RunManifest, jcs
from hansard.deliberation.documents.vocabulary import NAME
from hansard.errors import StoreError, UsageError

ARTIFACT, CONFIG, MANIFEST = "artifact.json", "config.json", "manifest.json"
JOURNAL, EVENTS, SEAL, LOCK = "transcript.jsonl", "observability.jsonl", "seal.json", ".lock"
MANIFEST_VERSION = "1.0.0"


class Archive:
    """One directory, locked by this process. The lock dies with it."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.fault: str | None = None
        self._lock: int | None = lock
        self._journal = os.open(folder / JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @classmethod
    def create(
        cls, runs: Path, *, session: str, config: Mapping[str, Any], producer: Mapping[str, str], now: str
    ) -> Self:
        """A new directory for this session. One that is there already belongs to another session, even if it is empty."""
        if not re.fullmatch(NAME, session):
            raise UsageError(f"{session!r:.80} cannot name a directory; use 1 to 64 of A-Z a-z 0-9 _ - [R-7.1-1]")
        folder = runs / session
        try:
            runs.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise UsageError(
                f"{folder} exists, and a session is never overwritten; give this one another id, or resume that one"
            ) from error
        except OSError as error:
            raise StoreError(f"cannot make {folder}: {error}") from error
        archive = cls(folder, _locked(folder))
        archive._put(CONFIG, _shown(config))
        archive._put_manifest(_manifest(session, producer, now, status="in_progress", updated_at=now))
        return archive

    @classmethod
    def reopen(cls, folder: Path, lines: Iterable[bytes], *, ended: bool = False) -> Self:
        """The directory of a session that was interrupted, with its journal completed from the record.

        `ended` says that the session itself was over, and only its directory is to be completed.
        """
        lock = _locked(folder)
        try:
            manifest = read_manifest(folder)
            if manifest.status not in {"in_progress", "crashed"} and not ended:
                raise UsageError(f"{folder} is {manifest.status}; there is nothing to resume")
            recorded = b"".join(line + b"\n" for line in lines)
            written = (folder / JOURNAL).read_bytes() if (folder / JOURNAL).exists() else b""
            if not recorded.startswith(written):
                raise StoreError(f"{folder / JOURNAL} says something else than the record, so it was changed; see both")
            for unfinished in folder.glob(".*.new"):
                # A crash while a file was written: it never became one.
                unfinished.unlink()
        except BaseException:
            os.close(lock)
            raise
        archive = cls(folder, lock)
        _write(archive._journal, recorded[len(written) :])
        return archive

    def add(self, line: bytes) -> None:
        """One more line of the journal. A disk that fails here is told at the end; the session goes on [R-4.1-8]."""
        if self.fault is None:
            try:
                _write(self._journal, line + b"\n")
            except OSError as error:
                self.fault = f"cannot write {self.folder / JOURNAL}: {error}"

    def put(self, name: str, data: bytes) -> None:
        """A file beside the others, whole or not at all."""
        self._put(name, data)

    def finish(self, artifact: Mapping[str, Any], written: bytes, *, notes: str) -> dict[str, Any]:
        """The artifact, then the manifest that calls it complete [R-7.4-2]; the hash of every file."""
        if self.fault is not None:
            raise StoreError(f"{self.fault}; resume the session to complete its directory")
        os.fsync(self._journal)
        self._put(ARTIFACT, written)
        synthesis = artifact["outcome"]["kind"] == "synthesis"
        before = read_manifest(self.folder)
        self._put_manifest(
            _manifest(
                before.session_id,
                before.producer.as_data(),
                before.created_at,
                status="complete" if synthesis else "terminated",
                outcome_kind=artifact["outcome"]["kind"],
                transcript_digest=artifact["transcript_digest"],
                observability_log_path=EVENTS if (self.folder / EVENTS).exists() else None,
                notes=notes,
            )
        )
        return listing(self.folder)

    def check(self, seq: int, listed: bytes) -> None:
        """Files that were listed before a crash must still be as the record has them, or they are not sealed."""
        if jcs(listing(self.folder)) != listed:
            raise StoreError(
                f"the files of {self.folder} are not as the record lists them (entry {seq}); see which changed"
            )

    def seal(self, seq: int, listed: bytes) -> None:
        """The list of hashes as it stands on the record, and where."""
        self._put(SEAL, b'{"entry":%d,"files":%b}\n' % (seq, listed))

    def close(self) -> None:
        """Let go of the directory. A second call does nothing."""
        if self._lock is not None:
            os.close(self._journal)
            os.close(self._lock)
            self._lock = None

    def _put_manifest(self, data: dict[str, Any]) -> None:
        self._put(MANIFEST, _shown(RunManifest.parse(data).as_data()))

    def _put(self, name: str, data: bytes) -> None:
        write_whole(self.folder / name, data)


def write_whole(path: Path, data: bytes) -> None:
    """A file that is never seen half written [R-7.4-1]."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with open(beside, "wb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error


def read_manifest(folder: Path) -> RunManifest:
    """The manifest of a directory; UsageError where there is none, or none that can be read."""
    try:
        return RunManifest.parse(json.loads((folder / MANIFEST).read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{folder} is no session's directory: {error}") from error


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """The messages of a journal, of each its last line. A torn end is passed over [R-7.4-3]."""
    found: dict[str, dict[str, Any]] = {}
    try:
        data = (folder / JOURNAL).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the journal of {folder}: {error}") from error
    whole, _, _ = data.rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        try:
            message = json.loads(line)
            found[message["id"]] = message
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StoreError(f"{folder / JOURNAL} is damaged in line {number}: {error}") from error
    return list(found.values())


def is_crashed(folder: Path) -> bool:
    """Whether a session says that it is running while nobody runs it [S-7.3-2]."""
    if read_manifest(folder).status != "in_progress":
        return False
    try:
        os.close(_locked(folder))
    except UsageError:
        return False
    return True


def mark_crashed(folder: Path, now: str) -> None:
    """Say in the manifest that the session is not running any more. Nothing else changes."""
    lock = _locked(folder)
    try:
        manifest = read_manifest(folder)
        if manifest.status == "in_progress":
            data = {**manifest.as_data(), "status": "crashed", "updated_at": now}
            write_whole(folder / MANIFEST, _shown(RunManifest.parse(data).as_data()))
    finally:
        os.close(lock)


def listing(folder: Path) -> dict[str, Any]:
    """Size and SHA-256 of every file but the lock and the seal."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in {LOCK, SEAL} and path.is_file():
            data = path.read_bytes()
            found[name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    return found


def seal_breaches(folder: Path, recorded: bytes | None = None) -> list[Breach]:
    """Every file that is not as it was sealed. With the list that is on the record, a seal that was made anew is found too."""
    try:
        listed = json.loads((folder / SEAL).read_bytes())["files"]
        found = listing(folder)
        forged = recorded is not None and jcs(listed) != recorded
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        return [_unsealed(SEAL, f"cannot be read: {error}"[:200])]
    changed = [name for name in sorted({*listed, *found}) if listed.get(name) != found.get(name)]
    return [
        *(_unsealed(name, _difference(name in listed, name in found)) for name in changed),
        *([_unsealed(SEAL, "is not what the record says of this directory")] if forged else []),
    ]


def _difference(listed: bool, found: bool) -> str:
    return "was changed" if listed and found else "is missing" if listed else "was added"


def _unsealed(name: str, message: str) -> Breach:
    return Breach(document=name, path="", rule="seal", message=f"{message} since the directory was sealed")


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
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UsageError(f"{folder} is no session's directory: {error}") from error
    try:
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


def _shown(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, indent=2).encode() + b"\n"
