"""Writes the JSON Schema files of the deliberation documents: `PYTHONPATH=src python tests/schema_files.py`."""

import json
from pathlib import Path
from typing import Any

from hansard.deliberation import documents
from hansard.deliberation.documents import DOCUMENTS, SCHEMA_VERSION

WIDTH = 120
FOLDER = Path(documents.__file__).parent / "schemas"


def schema_text(name: str) -> str:
    """The file of one document, as it must stand."""
    document = DOCUMENTS[name]
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:hansard:deliberation:{SCHEMA_VERSION}:{name}",
        "title": document.__name__,
    }
    return _written({**head, **document.schema()}) + "\n"


def _written(value: Any, indent: int = 0) -> str:
    """JSON with everything on one line that has room there."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list):
        return line
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    each = value.values() if isinstance(value, dict) else value
    inner = [f"{' ' * (indent + 1)}{name}{_written(one, indent + 1)}" for name, one in zip(names, each, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, ",\n".join(inner), " " * indent + closing])


def main() -> None:
    for name in DOCUMENTS:
        (FOLDER / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
