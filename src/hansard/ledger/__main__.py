"""Runs the verifier: as `python -m hansard.ledger`, and from this folder zipped alone, where it has no package.

This file alone can be read by older versions of Python, so that they can be told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from os.path import dirname
from types import ModuleType

INTERRUPTED = 130
MISUSED = 2
OLDEST = (3, 11)


def program() -> int:
    """Verify once. It is loaded in here, since whoever thinks better of it meanwhile wants to see no traceback."""
    if sys.version_info < OLDEST:
        needed, found = (".".join(map(str, each[:2])) for each in (OLDEST, sys.version_info))
        print(f"verify: this needs Python {needed} or newer, and was run with {found}", file=sys.stderr)
        return MISUSED
    try:
        return _loaded()()
    except KeyboardInterrupt:
        with suppress(OSError, ValueError):
            print("verify: interrupted", file=sys.stderr)
        return INTERRUPTED


def _loaded() -> Callable[[], int]:
    if __package__:
        from .command import main

        return main
    # Relative imports need a package around them, and at the root of a zip file there is none.
    package = ModuleType("ledger")
    package.__path__ = [dirname(__file__)]
    sys.modules["ledger"] = package
    found: Callable[[], int] = import_module("ledger.command").main
    return found


if __name__ == "__main__":
    sys.exit(program())
