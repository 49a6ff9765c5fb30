"""The demonstration without installing anything: `python3 examples/demo.py` from a clone.

Signing needs `cryptography`; without it the ledger is unsigned, and the demonstration says so.
"""

import sys
from pathlib import Path

OLDEST = (3, 11)


def program() -> int:
    if sys.version_info < OLDEST:
        print(f"this needs Python 3.11 or newer, and was run with {sys.version.split()[0]}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

    from hansard.surfaces.cli.main import main

    return main(["demo", *sys.argv[1:]])


raise SystemExit(program())
