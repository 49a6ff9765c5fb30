"""Carrying a record elsewhere and bringing one in, for every surface: export, import, adoption."""

import os
from dataclasses import replace
from pathlib import Path

from hansard.app.ledgers.custody import pin_of, sign_anew
from hansard.app.ledgers.verifying import readable
from hansard.app.settings import Settings
from hansard.app.views import View
from hansard.app.wiring import (
    found_ledger,
    ledger_exists,
    open_ledger,
    open_or_found,
    open_to_carry,
    place_of,
    restorer,
)
from hansard.errors import UsageError
from hansard.record.adopt import adopt
from hansard.record.export import export
from hansard.record.foreign import check_foreign, import_foreign, is_foreign
from hansard.record.imports import import_log
from hansard.seal.anchors import end
from hansard.seal.private import make_folder

PLACES_SHOWN = 3


def export_to(settings: Settings, folder: Path, *, bodies: bool = True) -> View:
    """A folder that anyone can verify without us; a new checkpoint is signed first, where this process may."""
    with open_to_carry(settings) as opened:
        unsigned = sign_anew(opened)
    # Copied as a reader: that takes long, and a ledger in JSON lines has one writer, who may want to begin meanwhile.
    with open_ledger(settings) as opened:
        done = export(opened.store, folder, bodies=bodies)
    return {
        "folder": str(folder),
        "entries": done.size,
        "checkpoints": done.checkpoints,
        "tiles_size": done.published,
        "bodies": done.bodies,
        "redacted": done.redacted,
        "left_out": done.left_out,
        "missing": done.missing,
        "unsigned_because": unsigned,
    }


def bring(location: str, settings: Settings, *, actor: str) -> View:
    """Bring a log of ours back as a new ledger, or record a foreign one, entry by entry, into an existing or new ledger."""
    with readable(location) as path:
        return _bring(Path(path), place_of(location), settings, actor)


def _bring(path: Path, place: str, settings: Settings, actor: str) -> View:
    if not path.exists():
        raise UsageError(f"nothing at {path}; check the path")
    if is_foreign(path):
        return _bring_foreign(path, settings, actor)
    if ledger_exists(settings.ledger):
        raise UsageError(
            f"{place_of(settings.ledger)} is there already; name a new ledger with --ledger to bring {place} back into"
        )
    restored = import_log(path, restorer(settings.ledger), shown=place)
    return {
        "ledger": place_of(settings.ledger),
        "format": "hansard",
        "verified": True,
        "entries": restored.head.size,
        "left_out": 0,
        "findings": [each.message for each in restored.report.findings],
    }


def _bring_foreign(path: Path, settings: Settings, actor: str) -> View:
    if not ledger_exists(settings.ledger):
        check_foreign(path)
    with open_or_found(settings) as opened:
        done = import_foreign(opened.store, path, actor=actor, sealing=opened.extending())
        report = done.report
        return {
            "ledger": opened.store.place,
            "format": report.format,
            "verified": report.verified,
            "entries": report.entries,
            "left_out": report.left_out,
            "findings": [_told(**told) for told in report.findings.values()],
            "seq": done.seq,
            "report": report.as_json(),
        }


def _told(what: str, count: int, places: list[str]) -> str:
    shown = "; ".join(places[:PLACES_SHOWN]) + ("; …" if count > PLACES_SHOWN else "")
    return f"{what}: {count:,} ({shown})"


def adopt_into(old: str, settings: Settings) -> View:
    """Start a new log whose genesis names the old one's origin, size and root; the old one is only read from then on.

    Said again, it goes on with a log that it has begun: whatever failed behind its first entry, the old one is not ended yet.
    """
    begun = _begun(settings) if ledger_exists(settings.ledger) else None
    with readable(old) as path:
        found = adopt(Path(path), place_of(old))
    if begun not in (None, (found.state.origin, found.state.size, found.state.root.hex())):
        raise _there_already(settings)
    keys = settings.log_folder(found.nonce)
    if not found.is_signed:
        # Nothing of it lies there yet.
        make_folder(keys)
    wanted = replace(settings, origin=None)
    with open_ledger(wanted, writing=True) if begun else found_ledger(wanted, found.state) as opened:
        if opened.sealer:
            opened.sealer.checkpoint()
        if keys.is_dir():
            place = opened.store.place
            end(keys, place if "://" in place else os.path.abspath(place))
        return {
            "ledger": opened.store.place,
            "adopts_origin": found.state.origin,
            "adopts_size": found.state.size,
            "adopts_root": found.state.root.hex(),
            "pin": pin_of(opened.store),
        }


def _begun(settings: Settings) -> tuple[object, ...]:
    """The state that the log at this place goes on from, as long as nothing else was recorded there."""
    with open_ledger(settings) as opened:
        genesis = opened.store.entry(0).data
        size = opened.store.head().size
    if size > 1 or genesis.get("adopts_root") is None:
        raise _there_already(settings)
    return tuple(genesis.get(name) for name in ("adopts_origin", "adopts_size", "adopts_root"))


def _there_already(settings: Settings) -> UsageError:
    return UsageError(f"{place_of(settings.ledger)} is there already; name a new ledger with --ledger to go on in")
