"""What /openapi.json says is true: schemathesis asks the running daemon everything that it may be asked, and more."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from daemons import ONE, Served, place, serving
from forging import database

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


def exactly(schema: Any) -> Any:
    """The same schema, which takes no members besides those that it names, as clients that are generated from it do."""
    if isinstance(schema, list):
        return [exactly(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    named = "properties" in schema or "additionalProperties" not in schema
    closed = {"additionalProperties": False} if schema.get("type") == "object" and named else {}
    return {name: exactly(each) for name, each in schema.items()} | closed


def described(daemon: Served, method: str, route: str, *, body: Any = None, **named: object) -> Any:
    """An answer, all of whose members stand in the description of its route."""
    path = route.format(**named) if named else route
    said = daemon.get(path) if method == "get" else daemon.post(path, body)
    description = daemon.get("/openapi.json").json()
    answers = description["paths"][route.split("?")[0]][method]["responses"]
    schema = answers[str(said.status_code)]["content"][said.headers["content-type"].split(";")[0]]["schema"]
    components = exactly(description["components"])
    jsonschema.Draft202012Validator(exactly(schema) | {"components": components}).validate(said.json())
    return said.json()


def test_every_member_of_an_answer_is_described(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        run = described(daemon, "post", "/v1/runs?wait=60", body={"request": "please"})["run"]
        described(daemon, "get", "/v1/runs/{run}", run=run)
        described(daemon, "get", "/v1/runs")
        described(daemon, "post", "/v1/route", body={"text": "fix the stylesheet"})
        waits = described(daemon, "post", "/v1/runs", body={"request": "x", "plan": ONE, "gates": ["plan"]})["run"]
        daemon.until(waits, "waiting")
        [gate] = described(daemon, "get", "/v1/gates")
        described(daemon, "get", "/v1/gates/{gate}", gate=gate["gate"])
        described(daemon, "post", "/v1/gates/{gate}/decision", gate=gate["gate"], body={"decision": "reject"})
        # One that comes to an answer, and one whose provider fails.
        for provider in ("rehearsal", "quick"):
            body = {"problem": "why?", "provider": provider}
            held = described(daemon, "post", "/v1/deliberations?wait=60", body=body)["run"]
            described(daemon, "get", "/v1/deliberations/{run}", run=held)
            described(daemon, "get", "/v1/runs/{run}", run=held)
        described(daemon, "get", "/v1/deliberations")
        described(daemon, "get", "/v1/ledger/entries?limit=1000")
        described(daemon, "get", "/v1/ledger/entries/{seq}", seq=2)
        described(daemon, "get", "/v1/ledger/entries/{seq}/causes", seq=5)
        for name in ("state", "summary", "checkpoint", "proof/consistency?from=0"):
            described(daemon, "get", f"/v1/ledger/{name}")
        described(daemon, "get", "/v1/status")
        described(daemon, "post", "/v1/runs", body={"request": 1, "zork": 2})
        taken = described(daemon, "post", "/v1/runs", body={"request": "x", "run": run})
        assert (taken["status"], taken["run"]) == (409, run)


def test_a_request_is_described_so_that_generated_clients_ask_for_nothing_that_may_be_left_out(daemon: Served) -> None:
    # openapi-typescript takes a member that has a default for one that is always there, in what is sent too.
    described: dict[str, Any] = daemon.get("/openapi.json").json()
    sent = {name: each for name, each in described["components"]["schemas"].items() if name.endswith("Request")}
    assert len(sent) == 8
    assert not [name for name, each in sent.items() if any("default" in one for one in each["properties"].values())]


def test_generated_clients_know_what_a_run_spent_and_what_became_of_its_tasks(daemon: Served) -> None:
    described: dict[str, Any] = daemon.get("/openapi.json").json()
    seen, left = set[str](), ["FullRunView", "FullGateView", "DeliberationView"]
    untyped = set[str]()
    while left:
        seen.add(view := left.pop())
        for name, member in described["components"]["schemas"][view].get("properties", {}).items():
            told = json.dumps(member)
            left += set(re.findall("#/components/schemas/([A-Za-z]+)", told)) - seen
            untyped |= {name} if '"additionalProperties": true' in told or '"items": {}' in told else set()
    assert {"SpentView", "BudgetView", "TaskView", "AttemptView", "ReturnedView", "DecisionView"} <= seen
    # What a session says of itself is the protocol's own document.
    assert untyped == {"panel", "cumulative_usage", "unresolved", "pending", "last_provider_failure"}


def test_a_part_is_described_as_bytes_first_and_never_as_a_text_that_is_bytes(daemon: Served) -> None:
    answers = daemon.get("/openapi.json").json()["paths"]["/v1/ledger/entries/{seq}/parts/{part}"]["get"]["responses"]
    assert list(answers["200"]["content"].items()) == [
        ("application/octet-stream", {"schema": {"type": "string", "format": "binary"}}),
        ("text/plain", {"schema": {"type": "string"}}),
    ]


def test_an_entry_that_cannot_be_read_is_described_too(tmp_path: Path) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        daemon.submit(wait=60)
    with database(tmp_path / "l.db") as found:
        found.execute("UPDATE entries SET line = replace(line, '\"v\":1}', '\"v\":2}') WHERE seq = 5")
    with serving(tmp_path, "--provider", "quick") as daemon:
        listed = described(daemon, "get", "/v1/ledger/entries")
        assert [each["seq"] for each in listed if "line" in each] == [5]
