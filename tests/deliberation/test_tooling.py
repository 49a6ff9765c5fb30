"""Tools in a session: who is offered which, what is on the record before one runs, and what is left of it behind."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from deliberating import Room, config, synthesis, turn, verdict
from hansard.app.telling.compare import figures
from hansard.app.telling.deliberationviews import spent_on_record
from hansard.deliberation.documents import Config
from hansard.deliberation.pins import pinned
from hansard.deliberation.session import Sitting
from hansard.domain.exchange import Completion, Cost, ErrorKind, Exchange, ToolCall, Usage
from hansard.domain.fact import Fact
from hansard.errors import UsageError
from hansard.providers.base import Heard, answered, failure
from hansard.providers.secrets import Secrets
from hansard.providers.tools import MOST_CALLS, Handler, Refusal
from hansard.record.history import fold
from hansard.record.recorder import Recorded
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
            thought=[f"What of {self.arguments}?"] if wants else None,
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
        "thought": ["What of {'year': 1969}?"],
    }
    [result] = said(room, results[1].seq, "results")
    assert (result["name"], result["result"], result["error"]) == ("almanac", "Apollo 11", None)
    assert taken.data["tools"] == 2
    assert [event["result"] for event in said(room, taken.seq, "result")["tool_events"]] == ["Apollo 11"] * 2
    # Two batches and the answer: each call is counted once on the record, and all of them in the message.
    assert [entry.data["prompt_tokens"] for entry in (first, second, taken)] == [10, 10, 10]
    assert said(room, taken.seq, "message")["usage"]["total_tokens"] == 30


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


async def test_a_secret_that_a_model_writes_as_a_number_is_in_no_entry_and_leaves_json_behind() -> None:
    room = Room()
    curious, secrets = Curious(arguments={"year": 1234567890}), Secrets({"PIN": "1234567890"})
    await room.hold(armed(), curious, setting={**handled(), "secrets": secrets})
    kept = [room.store.body(entry.seq, part) for entry in room.facts() for part in entry.body]
    assert not any(b"1234567890" in body.body for body in kept if body)
    calls = room.store.body(room.facts("tools.called")[0].seq, "calls")
    assert calls is not None
    assert json.loads(calls.body)["calls"][0]["arguments"] == {"year": "[secret PIN]"}


async def test_a_schema_that_cannot_be_kept_is_refused_before_the_session() -> None:
    odd = {**ALMANAC, "input_schema": {"type": "object", "properties": {"a": {"patern": "x"}}}}
    with pytest.raises(UsageError, match=r"agent ada: the input of the tool almanac: .*patern"):
        await Room().hold(armed(odd), Curious(), setting=handled())


def counted(room: Room, sitting: Sitting) -> tuple[int, int, int]:
    """Calls, tokens and money, the same wherever one looks."""
    held, spent, run = sitting.held, spent_on_record(room.store, room.run), fold(room.facts()).runs[room.run]
    assert held is not None
    live = (held.calls, held.tokens, held.cost_usd_nano)
    assert (spent.calls, spent.tokens, spent.cost_usd_nano) == live
    # Nobody claims the run here: what a killed driver left under way is so still.
    assert (run.calls + len(run.calling), run.tokens, run.cost_usd_nano) == live
    assert figures(room.store, room.facts())["calls"] == run.calls
    return live


async def broken(_: Mapping[str, Any]) -> object:
    raise RuntimeError("no almanac here")


async def test_a_tool_that_fails_is_no_call_of_a_model() -> None:
    room, curious = Room(), Curious()
    sitting = await room.hold(armed(), curious, setting=handled(broken))
    assert sitting.reason == "provider_unrecoverable"
    assert len(curious.asked) == 1
    assert counted(room, sitting) == (1, 10, 0)
    [failed] = room.facts("turn.failed")
    assert (failed.data["calls"], failed.data["prompt_tokens"]) == (0, 0)


async def test_a_model_that_fails_behind_its_tools_was_called_once_more() -> None:
    room, curious = Room(), Curious(9)
    config = armed(max_tool_iterations=2, on_agent_failure="continue_without")
    sitting = await room.hold(config, curious, setting=handled())
    # Ada three times, ben, cyd, verdict, synthesis.
    assert counted(room, sitting) == (7, 70, 0)
    assert len(curious.asked) == 7
    assert "calls" not in room.facts("turn.failed")[0].data


async def test_a_session_that_is_cancelled_while_a_tool_runs_has_used_what_is_on_the_record() -> None:
    room, cancel = Room(), asyncio.Event()

    async def hangs(_: Mapping[str, Any]) -> object:
        cancel.set()
        await asyncio.Event().wait()
        raise AssertionError

    sitting = await room.hold(armed(), Curious(), setting=handled(hangs), cancel=cancel)
    assert sitting.reason == "user_cancel"
    assert counted(room, sitting) == (1, 10, 0)
    assert room.facts("turn.failed")[0].causes == (room.facts("turn.asked")[0].seq, room.facts("tools.called")[0].seq)


async def cut_off(room: Room, config: Config, provider: Curious) -> None:
    """Hold a session up to the first tool, as if the process was killed while that ran."""
    waits = asyncio.Event()

    async def hangs(_: Mapping[str, Any]) -> object:
        waits.set()
        await asyncio.Event().wait()
        raise AssertionError

    holding = asyncio.create_task(room.hold(config, provider, setting=handled(hangs)))
    await waits.wait()
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding


async def test_what_a_killed_session_has_used_for_tools_still_counts_when_it_goes_on() -> None:
    room, before, after = Room(), Curious(), Curious()
    await cut_off(room, armed(), before)
    sitting = await room.resume(after, setting=handled())
    assert sitting.reason == "synthesis"
    # Ada's call that was cut off; then ada twice, ben, cyd, verdict, synthesis.
    assert counted(room, sitting) == (7, 70, 0)
    assert len(before.asked) + len(after.asked) == 7
    assert sitting.artifact["cumulative_usage"]["total_tokens"] == 60


@pytest.mark.parametrize("cap", [{"max_total_tokens": 65}, {"per_agent_token_budget": {"ada": 25}}], ids=str)
@requirement("R-4.7-3")
async def test_a_cap_remembers_what_a_killed_session_has_used_for_tools(cap: dict[str, Any]) -> None:
    room = Room()
    config = armed()
    config = Config.parse({**config.as_data(), "budget": {**config.as_data()["budget"], **cap}})
    await cut_off(room, config, Curious())
    sitting = await room.resume(Curious(), setting=handled())
    assert sitting.reason == "budget_exceeded"
    counted(room, sitting)


async def killed(room: Room, at: int, hold: Callable[..., Coroutine[Any, Any, Sitting]]) -> Sitting | None:
    """What comes of a session that is killed when its run has so many entries; None where that was before its end."""

    def listen(recorded: Recorded[Fact]) -> None:
        if recorded.seq >= at and not room.facts("session.ended"):
            holding.cancel()

    holding = asyncio.create_task(hold(listener=listen))
    await asyncio.wait({holding})
    return None if holding.cancelled() else holding.result()


@requirement("R-4.7-3")
@pytest.mark.parametrize("is_killed", [False, True])
async def test_no_tool_runs_and_nobody_is_asked_once_a_call_for_tools_has_breached_a_cap(is_killed: bool) -> None:
    ran, room, curious = list[Any](), Room(), Curious(3)

    async def look(given: Mapping[str, Any]) -> str:
        ran.append(given)
        return ""

    data = armed().as_data()
    data["budget"]["max_total_tokens"] = 15
    at = 8 if is_killed else 1_000
    sitting = await killed(room, at, partial(room.hold, Config.parse(data), curious, setting=handled(look)))
    if is_killed:
        # Nothing is there behind the call that was too much.
        assert (sitting, room.facts()[-1].kind) == (None, "tools.called")
        sitting = await room.resume(curious, setting=handled(look))
    assert sitting is not None
    assert sitting.reason == "budget_exceeded"
    assert (len(curious.asked), len(ran)) == (2, 1)
    assert counted(room, sitting) == (2, 20, 0)


class Moody:
    """Wants tools, fails and answers as chance has it."""

    id, unmetered = "fake", False

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def describe(self) -> Mapping[str, str]:
        return {"name": "fake", "kind": "moody", "model": "m"}

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        await asyncio.sleep(0)
        heard.usage = Usage(input_tokens=self._chance.randrange(20), output_tokens=self._chance.randrange(20))
        mood = self._chance.random()
        wants, fails = bool(exchange.tools) and mood < 0.5, mood > 0.8
        kind: ErrorKind = self._chance.choice(("internal", "network", "malformed_response"))
        return Completion(
            provider="fake",
            requested_model="m",
            returned_model="m",
            structured=None if wants or fails else ANSWERS[exchange.schema_name].content,
            calls=(ToolCall(id="c", name="almanac", arguments={"year": 1969}),) if wants else (),
            finish="tool_call" if wants else "stop",
            failure=failure(kind, "not now") if fails else None,
            usage=heard.usage,
            cost=Cost(usd_nano=self._chance.randrange(1_000_000), basis="reported"),
        )

    async def look(self, _: Mapping[str, Any]) -> object:
        """The tool, which is no better."""
        await asyncio.sleep(0)
        if self._chance.random() < 0.2:
            raise RuntimeError("no almanac here")
        return Refusal(message="closed") if self._chance.random() < 0.2 else "Apollo 11"


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_happens_to_a_session_its_figures_are_those_of_the_record(seed: int) -> None:
    chance, room = Random(seed), Room()
    moody, cancel = Moody(chance), asyncio.Event()
    data = armed(on_agent_failure="continue_without", per_agent_retry_budget=2).as_data()
    for agent in data["agents"]:
        agent["tools"] = [ALMANAC]
    data["budget"]["max_total_tokens"] = chance.choice((60, 150, 500_000))
    how: dict[str, Any] = {"setting": handled(moody.look), "pins": pinned(seed=seed), "cancel": cancel}
    sitting = await killed(room, 4 + chance.randrange(30), partial(room.hold, Config.parse(data), moody, **how))
    while sitting is None:
        if chance.random() < 0.2:
            asyncio.get_running_loop().call_soon(cancel.set)
        sitting = await killed(room, len(room.facts()) + 2 + chance.randrange(30), partial(room.resume, moody, **how))
    # One that was killed while its end was written has no live figures.
    if sitting.held is not None:
        counted(room, sitting)
