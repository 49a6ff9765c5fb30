"""The demonstration without installing anything: `python3 examples/demo.py` from a clone.

Signing needs `cryptography`; without it the ledger is unsigned, and the demonstration says so.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hansard.surfaces.cli.main import main

raise SystemExit(main(["demo", *sys.argv[1:]]))
