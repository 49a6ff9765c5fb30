"""One service, four ways in: every method of it is on every surface, or on a list that says why not."""

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from hansard.app.driving.deliberations import Deliberations
from hansard.app.driving.gates import Gates
from hansard.app.driving.runs import Runs
from hansard.app.ledgers.ledger import LedgerService
from hansard.surfaces.cli.main import parser

SERVICES: tuple[type[Any], ...] = (Runs, Gates, LedgerService, Deliberations)


class On(NamedTuple):
    """Where a method is: the words of a command, the method and path of a route, the name of a tool; or why it is not there."""

    cli: str
    http: str
    mcp: str


INSIDE = "not for callers: "
HERE = "keeps to the machine: "
SHOWN = "part of what another one shows: "
TABLE = {
    "Runs.submit": On("submit x", "POST /v1/runs", "submit"),
    "Runs.listed": On("runs list", "GET /v1/runs", "runs_list"),
    "Runs.show": On("runs show r", "GET /v1/runs/{run}", "run_show"),
    "Runs.follow": On("runs follow r", "GET /v1/runs/{run}/events", "run_follow"),
    "Runs.cancel": On("runs cancel r", "POST /v1/runs/{run}/cancel", "run_cancel"),
    "Runs.resume": On("runs resume r", "POST /v1/runs/{run}/resume", "run_resume"),
    "Runs.retry": On("runs retry r t", "POST /v1/runs/{run}/tasks/{task:path}/retry", f"{HERE}a person's decision"),
    "Runs.rerun": On("runs rerun r", "POST /v1/runs/{run}/rerun", f"{HERE}an auditor's work"),
    "Runs.compare": On("runs compare a b", "GET /v1/compare", f"{HERE}an auditor's work"),
    "Runs.capsule": On("runs capsule r", "GET /v1/runs/{run}/capsule", f"{SHOWN}submit takes runs as context"),
    "Runs.page": On("runs page r", f"{SHOWN}the dashboard", f"{SHOWN}the dashboard"),
    "Runs.plan": On("plan x", "POST /v1/plans", "plan"),
    "Runs.answer": On(*[f"{SHOWN}the run"] * 3),
    "Runs.figures": On(*[f"{SHOWN}comparisons"] * 3),
    "Runs.views": On(*[f"{SHOWN}follow"] * 3),
    "Runs.entries": On(*[f"{SHOWN}follow"] * 3),
    "Runs.state": On(*[f"{SHOWN}the run"] * 3),
    "Runs.text": On(*[f"{SHOWN}the ledger's parts"] * 3),
    "Runs.find": On(*[f"{INSIDE}every surface finds runs with it"] * 3),
    "Runs.keep": On(*[f"{INSIDE}who follows a run keeps its gates' deadlines"] * 3),
    "Runs.has_gates": On(*[f"{INSIDE}says whether there are deadlines to keep"] * 3),
    "Runs.begin": On(*[f"{INSIDE}submit begins so"] * 3),
    "Runs.drive": On(*[f"{INSIDE}submit and resume drive"] * 3),
    "Runs.ask_to_resume": On(*[f"{INSIDE}resume begins so"] * 3),
    "Runs.ask_to_retry": On(*[f"{INSIDE}retry begins so"] * 3),
    "Runs.listen": On(*[f"{INSIDE}follow is for callers"] * 3),
    "Runs.close": On(*[f"{INSIDE}the end of a process"] * 3),
    "Gates.listed": On("gates list", "GET /v1/gates", "gates_list"),
    "Gates.show": On("gates show g", "GET /v1/gates/{gate}", f"{SHOWN}gates_list"),
    "Gates.decide": On("gates approve g", "POST /v1/gates/{gate}/decision", "gate_decide"),
    "Gates.in_question": On(*[f"{SHOWN}the gate"] * 3),
    "LedgerService.open": On(*[f"{INSIDE}the beginning of a process"] * 3),
    "LedgerService.size": On(*[f"{SHOWN}status"] * 3),
    "LedgerService.show": On("ledger show", "GET /v1/ledger/entries", f"{SHOWN}run_follow and ledger_get"),
    "LedgerService.get": On("ledger get 1", "GET /v1/ledger/entries/{seq}", "ledger_get"),
    "LedgerService.part": On(
        "ledger get 1 --part p", "GET /v1/ledger/entries/{seq}/parts/{part}", f"{SHOWN}ledger_get"
    ),
    "LedgerService.causes": On("ledger causes 1", "GET /v1/ledger/entries/{seq}/causes", "causes"),
    "LedgerService.state_at": On("ledger replay", "GET /v1/ledger/state", "ledger_state"),
    "LedgerService.summary": On("ledger summary", "GET /v1/ledger/summary", "summary"),
    "LedgerService.redact": On("ledger redact 1 p --reason other", *[f"{HERE}it destroys"] * 2),
    "LedgerService.repair": On("ledger repair", *[f"{HERE}nobody else may hold the ledger"] * 2),
    "Deliberations.convene": On("deliberate x", "POST /v1/deliberations", "deliberate"),
    "Deliberations.generate": On(
        f"{SHOWN}deliberate --expert", f"{SHOWN}experts of a deliberation", "generate_persona"
    ),
    "Deliberations.ask_for_persona": On(*[f"{INSIDE}generate begins so"] * 3),
    "Deliberations.generated": On(*[f"{INSIDE}generate ends so"] * 3),
    "Deliberations.listed": On("runs list", "GET /v1/deliberations", "runs_list"),
    "Deliberations.show": On("runs show r", "GET /v1/deliberations/{run}", "get_run_summary"),
    "Deliberations.hold": On(*[f"{INSIDE}convene and resume hold"] * 3),
    "Deliberations.drive": On(*[f"{INSIDE}convene and resume hold"] * 3),
    "Deliberations.listen": On(*[f"{INSIDE}follow is for callers"] * 3),
    "Deliberations.cancel": On("runs cancel r", "POST /v1/runs/{run}/cancel", "run_cancel"),
    "Deliberations.resume": On("session resume d", "POST /v1/runs/{run}/resume", "run_resume"),
    "Deliberations.replay": On("session execution-replay d", *[f"{HERE}it works on directories"] * 2),
}
WHY = (INSIDE, HERE, SHOWN)


def methods() -> Iterator[str]:
    for service in SERVICES:
        for name, _ in inspect.getmembers(service, callable):
            if not name.startswith("_"):
                yield f"{service.__name__}.{name}"


def named(surface: str) -> list[tuple[str, str]]:
    said = {method: str(getattr(on, surface)) for method, on in TABLE.items()}
    return [(method, where) for method, where in said.items() if not where.startswith(WHY)]


def test_every_method_of_the_service_is_in_the_table() -> None:
    assert set(methods()) == set(TABLE)


@pytest.mark.parametrize(("method", "words"), named("cli"))
def test_the_command_line_has_it(method: str, words: str) -> None:
    given = words.split()
    assert "help_text" not in parser(given).parse_args(given).handler, f"{method}: `hansard {words}` does nothing"


@pytest.mark.parametrize(("method", "route"), named("http"))
def test_http_has_it(method: str, route: str) -> None:
    from hansard.surfaces.http import deliberations, gates, ledger, runs

    known = {
        f"{verb} {getattr(each, 'path', '')}"
        for module in (runs, gates, ledger, deliberations)
        for each in module.router.routes
        for verb in getattr(each, "methods", ())
    }
    assert route in known, method


@pytest.mark.parametrize(("method", "tool"), named("mcp"))
def test_mcp_has_it(method: str, tool: str) -> None:
    council = pytest.importorskip("hansard.surfaces.mcp.council")
    from hansard.surfaces.mcp import reading, running

    known = {each.name for each in (*running.TOOLS, *running.GRANTED, *reading.TOOLS, *council.TOOLS)}
    assert tool in known, method


NAMED_OTHERWISE = {"gate": "gates", "context_run": "context"}
LOCAL = {"cmd", "chat_url", "model", "api", "verifier", "roster", "ledger", "detach"}
"""Programs, files and addresses keep to the machine."""
SHOWING = {"json", "debug", "quiet", "progress", "shown_by", "goes_on", "handler", "parser", "command"}


def test_every_surface_takes_the_same_options_of_a_request() -> None:
    from hansard.surfaces.http.bodies import DeliberationRequest, RunRequest

    running, council = (pytest.importorskip(f"hansard.surfaces.mcp.{name}") for name in ("running", "council"))
    given = vars(parser(["submit", "x"]).parse_args(["submit", "x"])).keys() - LOCAL - SHOWING
    flags = {NAMED_OTHERWISE.get(each, each) for each in given}
    assert flags == RunRequest.model_fields.keys() - {"run"} == running.Submitting.model_fields.keys() - {"wait"}
    assert {
        "max_total_tokens",
        "max_total_cost_usd",
        "max_wallclock_seconds",
    } <= DeliberationRequest.model_fields.keys()
    assert council.Deliberating.model_fields.keys() - {"output_dir"} <= DeliberationRequest.model_fields.keys()


@pytest.mark.parametrize("name", ["max_calls", "max_tokens", "max_seconds"])
@pytest.mark.parametrize(
    "limit", ["0", "1", "1.5", "-1", "999999999", "1000000000", "999999999999999", "1000000000000000"]
)
def test_every_surface_takes_the_same_limits(name: str, limit: str) -> None:
    from pydantic import ValidationError

    from hansard.surfaces.http.bodies import RunRequest

    running = pytest.importorskip("hansard.surfaces.mcp.running")
    words = ["submit", "x", f"--{name.replace('_', '-')}={limit}"]
    found: list[Any] = []
    ways: tuple[Callable[[], Any], ...] = (
        lambda: getattr(parser(words).parse_args(words), name),
        lambda: getattr(RunRequest.model_validate({"request": "x", name: json.loads(limit)}), name),
        lambda: getattr(running.Submitting.model_validate({"request": "x", name: json.loads(limit)}), name),
    )
    for read in ways:
        try:
            found.append(read())
        except (SystemExit, ValidationError):
            found.append(None)
    assert found[0] == found[1] == found[2]
    assert limit != "0" or found[0] == 0
