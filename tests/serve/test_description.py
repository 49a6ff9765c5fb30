"""What /openapi.json says is true: schemathesis asks the running daemon everything that it may be asked, and more."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daemons import Served, place, serving

SEED = 20261115


def schemathesis(daemon: Served, examples: int, *more: str) -> int:
    """Every check of schemathesis; gives the number of cases."""
    argv = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{daemon.address}/openapi.json"),
        *("-H", f"Authorization: Bearer {daemon.token}", "--checks", "all", "--seed", str(SEED)),
        *("--max-examples", str(examples), "--no-color", "--suppress-health-check", "all"),
        *("--request-timeout", "120", *more),
    ]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=daemon.folder)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert "Traceback" not in daemon.log.read_text()
    cases = re.search(r"(\d+) generated", ran.stdout)
    assert cases, ran.stdout[-2000:]
    return int(cases[1])


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        assert schemathesis(daemon, 2, "--phases", "fuzzing") >= 30


@pytest.mark.long
def test_schemathesis_finds_nothing_in_two_thousand_cases(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        daemon.submit(wait=60)
        daemon.post("/v1/deliberations?wait=60", {"problem": "why?", "provider": "rehearsal"})
        assert schemathesis(daemon, 60) >= 2000
        assert daemon.cli("verify", "l.db", "--deep").returncode == 0


def test_every_route_says_which_problems_it_has(daemon: Served) -> None:
    described: dict[str, Any] = daemon.client(None).get("/openapi.json").json()
    for path, item in described["paths"].items():
        for method, operation in item.items():
            assert operation["security"] == ([] if path == "/health" else [{"bearer": []}])
            problems = {status for status in operation["responses"] if status >= "400"}
            assert {"400", "401", "403", "408", "413", "421", "422", "429", "431", "503"} <= problems, (method, path)
            # What is sent along may be of another kind, and a body may be one that cannot be recorded.
            sent = ({"415"} if method == "post" else set()) | ({"409"} if "requestBody" in operation else set())
            assert sent <= problems, (method, path)
            for status in problems:
                assert list(operation["responses"][status]["content"]) == ["application/problem+json"]
