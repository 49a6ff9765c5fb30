"""Documents of the protocol from files, for surfaces."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hansard.deliberation.documents.reading import load
from hansard.deliberation.documents.reading import read_json as read_json
from hansard.errors import UsageError


def read_document(name: str) -> Mapping[str, Any]:
    """The object in a JSON or YAML file."""
    found = load(Path(name))
    if not isinstance(found, Mapping):
        raise UsageError(f"{name} must hold an object, and holds something else")
    return found
