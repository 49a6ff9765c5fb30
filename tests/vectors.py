"""Reads the published vectors that lie beside the repository; a test that asks for them skips where they are missing."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "vectors"


def file(name: str) -> Path:
    """The path of a vector file or folder."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"published vectors not here: ../shared/vectors/{name}")
    return path


def load(name: str) -> Any:
    """The content of a JSON vector file."""
    return json.loads(file(name).read_text(encoding="utf-8"))
