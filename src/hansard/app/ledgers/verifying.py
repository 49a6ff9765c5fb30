"""The verifier with the fastest tools at hand; without them it is the same verifier, slower."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from hansard.app.views import View
from hansard.errors import StoreError, Unavailable, UsageError
from hansard.ledger import command as command_module
from hansard.ledger.canonical import Malformed
from hansard.ledger.report import Finding
from hansard.ledger.seals import Pin
from hansard.ledger.verify import Tools
from hansard.record.encoder import fast_parser, fastest

if TYPE_CHECKING:
    from hansard.record.export import Progress
    from hansard.store.base import Store

LOOK_S = 0.2


def tools(*, all_signatures: bool = False) -> Tools:
    """orjson for parsing and encoding where installed, and cryptography where all signatures are asked for: otherwise they are so
    few that the standard library is done with them before another is loaded.
    """
    loads = fast_parser()
    lent = Tools() if loads is None else Tools(loads=loads, dumps=fastest())
    if not all_signatures:
        return lent
    from hansard.seal import signing

    return replace(lent, ed25519=signing.verify) if signing.available() else lent


def verify_apart(
    location: str, *, deep: bool = False, strict: bool = False, pin: str | None = None, closed: Event | None = None
) -> View:
    """The report on a ledger that this process may have open, made by a process of its own.

    Whoever reads a SQLite file without SQLite and closes it again drops every lock that his process has on it: a ledger must
    not be verified in the process that writes it. It is ended where its service is `closed`.
    """
    from hansard.app.wiring import place_of

    words = [*(["--deep"] if deep else []), *(["--strict"] if strict else [])]
    if pin is not None:
        try:
            Pin.parse(pin)
        except Malformed as error:
            # Never a file that holds one: callers from elsewhere bring no paths.
            raise UsageError(f"pin: {error}") from error
        words.append(f"--pin={pin}")
    shown = place_of(location)
    with verifiable(location, closed) as (path, odd):
        said, otherwise = _said_of(path, words, closed)
    try:
        report: View = json.loads(said)
    except ValueError as error:
        raise StoreError(f"{shown} could not be verified: {otherwise}") from error
    if path == location:
        return report
    broken = {"ok": False, "exit_code": 20, "verdict": "BROKEN", "first_bad": asdict(odd[0])} if odd else {}
    return {**report, **broken, "path": shown, "findings": [*map(asdict, odd), *report["findings"]]}


def _said_of(path: str, words: list[str], closed: Event | None) -> tuple[str, object]:
    """What the verifier says of a path, and why it says nothing, where it does not."""
    command = [sys.executable, "-I", str(Path(command_module.__file__).parent), path, "--json", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        while True:
            try:
                said, complained = ran.communicate(timeout=LOOK_S)
                return said, complained.strip()[-300:] or ran.returncode
            except subprocess.TimeoutExpired:
                if closed is not None and closed.is_set():
                    ran.kill()


@contextmanager
def readable(location: str) -> Iterator[str]:
    """The location itself, or for a ledger in a database server a throw-away export of it, which can be taken in."""
    with verifiable(location) as (path, _):
        yield path


@contextmanager
def verifiable(location: str, closed: Event | None = None) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """The location itself, or for a ledger in a database server a throw-away export of it, which is what gets verified, and
    what else is wrong there: rows that queries answer from, and no export has.

    It is given up where a service is `closed` meanwhile: it may take longer than a process has that is told to end.
    """
    if "://" not in location:
        _refuse_address(location)
        yield location, ()
        return
    from hansard.app.wiring import compare_derived, form_of, open_store
    from hansard.providers.programs.temporary import new_folder, remove

    # An address of something else is no path, and is not quoted: a password may stand in it.
    form_of(location)

    def look(done: int, size: int) -> None:
        if closed is not None and closed.is_set():
            raise Unavailable(f"given up after {done:,} of {size:,} entries: whoever asked for them is being shut down")

    folder = new_folder()
    try:
        store = open_store(location, reading=True)
        try:
            path = _copied(store, folder, look)
            odd = compare_derived(store, look)
        finally:
            store.close()
        yield str(path), odd
    finally:
        remove(folder)


def _copied(store: "Store", folder: Path, look: "Progress") -> Path:
    """An export; of a ledger that does not hold together, and so gives none, whatever of it can be read."""
    from hansard.record.copying import copy_lines
    from hansard.record.export import export

    try:
        export(store, folder / "export", pending=True, progress=look)
    except (StoreError, UsageError) as error:
        if isinstance(error, Unavailable) or isinstance(error.__cause__, OSError):
            raise
        return copy_lines(store, folder / "copy", look)
    return folder / "export"


def _refuse_address(location: str) -> None:
    """UsageError, which quotes nothing, for what is no path and may be an address with a password in it."""
    if os.path.lexists(location):
        return
    from hansard.app.wiring import may_be_secret

    if may_be_secret(location):
        raise UsageError("there is no file or folder of this name; a database is named postgresql://…")
