"""The verifier as one file: the installed ledger folder, zipped, and the words that say how to run it ([X3])."""

import io
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from hansard.ledger.entry import Entry

NAME = "verify.pyz"
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)

_README = """\
This folder is a copy of the ledger {origin}
with its first {size} entries.

To check it you need Python 3.11 or newer and nothing else. In this folder, run:

    python3 {name} --deep .

It says whether anything was changed, dropped or inserted, whether each text is the
one that was recorded, who signed which state, and what that does not prove.
{bodies}
If the people who run this ledger gave you its pin by another way, add it, and the
check no longer depends on the keys that this copy names itself:

    python3 {name} --deep --pin 'PIN' .

If you would rather not run a program out of this folder, `pip install hansard` and
`hansard verify --deep .` is the same check.

entries.jsonl        every entry, one line each
bodies.jsonl         the texts that the entries commit to
checkpoints.jsonl    the signed states of the log
{tiles}{name}           the verifier; not part of the record
README.txt           this text; not part of the record
"""

_WITHOUT_BODIES = """
The texts were left out of this copy, so the check will find them missing (exit 22);
without --deep it looks at the log alone.
"""

_TILES = """\
checkpoint, tile/    the same log in the public C2SP tlog-tiles form, for other tools
"""


def archive() -> bytes:
    """The verifier as an executable zip; the same installation gives the same bytes."""
    made = io.BytesIO()
    made.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(made, "w") as packed:
        for name, source in _sources(files("hansard.ledger")):
            _add(packed, name, source)
    return made.getvalue()


def readme(genesis: Entry, size: int, *, bodies: bool, tiles: bool) -> str:
    """What to do with an export, for somebody who has never heard of us."""
    origin = "".join(each if each.isprintable() else "?" for each in str(genesis.data.get("origin")))
    without, public = "" if bodies else _WITHOUT_BODIES, _TILES if tiles else ""
    return _README.format(origin=origin, size=size, name=NAME, bodies=without, tiles=public)


def _sources(folder: Traversable, under: str = "") -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda found: found.name):
        if each.is_dir():
            yield from _sources(each, f"{under}{each.name}/")
        elif each.name.endswith(".py"):
            yield f"{under}{each.name}", each.read_bytes()


def _add(packed: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _FIRST_DAY)
    info.external_attr = 0o644 << 16
    info.create_system = 3
    packed.writestr(info, data)
