"""Documents of the protocol from files, and what strangers send as JSON, for surfaces."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hansard.deliberation.documents.jcs import unrepresentable
from hansard.deliberation.documents.reading import load
from hansard.domain.strict_json import read_json
from hansard.errors import UsageError


def read_document(name: str) -> Mapping[str, Any]:
    """The object in a JSON or YAML file."""
    found = load(Path(name))
    if not isinstance(found, Mapping):
        raise UsageError(f"{name} must hold an object, and holds something else")
    return found


def read_body(text: bytes, *, where: str = "the body") -> Any:
    """The JSON value that somebody sends. What has two readings is none."""
    return read_json(text, where=where)


def check_recordable(value: Any, *, where: str = "the body") -> None:
    """UsageError for what the record could not hold: half a character, a number that programs disagree about."""
    if why := unrepresentable(value):
        raise UsageError(f"{where} {why}")
