"""Runs the verifier: as `python -m hansard.ledger`, and from this folder zipped alone, where it has no package."""

import sys
from importlib import import_module
from os.path import dirname
from types import ModuleType

if __package__:
    from .command import main
else:
    # Relative imports need a package around them, and at the root of a zip file there is none.
    package = ModuleType("ledger")
    package.__path__ = [dirname(__file__)]
    sys.modules["ledger"] = package
    main = import_module("ledger.command").main

if __name__ == "__main__":
    sys.exit(main())
