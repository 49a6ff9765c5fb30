"""Tools of a project: written into hansard.toml, named by panels, handed in by Python, run by programs and URLs."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from command_line import started
from daemons import wait_for
from deliberating import config as plain_config
from hansard import run_session
from hansard.app.pool import Pool
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.convening import Call, Convening, convening
from hansard.app.setup.panels import panel_of
from hansard.app.setup.tooltables import tool_of
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.deliberationviews import spent_on_record
from hansard.app.telling.span_names import COST, INPUT_TOKENS, PROVIDER
from hansard.app.telling.spans import run_spans
from hansard.domain.budget import Budget
from hansard.domain.exchange import Completion, Cost, Exchange, ToolCall
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.progress import progress_of
from hansard.providers.tools import Refusal
from panels import PANELS, Voices, agreeing, synthesis, turn, verdict
from running import Answers, Ledger, audit, desk, one, plan, roster, task
from shell import hansard

SCHEMA = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
PROGRAM = [sys.executable, "-c", "import json, sys; print('in', json.load(sys.stdin)['arguments']['year'])"]
ALMANAC: dict[str, Any] = {"command": PROGRAM, "description": "What happened.", "input_schema": SCHEMA}
ARMED: dict[str, Any] = {"bench": {**PANELS["bench"], "tools": {"critic": ["almanac"]}}}


def curious(exchange: Exchange) -> Any:
    """Looks into the almanac once, wherever it is offered."""
    if not exchange.tools or any(message.role == "tool" for message in exchange.messages):
        return agreeing(exchange)
    return {"calls": (ToolCall(id="c", name=exchange.tools[0].name, arguments={"year": 1969}),)}


def settings(folder: Path, **more: Any) -> Settings:
    given: dict[str, Any] = {"tools": {"almanac": ALMANAC}, "panels": ARMED, **more}
    return Settings(ledger=str(folder / "log.db"), state=folder / "state", **given)


def heard(voices: Voices) -> list[str]:
    return [message.content for each in voices.calls for message in each.messages if message.role == "tool"]


async def deliberated(folder: Path, **more: Any) -> tuple[Voices, Convening]:
    voices = Voices(curious)
    async with Hansard.open(settings=settings(folder, **more)) as hansard:
        hansard.pool.given["voices"] = voices
        made = convening(hansard.settings, hansard.pool, Call(problem="When?", panel=["panel:bench"]))
        run = await hansard.deliberations.convene(made)
        assert (await hansard.deliberations.hold(run)).sitting.reason == "synthesis"
        # Critic twice, engineer, verdict, synthesis.
        [ended] = hansard.ledger.show(run=run, kind="run.ended")
        assert ended["data"]["calls"] == hansard.runs.figures(run)["calls"] == len(voices.calls) == 5
        assert spent_on_record(hansard.store, run).calls == 5
        by_model = hansard.runs.figures(run)["calls_by_model"]
        assert by_model == hansard.ledger.summary()["calls_by_model"] == {"default": 5}
        assert hansard.runs.figures(run)["calls_by_role"] == {"panel": 5}
        spans = [span.attributes.get(INPUT_TOKENS) for span in run_spans(hansard.store, run)]
        assert [each for each in spans if each] == [20, 10, 10, 10]
        return voices, made


async def test_a_panels_agent_uses_a_program_of_the_project(tmp_path: Path) -> None:
    voices, made = await deliberated(tmp_path)
    assert heard(voices) == ["in 1969"]
    assert {str(each.metadata["agent_id"]) for each in voices.calls if each.tools} == {"critic"}
    # What runs it is on the record, so that whoever goes on with the session has it too.
    assert Convening.from_json(made.as_json()).tools == {"almanac": {"command": PROGRAM}}
    assert made.warnings == []


class Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = json.dumps({"error": f"{asked['tool']} is closed"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_url_runs_a_tool_and_may_refuse(tmp_path: Path) -> None:
    with service() as url:
        voices, _ = await deliberated(tmp_path, tools={"almanac": {"url": url, "input_schema": SCHEMA}})
    assert heard(voices) == ['{"error": "almanac is closed"}']


async def test_a_program_that_fails_ends_the_turn_and_says_why(tmp_path: Path) -> None:
    broken = {**ALMANAC, "command": [sys.executable, "-c", "import sys; sys.exit('no almanac here')"]}
    voices = Voices(curious)
    async with Hansard.open(settings=settings(tmp_path, tools={"almanac": broken})) as hansard:
        hansard.pool.given["voices"] = voices
        made = convening(hansard.settings, hansard.pool, Call(problem="When?", panel=["panel:bench"]))
        run = await hansard.deliberations.convene(made)
        await hansard.deliberations.hold(run)
        [failed] = hansard.ledger.show(run=run, kind="turn.failed")
        assert failed["data"]["error"] == "tool_failure"
        body = hansard.store.body(failed["seq"], "result")
        assert body is not None
        assert "no almanac here" in json.loads(body.body)["failure"]["message"]
        # Critic, engineer, verdict, synthesis; a tool that fails is no call.
        [ended] = hansard.ledger.show(run=run, kind="run.ended")
        assert (ended["data"]["calls"], ended["data"]["tokens"]) == (len(voices.calls), 60) == (4, 60)
        assert hansard.runs.show(run)["spent"]["calls"] == hansard.runs.figures(run)["calls"] == 4
    assert heard(voices) == []


STUCK = """\
import json, pathlib, sys, time
if not pathlib.Path("asked").exists():
    pathlib.Path("asked").touch()
    time.sleep(600)
print("in", json.load(sys.stdin)["arguments"]["year"])
"""
VOICES: Any = [
    {"match": {"agent_id": "critic"}, "calls": [{"name": "almanac", "arguments": {"year": 1969}}]},
    {"match": {"agent_id": "critic"}, "structured": turn()},
    {"match": {"schema": "verdict"}, "structured": verdict()},
    {"match": {"schema": "synthesis_content"}, "structured": synthesis()},
]


def test_a_process_that_is_killed_while_a_tool_runs_has_used_what_is_on_the_record(tmp_path: Path) -> None:
    used = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    (tmp_path / "voices.json").write_text(json.dumps({"entries": [{**entry, **used} for entry in VOICES]}))
    (tmp_path / "almanac.py").write_text(STUCK)
    (tmp_path / "hansard.toml").write_text(
        f"""\
ledger = "log.db"
providers.voices = {{ kind = "scripted", script = "voices.json" }}
panels.one = {{ agents = ["critic"], provider = "voices", tools = {{ critic = ["almanac"] }} }}
[tools.almanac]
command = ["{sys.executable}", "{tmp_path}/almanac.py"]
input_schema = {{ type = "object", properties = {{ year = {{ type = "integer" }} }} }}
"""
    )
    process = started(tmp_path, "deliberate", "When?", "--panel", "panel:one")
    wait_for((tmp_path / "asked").exists)
    process.kill()
    process.communicate()
    resumed = hansard(tmp_path, "runs", "resume", "last")
    assert resumed.returncode == 0, resumed.stderr
    [run] = json.loads(hansard(tmp_path, "runs", "--json").stdout)
    # The call whose tool was cut off; then critic twice, verdict, synthesis.
    assert (run["spent"]["calls"], run["spent"]["tokens"]) == (5, 75)


class UnpricedLooking(Voices):
    """Knows what its answers cost, and not what it took to ask for tools."""

    async def complete(self, exchange: Exchange) -> Completion:
        said = await super().complete(exchange)
        return replace(said, cost=Cost()) if said.calls else said


async def test_a_turn_has_no_cost_in_a_trace_where_nobody_knows_that_of_its_calls_for_tools() -> None:
    given = {"panels": ARMED, "tools": {"almanac": ALMANAC}}
    d = desk(Answers(), UnpricedLooking(curious, unmetered=False), settings=given)
    ended = await d.run("x", plan=plan(task("a")), wishes=Wishes(roster=roster(alpha={"provider": "panel:bench"})))
    spans = [span.attributes for span in run_spans(d.store, ended.run) if span.kind == "client"]
    turns = [each.get(COST) for each in spans if each[PROVIDER] == "voices"]
    assert turns == [None, 1_000, 1_000, 1_000]
    assert one(d.entries(ended.run, "run.ended")).data["priced"] is False
    assert d.runs.figures(ended.run)["calls_without_price"] == 1


async def test_a_panel_inside_of_a_run_uses_its_tools_within_the_runs_budget() -> None:
    voices = Voices(curious)
    given = {"panels": ARMED, "tools": {"almanac": ALMANAC}}
    d = desk(Answers(), voices, settings=given)
    ended = await d.run("x", plan=plan(task("a")), wishes=Wishes(roster=roster(alpha={"provider": "panel:bench"})))
    assert ended.state == "answered"
    assert heard(voices) == ["in 1969"]
    assert one(d.entries(ended.run, "tools.called")).data["tools"] == ["almanac"]
    # Critic twice, engineer, verdict, synthesis.
    assert len(voices.calls) == 5
    over = one(d.entries(ended.run, "run.ended"))
    folded = progress_of(ended.run, d.entries(ended.run)).spent
    assert (over.data["calls"], over.data["tokens"]) == (folded.calls, folded.tokens)
    assert over.data["calls"] == 5 + len(d.entries(ended.run, "role.answered"))
    figures = d.runs.figures(ended.run)
    assert d.runs.show(ended.run)["spent"]["calls"] == figures["calls"] == folded.calls
    # The panel's answer, as the work on the task, is no call beside those of its session.
    assert figures["calls_by_role"] == {"panel": 5, "validator": 1}
    audit(d.store, ended.run)


async def test_what_a_tool_takes_is_no_time_of_its_lane_whoever_reads_it_from_the_record() -> None:
    d = desk(Answers(), Voices(curious), settings={"panels": ARMED, "tools": {"almanac": ALMANAC}})
    ended = await d.run("x", plan=plan(task("a")), wishes=Wishes(roster=roster(alpha={"provider": "panel:bench"})))
    entries = d.entries(ended.run)
    returned = one(d.entries(ended.run, "tools.returned")).seq
    slower = [each._replace(ts=each.ts + 60_000_000 * (each.seq >= returned)) for each in entries]
    assert progress_of(ended.run, slower).spending.lanes == progress_of(ended.run, entries).spending.lanes
    # While a model that takes its time takes that of its lane, whether it wants a tool or answers. Older records tell it by the
    # times of their entries.
    older = [each._replace(data=without_latency(each)) for each in entries]
    for kind in ("tools.called", "turn.taken"):
        at = d.entries(ended.run, kind)[-1]
        longer = {**at.data, "latency_us": int(at.data["latency_us"]) + 60_000_000}
        told = [each._replace(data=longer if each.seq == at.seq else each.data) for each in entries]
        later = [each._replace(ts=each.ts + 60_000_000 * (each.seq >= at.seq)) for each in older]
        for before, after in ((entries, told), (older, later)):
            took_us = [progress_of(ended.run, each).spending.lanes["alpha"].elapsed_us for each in (before, after)]
            assert took_us[1] - took_us[0] == 60_000_000


def without_latency(entry: Entry) -> Mapping[str, Any]:
    """What an older version recorded of a call inside of a session."""
    is_call = entry.kind in ("panel.selected", "tools.called", "turn.taken", "turn.failed")
    return {name: each for name, each in entry.data.items() if not (is_call and name == "latency_us")}


async def test_the_seconds_of_a_lane_are_those_of_its_calls_and_not_what_goes_by_between_their_entries() -> None:
    """A disk that is slow, or a clock that is set: whoever was asked took no time for that."""
    ledger, minutes = Ledger(), count()
    ledger._clock = lambda: time.time() + 60 * next(minutes)
    settings = {"panels": ARMED, "tools": {"almanac": ALMANAC}}
    d = desk(Answers(), Voices(curious), store=ledger, settings=settings)
    wishes = Wishes(roster=roster(alpha={"provider": "panel:bench", "budget": Budget(max_seconds=100)}))
    run = (await d.run("x", plan=plan(task("a"), task("b", "a"), task("c", "b")), wishes=wishes)).run
    assert one(d.entries(run, "run.ended")).data["state"] == "answered"
    report = await d.runs.rerun(run)
    assert report["identical"] is True, report
    # Whoever goes on after a crash counts as whoever did not crash.
    for commits in range(len(ledger.commits) // 2, len(ledger.commits) - 1, 5):
        again = desk(Answers(), Voices(curious), store=ledger.until(commits), settings=settings)
        assert (await again.runs.drive(run)).state == "answered"


async def test_a_rerun_counts_the_time_of_a_call_for_tools_once() -> None:
    async def slowly() -> Any:
        await asyncio.sleep(0.6)
        return {"calls": (ToolCall(id="c", name="almanac", arguments={"year": 1969}),)}

    def once(exchange: Exchange) -> Any:
        return slowly() if len(voices.calls) == 1 else agreeing(exchange)

    voices = Voices(once)
    d = desk(Answers(), voices, settings={"panels": ARMED, "tools": {"almanac": ALMANAC}})
    lanes = roster(alpha={"provider": "panel:bench", "budget": Budget(max_seconds=1)})
    ended = await d.run("x", plan=plan(task("a"), task("b", "a")), wishes=Wishes(roster=lanes))
    assert ended.state == "answered"
    report = await d.runs.rerun(ended.run)
    assert report["identical"] is True, report


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [1, 6, 7])
@pytest.mark.parametrize("program", ["true", "false"])
async def test_results_of_tools_with_which_nobody_is_asked_are_no_call_wherever_the_driver_dies(
    program: str, limit: int
) -> None:
    tools = {"almanac": {**ALMANAC, "command": [program]}}
    given = {"panels": ARMED, "tools": tools, "budget": {"max_calls": limit}}
    ledger = Ledger()
    d = desk(Answers(), Voices(curious), store=ledger, settings=given)
    wishes = Wishes(roster=roster(alpha={"provider": "panel:bench"}))
    run = (await d.run("x", plan=plan(task("a"), task("b", "a")), wishes=wishes)).run
    for commits in range(2, len(ledger.commits)):
        again = desk(Answers(), Voices(curious), store=ledger.until(commits), settings=given)
        if again.entries(run, "run.ended"):
            continue
        await again.runs.resume(run)
        assert one(again.entries(run, "run.ended")).data["calls"] <= limit
        assert (await again.runs.rerun(run))["identical"] is True
        audit(again.store, run)


def test_python_hands_in_what_runs_a_tool(tmp_path: Path) -> None:
    voices, asked = Voices(curious, id="fake"), list[Any]()
    data = plain_config().as_data()
    data["agents"][0]["tools"] = [{"name": "oracle", "description": "Knows.", "input_schema": SCHEMA}]

    async def oracle(arguments: Mapping[str, Any]) -> object:
        asked.append(arguments)
        return Refusal(message="ask again later")

    artifact = run_session(data, voices, ledger=str(tmp_path / "log.db"), tools={"oracle": oracle})
    assert artifact.outcome.kind == "synthesis"
    assert asked == [{"year": 1969}]
    assert heard(voices) == ['{"error": "ask again later"}']


@pytest.mark.parametrize(
    ("tools", "panel", "said"),
    [
        ({}, {"critic": ["almanac"]}, "there is no tool 'almanac' .*write .tools.almanac."),
        ({"almanac": {"description": "x"}}, {"critic": ["almanac"]}, "write one of command"),
        ({"almanac": {**ALMANAC, "color": "red"}}, {"critic": ["almanac"]}, "color"),
        ({"almanac": {**ALMANAC, "url": "http://x"}}, {"critic": ["almanac"]}, "write one of command"),
        ({"almanac": ALMANAC}, {"nobody": ["almanac"]}, "tools must name agents of the panel"),
        ({"almanac": ALMANAC}, {"critic": "almanac"}, "tools must name agents of the panel"),
        ({"a b/c é": ALMANAC}, {"critic": ["a b/c é"]}, "the tool 'a b/c é' needs a name"),
        ({"a.b": ALMANAC}, {"critic": ["a.b"]}, "the tool 'a.b' needs a name"),
        ({"": ALMANAC}, {"critic": [""]}, "the tool '' needs a name"),
        ({"x" * 300: ALMANAC}, {"critic": ["x" * 300]}, "needs a name of 1 to 64"),
        ({"almanac": {**ALMANAC, "input_schema": {"type": "array"}}}, {"critic": ["almanac"]}, "must be object"),
    ],
)
def test_a_tool_that_makes_no_sense_is_refused(tools: Any, panel: Any, said: str, tmp_path: Path) -> None:
    found = settings(tmp_path, tools=tools, panels={"bench": {**PANELS["bench"], "tools": panel}})
    with pytest.raises(UsageError, match=said):
        panel_of(found, "bench")


@pytest.mark.parametrize(("name", "schema"), [("a.b", SCHEMA), ("oracle", {"type": "array"})])
def test_a_tool_that_no_provider_takes_is_refused_before_the_session(tmp_path: Path, name: str, schema: Any) -> None:
    data = plain_config().as_data()
    data["agents"][0]["tools"] = [{"name": name, "description": "Knows.", "input_schema": schema}]

    async def oracle(arguments: Mapping[str, Any]) -> object:
        return arguments

    with pytest.raises(UsageError, match=f"agent ada: .*tool .*{name}"):
        run_session(data, Voices(id="fake"), ledger=str(tmp_path / "log.db"), tools={name: oracle})


async def test_a_schema_that_cannot_be_kept_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    odd = {**ALMANAC, "input_schema": {"type": "object", "requried": []}}
    found = settings(tmp_path, tools={"almanac": odd})
    pool = Pool(found, {"voices": Voices()})
    with pytest.raises(UsageError, match=r"tool almanac: .*requried"):
        convening(found, pool, Call(problem="When?", panel=["panel:bench"]))
    assert tool_of(settings(tmp_path), "almanac").declared["name"] == "almanac"
