"""The protocol's reference runtime in an environment of its own, outside the repository; tests talk to it over pipes.

A test that asks for it skips visibly where it cannot be installed.
"""

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from components import need
from symposium import CACHE, NAME, VERSION

ENVIRONMENT = CACHE / f"environment-{sys.version_info[0]}.{sys.version_info[1]}"

# Their scheduler over cases that come in as lines, each with its ids and its clock pinned and without pauses.
DRIVER = """
import itertools, json, sys
import symposium.scheduler.loop as loop
from symposium.models import Config, FakeProviderScript
from symposium.providers.fake import FakeProvider
from symposium.replay import pinned_runtime
loop._BACKOFF_BASE_SECONDS = 0.0
for line in sys.stdin:
    case, numbers = json.loads(line), itertools.count()
    with pinned_runtime(id_source=lambda: f"msg-{next(numbers):03d}", clock=lambda: "2026-05-25T12:00:00Z"):
        provider = FakeProvider(FakeProviderScript.model_validate(case["script"]))
        artifact = loop.run_session(Config.model_validate(case["config"]), {"default": provider})
    print(json.dumps(artifact.model_dump(mode="json", exclude_none=True)), flush=True)
"""


@cache
def folder() -> Path:
    """Where its programs are."""
    if not (ENVIRONMENT / "complete").exists():
        CACHE.mkdir(exist_ok=True)
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        install = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{NAME}=={VERSION}"]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        need(done.returncode == 0, f"{NAME} {VERSION} from a package index ({done.stderr[-200:].strip()})")
        (ENVIRONMENT / "complete").touch()
    return ENVIRONMENT / "bin"


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Its command line."""
    return subprocess.run([folder() / "symposium", *arguments], capture_output=True, text=True, check=False)


def schedule(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The artifacts that its scheduler makes of these cases."""
    done = subprocess.run(
        [folder() / "python", "-c", DRIVER],
        input="\n".join(map(json.dumps, cases)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
