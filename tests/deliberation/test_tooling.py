"""Tools in a session: who is offered which, what is on the record before one runs, and what is left of it behind."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deliberating import Room, config, synthesis, turn, verdict
from hansard.deliberation.documents import Config
from hansard.domain.exchange import Completion, Exchange, ToolCall, Usage
from hansard.errors import UsageError
from hansard.providers.base import Heard, answered
from hansard.providers.secrets import Secrets
from hansard.providers.tools import MOST_CALLS, Handler
from hansard.store.base import StoredBody

requirement = pytest.mark.requirement
SCHEMA = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
ALMANAC = {"name": "almanac", "description": "What happened in a year.", "input_schema": SCHEMA}
ANSWERS = {"turn_structured_output": turn(), "verdict": verdict("finalize"), "synthesis_content": synthesis()}


def armed(*tools: dict[str, Any], **runtime: Any) -> Config:
    """A session in which ada may use tools, and nobody else."""
    data = config(**runtime).as_data()
    data["agents"][0]["tools"] = list(tools or (ALMANAC,))
    return Config.parse(data)


class Curious:
    """Looks into the almanac so many times before it answers, wherever it is offered."""

    id, unmetered = "fake", True

    def __init__(self, times: int = 1, arguments: Any = None, *, name: str = "almanac", calls: int = 1) -> None:
        self.times, self.arguments = times, arguments or {"year": 1969}
        self.name, self.calls = name, calls
        self.asked: list[Exchange] = []

    def describe(self) -> Mapping[str, str]:
        return {"name": "fake", "kind": "curious", "model": "m"}

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        self.asked.append(exchange)
        looked = sum(message.role == "tool" for message in exchange.messages)
        calls = tuple(
            ToolCall(id=f"c{looked + place}", name=self.name, arguments=self.arguments) for place in range(self.calls)
        )
        wants = bool(exchange.tools) and looked < self.times
        heard.usage = Usage(input_tokens=10)
        return Completion(
            provider="fake",
            requested_model="m",
            returned_model="m",
            text="Let me see." if wants else "",
            structured=None if wants else ANSWERS[exchange.schema_name].content,
            calls=calls if wants else (),
            finish="tool_call" if wants else "stop",
            usage=heard.usage,
        )


async def apollo(_: Mapping[str, Any]) -> object:
    return {"event": "Apollo 11"}


def handled(handler: Handler = apollo) -> dict[str, Any]:
    return {"handlers": {"almanac": handler}}


def said(room: Room, seq: int, part: str) -> Any:
    body = room.store.body(seq, part)
    assert isinstance(body, StoredBody)
    return json.loads(body.body)


async def test_the_calls_are_on_the_record_before_a_tool_runs_and_the_results_behind_them() -> None:
    room, seen = Room(), list[str]()

    async def look(_: Mapping[str, Any]) -> str:
        seen.append(room.facts()[-1].kind)
        return "Apollo 11"

    sitting = await room.hold(armed(), Curious(2), setting=handled(look))
    assert sitting.reason == "synthesis"
    assert seen == ["tools.called"] * 2
    asked, taken = room.facts("turn.asked")[0], room.facts("turn.taken")[1]
    first, second = room.facts("tools.called")
    results = room.facts("tools.returned")
    assert (first.causes, results[0].causes) == ((asked.seq,), (first.seq,))
    assert (second.causes, results[1].causes) == ((results[0].seq,), (second.seq,))
    assert taken.causes == (asked.seq, results[1].seq)
    assert (first.data["agent"], first.data["iteration"], first.data["tools"]) == ("ada", 1, ["almanac"])
    assert said(room, first.seq, "calls") == {
        "text": "Let me see.",
        "calls": [{"id": "c0", "name": "almanac", "arguments": {"year": 1969}}],
    }
    [result] = said(room, results[1].seq, "results")
    assert (result["name"], result["result"], result["error"]) == ("almanac", "Apollo 11", None)
    assert taken.data["tools"] == 2
    assert [event["result"] for event in said(room, taken.seq, "result")["tool_events"]] == ["Apollo 11"] * 2
    # Two batches and the answer: all three calls are counted.
    assert taken.data["prompt_tokens"] == 30


async def test_only_those_are_offered_a_tool_who_declare_it_and_only_if_somebody_runs_it() -> None:
    curious = Curious()
    await Room().hold(armed(), curious, setting=handled())
    offered = {str(exchange.metadata["agent_id"]): [tool.name for tool in exchange.tools] for exchange in curious.asked}
    assert offered == {"ada": ["almanac"], "ben": [], "cyd": [], "chair": []}
    alone, room = Curious(), Room()
    await room.hold(armed(), alone)
    assert not any(exchange.tools for exchange in alone.asked)
    assert room.facts("tools.called") == []


@requirement("R-6.4-3")
@pytest.mark.parametrize("arguments", [{"year": "soon"}, {"month": 7}, "1969"], ids=repr)
async def test_a_bad_call_fails_the_turn_and_costs_the_agent_its_seat(arguments: Any) -> None:
    ran, room = list[Any](), Room()

    async def look(given: Mapping[str, Any]) -> str:
        ran.append(given)
        return ""

    curious = Curious(arguments=arguments)
    sitting = await room.hold(armed(on_agent_failure="continue_without"), curious, setting=handled(look))
    assert sitting.reason == "synthesis"
    assert ran == []
    [failed] = room.facts("turn.failed")
    assert (failed.data["error"], failed.data["agent"]) == ("tool_failure", "ada")
    assert failed.causes[0] == room.facts("turn.asked")[0].seq
    assert [each.data["type"] for each in room.facts("turn.taken")][1] == "panel_contraction"


@requirement("R-6.4-3")
async def test_the_configuration_says_how_often_tools_may_be_asked_for() -> None:
    room = Room()
    config = armed(max_tool_iterations=2, on_agent_failure="continue_without")
    await room.hold(config, Curious(3), setting=handled())
    assert len(room.facts("tools.returned")) == 2
    assert [entry.data["error"] for entry in room.facts("turn.failed")] == ["tool_failure"]


async def test_the_directory_keeps_what_tools_did_by_the_id_of_the_message(tmp_path: Path) -> None:
    room = Room()
    sitting = await room.hold(armed(), Curious(), setting=handled(), runs=tmp_path)
    assert sitting.fault is None
    [line] = [json.loads(each) for each in (tmp_path / "s-1" / "tool_events.jsonl").read_bytes().splitlines()]
    assert line["message_id"] == sitting.artifact["canonical_transcript"][1]["id"]
    assert [(event["name"], event["arguments"]) for event in line["tool_events"]] == [("almanac", {"year": 1969})]
    events = [json.loads(each) for each in (tmp_path / "s-1" / "observability.jsonl").read_bytes().splitlines()]
    assert [event["tools"] for event in events if event["event"] == "tools.called"] == [["almanac"]]
    plain = await Room().hold(config(), Curious(), runs=tmp_path / "plain")
    assert plain.directory is not None
    assert not (plain.directory / "tool_events.jsonl").exists()


async def test_a_session_that_is_cut_off_while_a_tool_runs_goes_on_and_loses_nothing_of_what_came_before(
    tmp_path: Path,
) -> None:
    room, calls, waits = Room(), list[int](), asyncio.Event()

    async def stuck(_: Mapping[str, Any]) -> object:
        calls.append(len(calls))
        if len(calls) == 2:
            waits.set()
            await asyncio.Event().wait()
        return "Apollo 11"

    data = armed().as_data()
    data["agents"][1]["tools"] = [ALMANAC]
    holding = asyncio.create_task(room.hold(Config.parse(data), Curious(), setting=handled(stuck), runs=tmp_path))
    await waits.wait()
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    # Whoever goes on has no tools: what ada's did is still told.
    sitting = await room.resume(Curious(), runs=tmp_path)
    assert sitting.reason == "synthesis"
    assert sitting.fault is None
    lines = (tmp_path / "s-1" / "tool_events.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["message_id"] for line in lines] == [sitting.artifact["canonical_transcript"][1]["id"]]
    kinds = [entry.kind for entry in room.facts()]
    assert (kinds.count("tools.called"), kinds.count("tools.returned")) == (2, 1)


@pytest.mark.parametrize(
    "name", ["x" * 10_000, "\U0001f600" * 64, "\x1b" * 64, ""], ids=["long", "wide", "control", "empty"]
)
async def test_whatever_a_model_calls_its_tools_can_be_recorded(name: str) -> None:
    room = Room()
    curious = Curious(name=name, calls=MOST_CALLS)
    sitting = await room.hold(armed(on_agent_failure="continue_without"), curious, setting=handled())
    assert sitting.reason == "synthesis"
    assert [entry.data["error"] for entry in room.facts("turn.failed")] == ["tool_failure"]
    assert len(room.facts("tools.called")[0].data["tools"]) == MOST_CALLS


async def test_secrets_are_taken_out_of_calls_and_results() -> None:
    async def leak(_: Mapping[str, Any]) -> str:
        return "the key is hunter2-hunter2"

    room = Room()
    curious = Curious(arguments={"year": 1, "note": "hunter2-hunter2"})
    secrets = Secrets({"KEY": "hunter2-hunter2"})
    await room.hold(armed(), curious, setting={**handled(leak), "secrets": secrets})
    kept = [room.store.body(entry.seq, part) for entry in room.facts() for part in entry.body]
    assert kept
    assert not any(b"hunter2" in body.body for body in kept if body)
    assert not any("hunter2" in message.content for exchange in curious.asked for message in exchange.messages)


async def test_a_schema_that_cannot_be_kept_is_refused_before_the_session() -> None:
    odd = {**ALMANAC, "input_schema": {"type": "object", "properties": {"a": {"patern": "x"}}}}
    with pytest.raises(UsageError, match=r"agent ada, tool almanac: .*patern"):
        await Room().hold(armed(odd), Curious(), setting=handled())
