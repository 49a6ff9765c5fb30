"""The directories of sessions as the record tells of them: where each lies, and what the list of its files says."""

import json
import os
import shlex
from pathlib import Path

from hansard.app.finding import deliberations
from hansard.app.telling.deliberationviews import convening_of, has_session, newest
from hansard.deliberation.archive import read_manifest
from hansard.deliberation.inventory import MANIFEST
from hansard.errors import Tampered, UsageError
from hansard.ledger.entry import Entry
from hansard.record.reading import read_body, strange
from hansard.store.base import Query, Store


def find_session(store: Store, folder: Path) -> str:
    """The run whose session lies in this directory: the newest one that the record has there, under whatever path."""
    here, found = os.path.realpath(folder), None
    places: list[tuple[str, Path]] = []
    for run in deliberations(store):
        if (place := directory_of(store, run)) is None:
            continue
        places.append((run, place))
        if os.path.realpath(place) == here:
            if has_session(store, run):
                return run
            found = found or run
    if found:
        return found
    session = read_manifest(folder).session_id if (folder / MANIFEST).exists() else folder.name
    for run, place in places:
        if place.name == session:
            over = newest(store, run, "run.ended") is not None
            resume = f"hansard runs resume {run} --ledger {shlex.quote(store.place)}"
            go_on = "" if over else f", or `{resume}` goes on with the session there"
            raise UsageError(f"{folder} is not where run {run} has session {session!r}; move it to {place}{go_on}")
        if run == session:
            raise UsageError(f"{session} is a run, and its session lies in {place}: name that")
    raise UsageError(f"{store.place} knows no session in {folder}; `--ledger LEDGER` asks another ledger")


def directory_of(store: Store, run: str) -> Path | None:
    """Where the directory of a run is; None where it has none, or the record does not say it any more."""
    configured, convened = newest(store, run, "run.configured"), newest(store, run, "session.convened")
    try:
        made = convening_of(store, configured.seq if configured else None)
    except (UsageError, Tampered):
        return None
    session = str(convened.data["session"]) if convened else made.config.session_id
    return Path(made.runs) / session if made.runs else None


def listing_of(store: Store, run: str) -> bytes | None:
    """The list of a session's files with their hashes, as it stands on the record; None where there is none."""
    archived = newest(store, run, "session.archived")
    return _listing(store, archived) if archived else None


def listings_of(store: Store, session: str) -> dict[bytes, list[int]]:
    """Every list of the files of a session of this id that is on the record, with the entries that hold it, newest first."""
    found: dict[bytes, list[int]] = {}
    for entry in store.select(Query(kind="session.archived", newest_first=True)):
        listed = _listing(store, entry) if entry.data.get("session") == session else None
        if listed is not None:
            found.setdefault(listed, []).append(entry.seq)
    return found


def _listing(store: Store, archived: Entry) -> bytes | None:
    stored = read_body(store, archived, "manifest")
    if stored is None:
        return None
    try:
        if not isinstance(json.loads(stored.body), dict):
            raise ValueError("it lists no files")
    except (ValueError, RecursionError) as error:
        raise strange(archived, "manifest", error) from error
    return stored.body
