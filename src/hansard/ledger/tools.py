"""What a caller may lend to a verification for speed alone."""

from dataclasses import dataclass

from . import ed25519
from .form import Dumps, Loads
from .note import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Faster equals that a caller may lend. Only speed depends on them: what they let pass is compared with the line."""

    loads: Loads | None = None
    dumps: Dumps | None = None
    ed25519: Check = ed25519.verify


STANDARD = Tools()
"""The standard library."""
