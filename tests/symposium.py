"""The published files of the protocol that our deliberation follows, fetched once into a cache outside the repository.

A test that asks for them skips visibly where there is no network. Nothing of them is kept here but a checksum, and nothing
is read that does not have it.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from components import need

NAME, VERSION = "symposium-protocol", "1.12.0"
SHA256 = "d919ff831536182753e10a815cac3f8bfedaa5857f8a7897f3adb14ef7471c0e"
ARCHIVE = f"symposium_protocol-{VERSION}.tar.gz"
CACHE = Path(tempfile.gettempdir()) / f"hansard-{NAME}-{VERSION}"
SCHEMAS = "docs/schemas/v1.0.0"


@cache
def published() -> dict[str, str]:
    """The texts of the schemas and their examples, by path."""
    archive = _archive()
    found = hashlib.sha256(archive).hexdigest()
    need(found == SHA256, f"{NAME} {VERSION} as published, not one with the checksum {found} (delete {CACHE})")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        files = [(member.name.partition("/")[2], packed.extractfile(member)) for member in packed if member.isfile()]
        return {name: file.read().decode() for name, file in files if file and name.startswith(f"{SCHEMAS}/")}


def _archive() -> bytes:
    path = CACHE / ARCHIVE
    if not path.exists():
        error = _fetch()
        need(error is None, f"{NAME} {VERSION} from a package index ({error})")
    return path.read_bytes()


@cache
def _fetch() -> str | None:
    """What went wrong when it was fetched; tried once, for a network that is not there is slow to say so."""
    fetch = ["download", "--quiet", "--no-deps", "--no-binary", NAME, "--dest", str(CACHE), f"{NAME}=={VERSION}"]
    done = subprocess.run([sys.executable, "-m", "pip", *fetch], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr[-200:].strip()


def schemas() -> dict[str, dict[str, Any]]:
    """Their JSON Schemas by file name."""
    return {Path(name).name: json.loads(text) for name, text in published().items() if name.endswith(".schema.json")}


def example(name: str) -> Any:
    """One of their examples."""
    return json.loads(published()[f"{SCHEMAS}/examples/{name}"])


def cases(script: str) -> ModuleType:
    """Their `validate` or `validate_negative`, as a module that was not run."""
    name = f"{SCHEMAS}/examples/{script}.py"
    module = ModuleType(script)
    module.__file__ = str(CACHE / name)
    exec(compile(published()[name], name, "exec"), module.__dict__)
    return module
