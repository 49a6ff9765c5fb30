import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Cost, Exchange, Limits, Tool, ToolCall, ToolEvent, Usage
from hansard.errors import UsageError
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted
from providers.pretend import asking


def scripted(*entries: dict[str, Any], **fields: Any) -> Scripted:
    return Scripted(Script.of({"entries": list(entries), **fields}))


def by(text: str = "Well?", *, schema: Any = None, schema_name: str = "answer", **metadata: str | int) -> Exchange:
    return asking(text, schema=schema, schema_name=schema_name, metadata=metadata)


async def said(provider: Scripted, *asked: Exchange) -> list[str]:
    found = [await provider.complete(each) for each in asked]
    return [each.failure.message if each.failure else each.text for each in found]


# Keyed: each question takes the first unused entry that matches it.


async def test_a_question_takes_the_first_unused_entry_that_matches_it() -> None:
    provider = scripted(
        {"match": {"role": "worker", "task": "b"}, "text": "b"},
        {"match": {"role": "worker"}, "text": "first"},
        {"match": {"role": "worker"}, "text": "second"},
        {"match": {"role": "validator"}, "text": "fine"},
    )
    asked = [
        by(role="worker", task="a"),
        by(role="validator"),
        by(role="worker", task="b"),
        by(role="worker", task="c"),
    ]
    assert await said(provider, *asked) == ["first", "fine", "b", "second"]
    assert provider.report().ok


async def test_the_shape_that_is_asked_for_can_be_matched() -> None:
    provider = scripted({"match": {"schema": "plan"}, "structured": {}}, {"match": {}, "text": "prose"})
    assert await said(provider, by(), by(schema={}, schema_name="plan")) == ["prose", "{}"]


async def test_one_is_neither_the_text_1_nor_true() -> None:
    provider = scripted({"match": {"round": 1}, "text": "x"})
    for wrong in ("1", True):
        assert "no entry matches" in (await said(provider, by(round=wrong)))[0]
    assert await said(provider, by(round=1)) == ["x"]


async def test_an_entry_is_used_once_unless_the_script_loops() -> None:
    entries = ({"match": {"n": 1}, "text": "a"}, {"match": {"n": 1}, "text": "b"})
    assert await said(scripted(*entries), *[by(n=1)] * 3) == ["a", "b", "script: every matching entry was used"]
    assert await said(scripted(*entries, on_exhaustion="loop"), *[by(n=1)] * 5) == ["a", "b", "a", "b", "a"]


# Sequential: call N gets entry N, whose constraints are asserted. The deliberation protocol's rules.


async def test_call_n_gets_entry_n() -> None:
    provider = scripted({"text": "a"}, {"text": "b"}, mode="sequential", name="fake_provider_script")
    assert await said(provider, by(), by(), by()) == ["a", "b", "fake_provider_script: entries exhausted"]


async def test_a_sequence_that_loops_begins_again() -> None:
    provider = scripted({"text": "a"}, {"text": "b"}, mode="sequential", on_exhaustion="loop")
    assert await said(provider, *[by()] * 5) == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize("constraint", [{"agent_id": "critic"}, {"round": 2}, {"turn_index": 3}, {"schema": "verdict"}])
async def test_a_constraint_that_is_not_met_is_an_assertion_that_failed(constraint: dict[str, str | int]) -> None:
    provider = scripted(
        {"text": "a"}, {"match": constraint, "text": "b"}, mode="sequential", name="fake_provider_script"
    )
    asked = by(agent_id="logician", round=1, turn_index=2)
    completion = [await provider.complete(asked) for _ in range(2)][1]
    assert completion.failure is not None
    assert (completion.failure.kind, completion.failure.retryable) == ("internal", False)
    name = next(iter(constraint))
    assert completion.failure.message.startswith(f"fake_provider_script: match assertion failed at entry 2: {name}")
    assert provider.report().unused == (f"entry 2 {constraint}",)


# Whatever the mode.


async def test_everything_that_is_written_is_given_out_verbatim() -> None:
    entry = {
        "text": "hello",
        "finish": "length",
        "usage": {"input_tokens": 7, "output_tokens": 0, "cached_tokens": 2, "estimated": True},
        "cost_usd_nano": 20_600_000,
        "returned_model": "m-2026",
        "tool_events": [
            {"name": "search", "arguments": {"q": "x"}, "result": "y", "latency_us": 5},
            {"name": "search", "error": "too often"},
        ],
        "latency_us": 1234,
        "exit_code": 0,
        "output": "said",
        "stderr": "warned",
    }
    completion = await scripted(entry).complete(by())
    assert completion == Completion(
        provider="scripted",
        requested_model="scripted",
        returned_model="m-2026",
        text="hello",
        finish="length",
        usage=Usage(input_tokens=7, cached_tokens=2, estimated=True),
        cost=Cost(usd_nano=20_600_000, basis="estimate"),
        tool_events=(
            ToolEvent(name="search", arguments={"q": "x"}, result="y", latency_us=5),
            ToolEvent(name="search", arguments={}, error="too often"),
        ),
        latency_us=1234,
        exit_code=0,
        output=b"said",
        stderr=b"warned",
    )


async def test_a_usage_of_zero_that_is_written_stays_zero() -> None:
    provider = scripted({"text": "hello", "usage": {}}, {"text": "hello"}, mode="sequential")
    first, second = await provider.complete(by()), await provider.complete(by())
    assert first.usage == Usage()
    assert first.cost == Cost(basis="unmetered")
    assert second.usage.estimated


async def test_a_failure_is_given_out_with_its_usage() -> None:
    entry = {"failure": {"kind": "rate_limit", "retry_after_s": 2.5}, "usage": {"input_tokens": 9}}
    completion = await scripted(entry).complete(by())
    assert completion.failure is not None
    assert (completion.failure.kind, completion.failure.retryable, completion.failure.retry_after_s) == (
        "rate_limit",
        True,
        2.5,
    )
    assert completion.usage == Usage(input_tokens=9)


async def test_a_scripted_answer_is_held_to_the_shape_like_any_other() -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    provider = scripted({"structured": {"ok": "yes"}, "usage": {"input_tokens": 3, "output_tokens": 4}})
    completion = await provider.complete(by(schema=schema))
    assert completion.failure is not None
    assert completion.failure.kind == "malformed_response"
    assert completion.usage.total == 7


LOOK = Tool(name="look", description="Look at a place.", input_schema={"type": "object"})


async def test_an_entry_may_call_for_tools_that_the_question_offers() -> None:
    calls = [{"id": "c1", "name": "look", "arguments": {"at": ["Paris"]}}, {"name": "look"}]
    provider = scripted({"text": "One moment.", "calls": calls}, {"text": "It rains."}, mode="sequential")
    first = await provider.complete(asking(tools=(LOOK,), schema={"type": "object"}))
    assert (first.failure, first.finish, first.text) == (None, "tool_call", "One moment.")
    assert first.calls == (
        ToolCall(id="c1", name="look", arguments={"at": ["Paris"]}),
        ToolCall(id="call_2", name="look", arguments={}),
    )
    assert (await provider.complete(asking(tools=(LOOK,)))).text == "It rains."


async def test_a_scripted_call_that_nobody_offered_is_a_tool_failure() -> None:
    completion = await scripted({"calls": [{"name": "look"}]}).complete(by())
    assert completion.failure is not None
    assert (completion.failure.kind, completion.calls) == ("tool_failure", ())


async def test_a_scripted_call_may_have_broken_arguments() -> None:
    provider = scripted({"calls": [{"id": "c1", "name": "look", "arguments": '{"at'}]})
    assert (await provider.complete(asking(tools=(LOOK,)))).calls == (ToolCall(id="c1", name="look", arguments='{"at'),)


async def test_nobody_can_change_the_script_through_an_answer() -> None:
    provider = scripted({"structured": {"list": [1]}}, on_exhaustion="loop")
    first = await provider.complete(by())
    first.structured["list"].append(2)
    assert (await provider.complete(by())).structured == {"list": [1]}


async def test_nobody_can_change_the_script_through_a_call_or_a_failure() -> None:
    calls = [{"id": "c1", "name": "look", "arguments": {"at": [1]}}]
    provider = scripted(
        {"calls": calls}, {"failure": {"kind": "network", "details": {"tries": [1]}}}, on_exhaustion="loop"
    )
    for _ in range(2):
        called, failed = await provider.complete(asking(tools=(LOOK,))), await provider.complete(by())
        assert called.calls[0].arguments == {"at": [1]}
        called.calls[0].arguments["at"].append(2)
        assert failed.failure is not None
        assert failed.failure.details == {"tries": [1]}
        failed.failure.details["tries"].append(2)


async def test_an_answer_takes_its_time_and_a_deadline_ends_it() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    patient = Scripted(Script.of({"entries": [{"text": "a", "latency_s": 1.5}]}), sleep=sleep)
    assert (await patient.complete(by())).ok
    assert slept == [1.5]
    slow = scripted({"text": "a", "latency_s": 3600})
    completion = await slow.complete(asking(limits=Limits(timeout_s=0.02)))
    assert completion.failure is not None
    assert completion.failure.kind == "timeout"
    assert slow.in_flight == 0


async def test_calls_at_once_are_counted_and_refused_where_one_at_a_time_is_the_rule() -> None:
    script = Script.of({"entries": [{"text": "a", "latency_s": 0.01}], "on_exhaustion": "loop"})
    free, strict = Scripted(script), Scripted(script, one_at_a_time=True)
    for provider, good in ((free, 3), (strict, 1)):
        found = await asyncio.gather(*(provider.complete(by()) for _ in range(3)))
        assert sum(each.ok for each in found) == good
        assert provider.report().peak > 1


async def test_the_report_tells_what_nobody_asked_for_and_what_had_no_answer() -> None:
    provider = scripted({"match": {"task": "t1"}, "text": "a"}, {"match": {"task": "t2"}, "text": "b"})
    await said(provider, by(task="t1"), by(task="t3", role="worker"))
    report = provider.report()
    assert not report.ok
    assert report.unused == ("entry 2 {'task': 't2'}",)
    assert report.missing == ("call 2 {'task': 't3', 'role': 'worker'}: no entry matches",)
    assert str(report).splitlines()[0] == "2 calls, at most 1 at once"
    assert [dict(each.metadata) for each in provider.calls] == [{"task": "t1"}, {"task": "t3", "role": "worker"}]


async def test_the_same_questions_get_the_same_answers() -> None:
    entries = [{"match": {"n": n % 3}, "text": str(n)} for n in range(9)]
    asked = [by(n=n % 3) for n in (2, 0, 1, 1, 2, 0, 0)]
    assert await said(scripted(*entries), *asked) == await said(scripted(*entries), *asked)


# Reading.


def test_a_script_reads_the_same_from_json_and_toml(tmp_path: Path) -> None:
    table = {
        "mode": "sequential",
        "entries": [{"match": {"role": "worker", "turn": 1}, "text": "hi", "latency_s": 0.5}],
    }
    (tmp_path / "s.json").write_text(json.dumps(table))
    (tmp_path / "s.toml").write_text(
        'mode = "sequential"\n[[entries]]\nmatch = { role = "worker", turn = 1 }\ntext = "hi"\nlatency_s = 0.5\n'
    )
    script = Script.of(table)
    assert Script.load(tmp_path / "s.json") == Script.load(tmp_path / "s.toml") == script
    assert script.entries[0].reply.text == "hi"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"entries": []}, "at least one answer"),
        ({}, "at least one answer"),
        ([], "must be a table"),
        ({"entries": {}}, "a list of tables"),
        ({"entries": ["x"]}, "entries 1: must be a table"),
        ({"entries": [{"text": "a"}, {"txt": "b"}]}, "entries 2: unknown key txt; did you mean text?"),
        ({"entries": [{"text": 3}]}, "entries 1: text must be a text"),
        ({"entries": [{"finish": "done"}]}, "finish must be one of"),
        ({"entries": [{"failure": {"kind": "bad"}}]}, "kind must be one of"),
        ({"entries": [{"failure": {"knd": "network"}}]}, "failure: unknown key knd"),
        ({"entries": [{"calls": {"name": "look"}}]}, "calls must be a list of tables"),
        ({"entries": [{"calls": [{"name": "look", "args": {}}]}]}, "entries 1, calls 1: unknown key args"),
        ({"entries": [{"calls": [{"id": "c1"}]}]}, "calls 1: a call needs the name of a tool"),
        ({"entries": [{"calls": [{"id": "", "name": "look"}]}]}, "an id that is not empty"),
        ({"entries": [{"usage": {"input_tokens": -1}}]}, "input_tokens must be a whole number from 0"),
        ({"entries": [{"usage": {"input_tokens": True}}]}, "input_tokens must be a whole number from 0"),
        ({"entries": [{"latency_s": float("nan")}]}, "latency_s must be a number from 0"),
        ({"entries": [{"match": {"round": 1.5}}]}, "match.round must be a text or a whole number"),
        ({"entries": [{"match": "worker"}]}, "match must be a table"),
        ({"entries": [{}], "mode": "random"}, "mode must be one of"),
        ({"entries": [{}], "loop": True}, "unknown key loop"),
    ],
    ids=str,
)
def test_a_script_that_makes_no_sense_is_refused_and_the_place_is_named(table: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        Script.of(table, where="demo.toml")
    assert str(refused.value).startswith("demo.toml")
    assert words in str(refused.value)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, None])
def test_a_script_that_cannot_be_read_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"cannot read the script .*s\.json"):
        Script.load(path)
