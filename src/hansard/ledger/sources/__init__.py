"""Where ledgers lie: recognises a layout by its bytes and opens it for reading."""

import os
from pathlib import Path

from ..receipt import HEADER, PAGE
from ..report import Findings, Form
from .base import CannotRead, NotALedger, Source
from .export import ENTRIES, ExportSource
from .lines import LinesSource
from .sqlite import MAGIC, SqliteSource
from .view import View, take_view

_ENTRY = b'{"actor":'


def recognise(path: Path) -> Form:
    """What lies there, by its first bytes; CannotRead when there is nothing to read, "unknown" for other bytes."""
    try:
        if path.is_dir():
            return "export" if (path / ENTRIES).is_file() else "unknown"
        if not path.is_file():
            raise CannotRead(f"{path} is not a file or a folder" if path.exists() else f"there is nothing at {path}")
        with open(path, "rb") as file:
            start = file.read(64)
    except (OSError, ValueError) as error:
        raise CannotRead(f"cannot read {str(path)!r:.200}: {getattr(error, 'strerror', None) or error}") from error
    if start.startswith(MAGIC):
        return "sqlite"
    if start.startswith((HEADER.encode(), PAGE)) or path.suffix == ".tlog-proof":
        return "receipt"
    return "jsonl" if start.startswith(_ENTRY) or path.suffix == ".jsonl" else "unknown"


def open_source(path: Path, findings: Findings, *, moving: bool = False) -> Source:
    """Open the ledger at this path; NotALedger when the bytes are something else, CannotRead when they cannot be had.

    One that is `moving`, since somebody writes there all the time, is read from a copy where its form has no other way.
    """
    form = recognise(path)
    if form in ("sqlite", "jsonl"):
        # The other files of a ledger lie beside the file itself, not beside a link to it.
        path = Path(os.path.realpath(path))
    if form == "sqlite":
        return _open_sqlite(take_view(path, aside=moving), findings)
    if form == "jsonl":
        stem = path.name.removesuffix(".jsonl")
        bodies, checkpoints = path.with_name(f"{stem}.bodies.jsonl"), path.with_name(f"{stem}.checkpoints.jsonl")
        return LinesSource(path, bodies, checkpoints, findings)
    if form == "export":
        return ExportSource(path, findings)
    if form == "receipt":
        raise NotALedger("it is a receipt, not a ledger")
    what = (
        f"the folder has no {ENTRIES}"
        if path.is_dir()
        else "its bytes are none of SQLite, JSON lines, export or receipt"
    )
    raise NotALedger(what)


def _open_sqlite(view: View, findings: Findings) -> SqliteSource:
    try:
        return SqliteSource(view, findings)
    except BaseException:
        view.close()
        raise


__all__ = ["CannotRead", "NotALedger", "Source", "open_source", "recognise"]
