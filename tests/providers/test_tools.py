"""Tools of the host: what is checked before one runs, what the model hears, and what ends an answer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hansard.domain.exchange import (
    Completion,
    Cost,
    Exchange,
    Failure,
    Limits,
    Message,
    Tool,
    ToolCall,
    ToolEvent,
    Usage,
)
from hansard.providers.base import Heard, answered, failure
from hansard.providers.tools import MOST_CALLS, MOST_REASON, MOST_RESULT_BYTES, Refusal, Toolbox, with_tools

requirement = pytest.mark.requirement
SCHEMA = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
ALMANAC = Tool(name="almanac", description="What happened in a year.", input_schema=SCHEMA)
Asked = tuple[str, Any]


class Model:
    """Asks for these batches of tools one after the other, and then answers."""

    id, unmetered = "model", False

    def __init__(self, *batches: Sequence[Asked]) -> None:
        self.batches, self.asked = list(batches), list[Exchange]()

    def describe(self) -> Mapping[str, str]:
        return {"name": "model", "kind": "test", "model": "m"}

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        number = len(self.asked)
        self.asked.append(exchange)
        heard.usage = Usage(input_tokens=10, output_tokens=1)
        batch = self.batches[number] if number < len(self.batches) else ()
        calls = tuple(
            ToolCall(id=f"c{number}.{place}", name=name, arguments=arguments)
            for place, (name, arguments) in enumerate(batch)
        )
        return Completion(
            provider="model",
            requested_model="m",
            returned_model="m",
            text="" if calls else "done",
            finish="tool_call" if calls else "stop",
            calls=calls,
            thought={"of": number} if calls else None,
            usage=heard.usage,
            cost=Cost(usd_nano=5, basis="price_table"),
            latency_us=1_000,
        )


class Log:
    """Hears of tools."""

    def __init__(self, refuses: Failure | None = None) -> None:
        self.heard: list[tuple[str, int, Any]] = []
        self.input_tokens, self.asks_again, self.refuses = 0, True, refuses

    async def called(self, iteration: int, completion: Completion) -> Failure | None:
        self.heard.append(("called", iteration, [call.name for call in completion.calls]))
        self.input_tokens += completion.usage.input_tokens
        return self.refuses

    async def returned(self, iteration: int, events: Sequence[ToolEvent], *, asks_again: bool) -> None:
        self.heard.append(("returned", iteration, [(event.name, event.result, event.error) for event in events]))
        self.asks_again = asks_again


class Almanac:
    """Knows one year, and how often it was asked."""

    def __init__(self, gives: object = "the moon landing") -> None:
        self.gives, self.years = gives, list[int]()

    async def __call__(self, arguments: Mapping[str, Any]) -> object:
        self.years.append(arguments["year"])
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives


async def ask(model: Model, handler: Any = None, *, most: int = 8, log: Log | None = None, **more: Any) -> Completion:
    exchange = Exchange(messages=(Message(role="user", content="when?"),), tools=(ALMANAC,), **more)
    handlers = {"almanac": handler} if handler else {}
    return await with_tools(model, exchange, Toolbox(handlers=handlers, most_iterations=most), log or Log())


async def test_a_model_hears_what_its_tool_gave_under_the_id_of_its_call() -> None:
    model, almanac, log = Model([("almanac", {"year": 1969})]), Almanac(), Log()
    answer = await ask(model, almanac, log=log)
    assert (answer.ok, answer.text, answer.finish, answer.calls) == (True, "done", "stop", ())
    assert almanac.years == [1969]
    asked, said = model.asked[1].messages[-2:]
    assert asked == Message(
        role="assistant",
        content="",
        calls=(ToolCall(id="c0.0", name="almanac", arguments={"year": 1969}),),
        thought={"of": 0},
    )
    assert said == Message(role="tool", content="the moon landing", name="almanac", call_id="c0.0")
    [event] = answer.tool_events
    assert (event.name, event.arguments, event.result, event.error) == (
        "almanac",
        {"year": 1969},
        "the moon landing",
        None,
    )
    assert log.heard == [
        ("called", 1, ["almanac"]),
        ("returned", 1, [("almanac", "the moon landing", None)]),
    ]


async def test_what_each_call_took_is_told_once() -> None:
    log = Log()
    answer = await ask(Model([("almanac", {"year": 1})], [("almanac", {"year": 2})]), Almanac(), log=log)
    assert answer.usage == Usage(input_tokens=10, output_tokens=1)
    assert answer.cost == Cost(usd_nano=5, basis="price_table")
    assert (log.input_tokens, log.asks_again) == (20, True)


async def test_an_answer_took_as_long_as_all_its_calls() -> None:
    answer = await ask(Model([("almanac", {"year": 1})], [("almanac", {"year": 2})]), Almanac())
    assert answer.latency_us == 3_000


async def test_a_witness_may_keep_tools_from_running() -> None:
    almanac, log = Almanac(), Log(refuses=failure("internal", "that was the last of it"))
    answer = await ask(Model([("almanac", {"year": 1})]), almanac, log=log)
    assert (answer.failure, answer.calls, answer.tool_events) == (log.refuses, (), ())
    assert (answer.usage, answer.cost) == (Usage(), Cost(basis="price_table"))
    assert almanac.years == []
    assert log.heard == [("called", 1, ["almanac"])]


async def test_without_a_call_nothing_is_different() -> None:
    log = Log()
    answer = await ask(Model(), Almanac(), log=log)
    assert (answer.text, answer.tool_events, log.heard) == ("done", (), [])


@requirement("R-6.4-2")
async def test_a_batch_runs_in_its_order_and_every_event_is_kept() -> None:
    model, almanac = Model([("almanac", {"year": year}) for year in (3, 1, 2)], [("almanac", {"year": 3})]), Almanac()
    answer = await ask(model, almanac)
    assert almanac.years == [3, 1, 2, 3]
    assert [event.arguments["year"] for event in answer.tool_events] == [3, 1, 2, 3]
    assert [message.call_id for message in model.asked[1].messages[-3:]] == ["c0.0", "c0.1", "c0.2"]


@requirement("R-2.8-3", "R-8.7-1", "R-6.4-3")
@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ([("almanac", {"year": "soon"})], "do not fit its schema: /year: must be integer"),
        ([("almanac", {})], "year"),
        ([("almanac", "1969")], "no JSON object"),
        ([("almanac", [1969])], "no JSON object"),
        ([("oracle", {"year": 1969})], "'oracle', which was not offered"),
        ([("almanac", {"year": 1969}), ("almanac", {"year": None})], "do not fit"),
    ],
)
async def test_a_call_that_is_wrong_reaches_no_handler_and_ends_the_answer(batch: list[Asked], said: str) -> None:
    almanac, model = Almanac(), Model(batch)
    answer = await ask(model, almanac)
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.retryable, answer.finish) == ("tool_failure", False, "error")
    assert said in answer.failure.message
    assert almanac.years == []
    assert len(model.asked) == 1
    assert [event.error for event in answer.tool_events] == [answer.failure.message]


@requirement("R-6.4-3")
async def test_a_tool_without_a_handler_or_with_one_that_raises_ends_the_answer() -> None:
    alone = await ask(Model([("almanac", {"year": 1})]))
    assert alone.failure is not None
    assert (alone.failure.kind, alone.failure.message) == ("tool_failure", "the tool almanac has no handler")
    almanac = Almanac(KeyError("no such year"))
    log = Log()
    raised = await ask(Model([("almanac", {"year": 1}), ("almanac", {"year": 2})]), almanac, log=log)
    assert raised.failure is not None
    assert raised.failure.kind == "tool_failure"
    assert "raised KeyError: 'no such year'" in raised.failure.message
    assert almanac.years == [1]
    assert (raised.usage.input_tokens, log.input_tokens, log.asks_again) == (0, 10, False)


class Panic(BaseException):
    """What libraries in other languages raise where they break."""


@pytest.mark.parametrize("error", [SystemExit, Panic])
async def test_a_handler_that_would_end_the_process_ends_the_answer_alone(error: type[BaseException]) -> None:
    left = await ask(Model([("almanac", {"year": 1})]), Almanac(error("usage: almanac [-h]")))
    assert left.failure is not None
    assert (left.failure.kind, left.failure.message) == (
        "tool_failure",
        f"the tool almanac raised {error.__name__}: usage: almanac [-h]",
    )


class Mute(Exception):
    """An error that fails when it is to say what it is."""

    def __str__(self) -> str:
        raise AttributeError("response")


async def test_an_error_of_a_handler_that_cannot_say_what_it_is_ends_the_answer_alone() -> None:
    left = await ask(Model([("almanac", {"year": 1})]), Almanac(Mute()))
    assert left.failure is not None
    assert left.failure.message == "the tool almanac raised Mute"


@requirement("R-6.4-3")
async def test_a_handler_that_refuses_lets_the_model_go_on() -> None:
    model = Model([("almanac", {"year": 1})])
    answer = await ask(model, Almanac(Refusal(message="before our time")))
    assert answer.ok
    assert model.asked[1].messages[-1].content == '{"error": "before our time"}'
    assert [(event.result, event.error) for event in answer.tool_events] == [(None, "before our time")]


@requirement("R-6.4-3")
async def test_so_many_batches_may_be_asked_for_and_not_one_more() -> None:
    def wanting(count: int) -> Model:
        return Model(*[[("almanac", {"year": 1}), ("almanac", {"year": 2})]] * count)

    assert (await ask(wanting(3), Almanac(), most=3)).ok
    almanac, log = Almanac(), Log()
    answer = await ask(wanting(4), almanac, most=3, log=log)
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == (
        "tool_failure",
        "the model asked for tools more than 3 times",
    )
    assert len(almanac.years) == 6
    assert (answer.usage.input_tokens, log.input_tokens) == (10, 30)


@pytest.mark.parametrize(
    ("gives", "content"),
    [
        ({"event": "Apollo 11", "n": 1}, '{"event": "Apollo 11", "n": 1}'),
        (None, "null"),
        ([1, 2], "[1, 2]"),
        (7, "7"),
        ("\ud800", "?"),
        ({1, 2}, '"{1, 2}"'),
    ],
    ids=repr,
)
async def test_whatever_a_handler_gives_is_text_for_the_model(gives: object, content: str) -> None:
    model = Model([("almanac", {"year": 1})])
    assert (await ask(model, Almanac(gives))).ok
    assert model.asked[1].messages[-1].content == content


async def test_a_result_that_is_too_large_is_not_given_to_a_model() -> None:
    model = Model([("almanac", {"year": 1})])
    assert (await ask(model, Almanac("x" * (MOST_RESULT_BYTES + 1)))).ok
    assert f"at most {MOST_RESULT_BYTES}" in model.asked[1].messages[-1].content
    largest = Model([("almanac", {"year": 1})])
    await ask(largest, Almanac("x" * MOST_RESULT_BYTES))
    assert largest.asked[1].messages[-1].content == "x" * MOST_RESULT_BYTES


async def test_no_secret_reaches_the_model_or_the_record_through_a_tool() -> None:
    def clean(text: str) -> str:
        return text.replace("s3cret", "[secret KEY]")

    model, log = Model([("almanac", {"year": 1})]), Log()
    exchange = Exchange(messages=(Message(role="user", content="when?"),), tools=(ALMANAC,))
    box = Toolbox(handlers={"almanac": Almanac("key: s3cret")}, clean=clean)
    answer = await with_tools(model, exchange, box, log)
    assert "s3cret" not in repr((model.asked, answer, log.heard))
    raising = Toolbox(handlers={"almanac": Almanac(ValueError("s3cret"))}, clean=clean)
    assert "s3cret" not in repr(await with_tools(Model([("almanac", {"year": 1})]), exchange, raising, log))


async def test_the_time_limit_is_for_the_whole_answer() -> None:
    async def slow(_: Mapping[str, Any]) -> str:
        await asyncio.sleep(60)
        return "late"

    answer = await ask(Model([("almanac", {"year": 1})]), slow, limits=Limits(timeout_s=0.05))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == ("timeout", "the tool almanac did not end in time")


async def test_a_handler_may_take_a_while() -> None:
    async def looks_it_up(_: Mapping[str, Any]) -> str:
        await asyncio.sleep(0.01)
        return "found"

    [event] = (await ask(Model([("almanac", {"year": 1})]), looks_it_up)).tool_events
    assert (event.result, event.error) == ("found", None)


class Odd:
    """Cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def ring() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


WORDLESS: Any = Odd()


@pytest.mark.parametrize("gives", [ring(), WORDLESS, Refusal(message=WORDLESS), {"a": WORDLESS}], ids=type)
async def test_a_result_that_is_none_ends_the_answer_and_nothing_else(gives: object) -> None:
    answer = await ask(Model([("almanac", {"year": 1})]), Almanac(gives))
    assert answer.failure is not None
    assert answer.failure.kind == "tool_failure"


async def test_a_reason_is_as_long_as_anybody_reads_and_can_be_recorded() -> None:
    model = Model([("almanac", {"year": 1})])
    [event] = (await ask(model, Almanac(Refusal(message="\ud800" + "x" * 10**6)))).tool_events
    assert event.error == "?" + "x" * (MOST_REASON - 1)
    raised = await ask(Model([("almanac", {"year": 1})]), Almanac(ValueError("x" * 10**6)))
    assert raised.failure is not None
    assert len(raised.failure.message) < MOST_REASON + 100


async def test_a_handler_cannot_change_what_was_asked_for() -> None:
    async def greedy(arguments: dict[str, Any]) -> str:
        arguments["year"] = 2
        return "done"

    model = Model([("almanac", {"year": 1})])
    [event] = (await ask(model, greedy)).tool_events
    assert event.arguments == {"year": 1}
    assert model.asked[1].messages[-2].calls[0].arguments == {"year": 1}


async def test_a_batch_has_a_size_that_the_record_can_hold() -> None:
    almanac, log = Almanac(), Log()
    answer = await ask(Model([("almanac", {"year": 1})] * (MOST_CALLS + 1)), almanac, log=log)
    assert answer.failure is not None
    assert (answer.failure.kind, almanac.years, log.heard) == ("tool_failure", [], [])
    assert (await ask(Model([("almanac", {"year": 1})] * MOST_CALLS), almanac)).ok


async def test_a_handler_that_cancels_itself_ends_the_answer_and_nobody_else() -> None:
    async def giving_up(_: Mapping[str, Any]) -> str:
        raise asyncio.CancelledError

    answer = await ask(Model([("almanac", {"year": 1})]), giving_up)
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == (
        "tool_failure",
        "the tool almanac was cancelled from inside",
    )


async def test_a_handler_is_ended_when_the_answer_is_cancelled() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def stuck(_: Mapping[str, Any]) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    asking = asyncio.create_task(ask(Model([("almanac", {"year": 1})]), stuck))
    await started.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ended.is_set()
