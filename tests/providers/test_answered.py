import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from hansard.errors import ProviderError
from hansard.providers.base import Answering, Heard, Provider, answered, failure, keeps_the_contract
from hansard.providers.checks import MOST_NAME, MOST_TOKENS, MOST_USD_NANO
from providers.pretend import Doing, asking, says

SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def answer(do: Callable[[Exchange], Any], exchange: Exchange | None = None) -> Completion:
    async def doing(asked: Exchange) -> Any:
        return do(asked)

    return await Answering(Doing(doing)).complete(exchange or asking())


def why(completion: Completion) -> Failure:
    assert completion.failure is not None
    return completion.failure


def test_what_answered_gives_back_is_a_provider_to_every_type_checker() -> None:
    # It has no names of arguments and is not declared `async`, and it decorates a class that is not finished yet.
    assert not inspect.iscoroutinefunction(Provider.complete)
    _, exchange = inspect.signature(Provider.complete).parameters.values()
    assert exchange.kind is inspect.Parameter.POSITIONAL_ONLY
    takes, _ = get_args(get_type_hints(answered)["complete"])
    assert takes[0] is Any


async def test_a_good_answer_passes_as_it_is() -> None:
    said = says(
        "Yes.", usage=Usage(input_tokens=3, output_tokens=1), latency_us=5, cost=Cost(usd_nano=7, basis="reported")
    )
    assert await answer(lambda _: said) == said


@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), ProviderError("boom"), KeyError("boom"), RecursionError("boom")]
)
async def test_an_exception_becomes_a_failure(error: Exception) -> None:
    def do(_: Exchange) -> Completion:
        raise error

    completion = await answer(do)
    assert (why(completion).kind, why(completion).retryable, completion.finish) == ("internal", False, "error")
    assert "boom" in why(completion).message
    assert completion.usage == Usage()


async def test_somebody_elses_timeout_is_a_timeout() -> None:
    def do(_: Exchange) -> Completion:
        raise TimeoutError("read timed out")

    assert why(await answer(do)).kind == "timeout"


async def test_a_cancellation_from_inside_does_not_end_the_caller() -> None:
    def do(_: Exchange) -> Completion:
        raise asyncio.CancelledError

    assert why(await answer(do)).kind == "internal"


async def test_a_provider_that_would_end_the_program_fails_by_itself() -> None:
    def do(_: Exchange) -> Completion:
        raise SystemExit("usage: mine [-h]")

    failure = why(await answer(do))
    assert (failure.kind, failure.message) == ("internal", "SystemExit: usage: mine [-h]")


async def test_a_provider_whose_library_breaks_beyond_every_exception_fails_by_itself() -> None:
    class Panic(BaseException):
        """What libraries in other languages raise where they break."""

    def do(_: Exchange) -> Completion:
        raise Panic("at lib.rs:1")

    failure = why(await answer(do))
    assert (failure.kind, failure.message) == ("internal", "Panic: at lib.rs:1")


async def test_an_error_that_cannot_say_what_it_is_is_told_by_its_name() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise AttributeError("response")

    def do(_: Exchange) -> Completion:
        raise Mute

    assert why(await answer(do)).message == "Mute"


async def test_interrupts_pass() -> None:
    def do(_: Exchange) -> Completion:
        raise GeneratorExit

    with pytest.raises(GeneratorExit):
        await answer(do)


@pytest.mark.parametrize("nonsense", [None, "Paris.", {"text": "Paris."}, says(None), says("x", usage=None)], ids=str)  # type: ignore[arg-type]
async def test_what_is_no_completion_is_a_failure(nonsense: Any) -> None:
    completion = await answer(lambda _: nonsense)
    assert why(completion).kind == "internal"
    assert completion.provider == "doing"


class Streaming:
    """Says two pieces, and then nothing more."""

    id, unmetered = "streaming", False

    def describe(self) -> dict[str, str]:
        return {"name": self.id, "kind": "streaming", "model": "m-1"}

    async def close(self) -> None:
        """Nothing to let go of."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        heard.returned_model = "m-1-2026"
        heard.add("Once upon ")
        heard.add("a time")
        heard.stderr = b"still here"
        await asyncio.sleep(3600)
        raise AssertionError


async def test_what_was_heard_before_the_deadline_is_kept_and_counted() -> None:
    completion = await Streaming().complete(asking(limits=Limits(timeout_s=0.05)))
    assert (why(completion).kind, completion.text) == ("timeout", "Once upon a time")
    assert (completion.returned_model, completion.stderr) == ("m-1-2026", b"still here")
    assert completion.usage.output_tokens == 4
    assert completion.usage.estimated
    assert completion.latency_us >= 50_000


async def test_an_answer_after_the_deadline_does_not_count() -> None:
    async def stubborn(_: Exchange) -> Completion:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return says("Too late.")
        raise AssertionError

    completion = await Answering(Doing(stubborn)).complete(asking(limits=Limits(timeout_s=0.02)))
    assert why(completion).kind == "timeout"
    assert completion.text == "Too late."


async def test_a_timeout_is_counted_even_when_nothing_came() -> None:
    async def silent(_: Exchange) -> Completion:
        await asyncio.sleep(3600)
        raise AssertionError

    completion = await Answering(Doing(silent)).complete(asking("x" * 400, limits=Limits(timeout_s=0.02)))
    assert completion.usage == Usage(input_tokens=100, estimated=True)


def test_a_provider_tells_whether_it_keeps_the_contract() -> None:
    async def do(_: Exchange) -> Completion:
        return says("x")

    provider: Provider = Streaming()
    assert keeps_the_contract(provider)
    assert keeps_the_contract(Answering(Doing(do)))
    assert not keeps_the_contract(Doing(do))


async def test_a_success_that_ended_in_an_error_is_none() -> None:
    completion = await answer(lambda _: says("x", finish="error"))
    assert (why(completion).kind, completion.finish) == ("internal", "error")


LOOK = Tool(name="look", description="Look at a place.", input_schema={"type": "object"})
CALL = ToolCall(id="c1", name="look", arguments={"at": "Paris"})


async def test_calls_for_tools_that_were_offered_are_a_success_of_whatever_shape() -> None:
    said = says("One moment.", finish="tool_call", calls=(CALL,), structured={"n": "wrong"})
    completion = await answer(lambda _: said, asking(tools=(LOOK,), schema=SHAPE))
    assert (completion.failure, completion.calls, completion.structured) == (None, (CALL,), None)
    assert (completion.finish, completion.text, completion.usage.estimated) == ("tool_call", "One moment.", True)


@pytest.mark.parametrize(
    ("fields", "tools", "words"),
    [
        ({"finish": "tool_call", "calls": (CALL,)}, (), "the model asked for look, and no tool was offered"),
        ({"finish": "stop", "calls": (CALL,)}, (), "the model asked for look, and no tool was offered"),
        ({"finish": "stop", "calls": (CALL,)}, (LOOK,), "says that it ended with 'stop'"),
        (
            {"finish": "tool_call", "calls": (CALL, ToolCall(id="c2", name="look", arguments={"n": {1}}))},
            (LOOK,),
            "holds a Python set",
        ),
        ({"finish": "tool_call", "calls": (ToolCall(id="c\ud800", name="look", arguments={}),)}, (LOOK,), "surrogate"),
    ],
)
async def test_calls_that_contradict_the_rest_are_a_tool_failure(
    fields: dict[str, Any], tools: tuple[Tool, ...], words: str
) -> None:
    completion = await answer(lambda _: says("x", **fields), asking(tools=tools))
    assert (why(completion).kind, why(completion).retryable) == ("tool_failure", False)
    assert words in why(completion).message
    assert (completion.calls, completion.finish) == ((), "error")


@pytest.mark.parametrize("tools", [(), (LOOK,)])
async def test_a_success_that_ends_in_a_call_and_holds_none_is_the_providers_fault(tools: tuple[Tool, ...]) -> None:
    completion = await answer(lambda _: says("x", finish="tool_call"), asking(tools=tools))
    assert (why(completion).kind, why(completion).retryable) == ("internal", False)
    assert "ended with 'tool_call'" in why(completion).message


async def test_a_failure_calls_for_nothing() -> None:
    said = says("", failure=failure("network", "gone"), finish="tool_call", calls=(CALL,))
    completion = await answer(lambda _: said, asking(tools=(LOOK,)))
    assert (why(completion).kind, completion.calls, completion.finish) == ("network", (), "error")


async def test_calls_are_handed_on_as_json_holds_them() -> None:
    said = says("", finish="tool_call", calls=(ToolCall(id="c1", name="look", arguments={"n": 2.0, "at": ("a",)}),))
    completion = await answer(lambda _: said, asking(tools=(LOOK,)))
    assert repr(completion.calls[0].arguments) == repr({"n": 2, "at": ["a"]})


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ((Tool(name="", description="", input_schema={}),), "the tool '' needs a name"),
        ((Tool(name="look at", description="", input_schema={}),), "the tool 'look at' needs a name"),
        ((Tool(name="look\n", description="", input_schema={}),), "needs a name"),
        ((Tool(name="x" * 65, description="", input_schema={}),), "needs a name of 1 to 64"),
        ((LOOK, LOOK), "two tools are named look"),
        ((LOOK, Tool(name="bad", description="", input_schema={"type": "thing"})), "the input of the tool bad: "),
    ],
    ids=str,
)
async def test_tools_that_nobody_could_offer_are_an_invalid_request(tools: tuple[Tool, ...], words: str) -> None:
    completion = await answer(lambda _: says("x"), asking(tools=tools))
    assert why(completion).kind == "invalid_request"
    assert words in why(completion).message


async def test_tools_of_every_other_name_may_be_offered() -> None:
    tools = tuple(Tool(name=name, description="", input_schema={}) for name in ("a", "A-b_9", "x" * 64))
    assert (await answer(lambda _: says("x"), asking(tools=tools))).ok


async def test_a_failure_that_ended_well_says_error() -> None:
    completion = await answer(
        lambda _: says("", failure=failure("network", "gone"), finish="stop", structured={"a": 1})
    )
    assert (completion.finish, completion.structured) == ("error", None)
    kept = await answer(lambda _: says("", failure=failure("content_filter", "no"), finish="content_filter"))
    assert kept.finish == "content_filter"


async def test_a_kind_that_is_none_of_the_twelve_is_internal() -> None:
    completion = await answer(lambda _: says(failure=Failure(kind="bad_luck", message="", retryable=True)))  # type: ignore[arg-type]
    assert (why(completion).kind, why(completion).retryable) == ("internal", False)
    assert "bad_luck" in why(completion).message


@pytest.mark.parametrize("wish", [float("nan"), float("inf"), -1.0])
async def test_a_pause_that_makes_no_sense_is_dropped(wish: float) -> None:
    completion = await answer(lambda _: says(failure=failure("rate_limit", "slow", retry_after_s=wish)))
    assert why(completion).retry_after_s is None


async def test_structure_is_read_from_the_text_and_checked() -> None:
    asked = asking(schema=SHAPE, schema_name="count")
    assert (await answer(lambda _: says('Here: {"n": 3}'), asked)).structured == {"n": 3}
    completion = await answer(lambda _: says('{"n": "three"}'), asked)
    assert why(completion).details == {
        "validator": "type",
        "expected_output_schema": "count",
        "failing_path": "/n",
        "validator_message": 'must be integer, but is string "three"',
        "raw_attempt": '{"n": "three"}',
    }
    assert completion.text == '{"n": "three"}'


async def test_structure_that_a_provider_vouches_for_is_checked_all_the_same() -> None:
    asked = asking(schema=SHAPE)
    good = await answer(lambda _: says(structured={"n": 3.0}), asked)
    assert (good.structured, good.text) == ({"n": 3}, '{"n": 3}')
    assert type(good.structured["n"]) is int
    wrong: list[Any] = [{"n": "3"}, {"n": True}, {"n": float("nan")}, {"n": 2**60}, {"n": {1}}, [], 3]
    for bad in wrong:
        completion = await answer(lambda _, bad=bad: says(structured=bad), asked)  # type: ignore[misc]
        assert why(completion).kind == "malformed_response", bad
        assert completion.structured is None


async def test_null_is_no_answer() -> None:
    completion = await answer(lambda _: says("null"), asking(schema={}))
    assert why(completion).kind == "malformed_response"


async def test_a_valid_object_that_filled_its_length_is_a_success() -> None:
    completion = await answer(lambda _: says('{"n": 3}', finish="length"), asking(schema=SHAPE))
    assert completion.ok
    assert completion.finish == "length"


async def test_an_answer_that_is_too_long_is_cut_and_fails() -> None:
    asked = asking(limits=Limits(max_output_bytes=10))
    completion = await answer(lambda _: says("漢字" * 10), asked)
    assert (why(completion).kind, why(completion).retryable) == ("malformed_response", False)
    assert completion.text == "漢字漢"


async def test_a_value_that_is_too_long_fails_also_where_there_is_no_text_beside_it() -> None:
    large = Completion(provider="p", requested_model="m", returned_model="m", structured={"n": "x" * 20})
    completion = await answer(lambda _: large, asking(limits=Limits(max_output_bytes=10)))
    assert why(completion).message == "the answer is 29 bytes long; at most 10 were asked for"
    assert completion.structured is None


@given(
    st.recursive(
        st.booleans() | st.integers(-(2**53 - 1), 2**53 - 1) | st.floats(-1e15, 1e15) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_a_value_is_held_to_its_limit_by_the_byte(value: Any) -> None:
    size = len(json.dumps(value, ensure_ascii=False).encode())

    def answers(limit: int) -> Completion:
        said = says("", structured=value)
        return asyncio.run(answer(lambda _: said, asking(limits=Limits(max_output_bytes=limit))))

    assert answers(size).ok
    assert why(answers(size - 1)).message == f"the answer is {size} bytes long; at most {size - 1} were asked for"


async def test_a_value_that_is_none_and_too_long_to_be_quoted_is_told_by_its_length_alone() -> None:
    large = says("", structured={"n": ["x" * 50, {1, 2}]})
    completion = await answer(lambda _: large, asking(limits=Limits(max_output_bytes=10)))
    assert "bytes long; at most 10" in why(completion).message
    assert completion.text == ""


async def test_text_that_is_no_text_is_mended_and_kept() -> None:
    completion = await answer(lambda _: says("half \ud800 a character"))
    assert completion.ok
    assert completion.text.encode()
    assert completion.raw == b"half \xed\xa0\x80 a character"


@pytest.mark.parametrize("count", [-1, 1.5, True, None, MOST_TOKENS + 1, 2**60, 10**400])
async def test_usage_that_cannot_be_is_estimated_instead(count: Any) -> None:
    usage = Usage(input_tokens=5, output_tokens=count)
    completion = await answer(lambda _: says("12345678", usage=usage))
    assert completion.usage == Usage(input_tokens=2, output_tokens=2, estimated=True)


async def test_a_report_is_one_in_all_its_fields() -> None:
    usage, cost = Usage(input_tokens=5, estimated="a bit"), Cost(usd_nano=3, basis="hearsay")  # type: ignore[arg-type]
    completion = await answer(lambda _: says("12345678", usage=usage, cost=cost))
    assert completion.usage == Usage(input_tokens=2, output_tokens=2, estimated=True)
    assert completion.cost == Cost()


async def test_the_most_that_is_believed_of_one_answer_is_kept() -> None:
    usage, cost = Usage(input_tokens=MOST_TOKENS), Cost(usd_nano=MOST_USD_NANO, basis="reported")
    completion = await answer(lambda _: says("x", usage=usage, cost=cost))
    assert (completion.usage, completion.cost) == (usage, cost)


@pytest.mark.parametrize("price", [-5, 1.5, True, None, MOST_USD_NANO + 1, 10**30], ids=str)
async def test_a_price_that_cannot_be_is_no_price(price: Any) -> None:
    completion = await answer(lambda _: says("x", cost=Cost(usd_nano=price, basis="reported")))
    assert completion.ok
    assert completion.cost == Cost()


@pytest.mark.parametrize("figure", [-1, 0.5, "3", 2**60], ids=str)
async def test_a_time_that_cannot_be_is_measured_and_such_an_exit_code_is_none(figure: Any) -> None:
    completion = await answer(lambda _: says("x", latency_us=figure, exit_code=figure))
    assert completion.ok
    assert type(completion.latency_us) is int
    assert 0 < completion.latency_us < 60_000_000
    assert completion.exit_code == (-1 if figure == -1 else None)


@pytest.mark.parametrize(
    ("name", "kept"), [("m" * 1_000, "m" * MOST_NAME), ("m\ud800", "m?"), (None, "m-1")], ids=["long", "half", "none"]
)
async def test_a_model_goes_by_a_name_that_can_be_recorded(name: Any, kept: str) -> None:
    completion = await answer(lambda _: says("x", returned_model=name))
    assert completion.ok
    assert completion.returned_model == kept


@pytest.mark.parametrize(
    ("said", "kept"),
    [(7, None), ({"a": 1}, None), ("", None), ("fp \ud800", "fp ?"), ("x" * (MOST_NAME + 1), "x" * MOST_NAME)],
)
async def test_a_fingerprint_is_a_text_that_can_be_recorded(said: Any, kept: str | None) -> None:
    assert (await answer(lambda _: says("x", fingerprint=said))).fingerprint == kept


@pytest.mark.parametrize("told", [float("nan"), 10**30, "half \ud800", {"deep": [1e999]}, b"bytes", object()])
async def test_a_failure_is_told_in_characters_and_json(told: Any) -> None:
    broken = failure("network", "it broke \ud800 off", said=told, status=503)
    completion = await answer(lambda _: says("", failure=broken))
    assert why(completion).message == "it broke ? off"
    assert why(completion).details["status"] == 503
    assert json.loads(json.dumps(dict(why(completion).details), allow_nan=False)).keys() == {"said", "status"}
    assert json.dumps(why(completion).details, ensure_ascii=False).encode()


async def test_a_key_that_is_no_text_and_stands_twice_is_told_in_characters() -> None:
    completion = await answer(lambda _: says('{"\\ud800": 1, "\\ud800": 2}'), asking(schema=SHAPE))
    assert why(completion).kind == "malformed_response"
    assert "twice in one object" in why(completion).message
    assert f"{why(completion).message}{why(completion).details}".encode()


async def test_what_a_tool_did_is_handed_on_as_json_holds_it() -> None:
    arguments = {"a": float("nan"), "b": 10**30, "c": "half \ud800", "d": [1]}
    event = ToolEvent(name="look \ud800", arguments=arguments, result="half \ud800", error="half \ud800")
    [kept] = (await answer(lambda _: says("x", tool_events=(event,)))).tool_events
    assert (kept.name, kept.result, kept.error) == ("look ?", "half ?", "half ?")
    assert kept.arguments["d"] == [1]
    assert json.dumps(kept.arguments, allow_nan=False, ensure_ascii=False).encode()


async def test_where_nobody_sends_a_bill_a_price_is_an_estimate() -> None:
    class Free(Doing):
        unmetered = True

    async def do(exchange: Exchange) -> Completion:
        known = exchange.model == "priced"
        return says("x", cost=Cost(usd_nano=9, basis="reported") if known else Cost())

    assert (await Answering(Free(do)).complete(asking())).cost == Cost(basis="unmetered")
    assert (await Answering(Free(do)).complete(asking(model="priced"))).cost == Cost(usd_nano=9, basis="estimate")


@pytest.mark.parametrize(
    ("messages", "word"),
    [
        ((), "no message"),
        ((Message(role="user", content="a"), Message(role="system", content="b")), "system message"),
        ((Message(role="user", content="a"), Message(role="assistant", content="b")), "assistant's own"),
        ((Message(role="user", content="\udfff"),), "surrogate"),
    ],
)
async def test_a_conversation_that_cannot_be_sent_is_not_sent(messages: tuple[Message, ...], word: str) -> None:
    async def do(_: Exchange) -> Completion:
        raise AssertionError("asked")

    completion = await Answering(Doing(do)).complete(Exchange(messages=messages))
    assert why(completion).kind == "invalid_request"
    assert word in why(completion).message


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan")])
async def test_no_time_is_no_question(timeout_s: float) -> None:
    completion = await answer(lambda _: says("x"), asking(limits=Limits(timeout_s=timeout_s)))
    assert why(completion).kind == "invalid_request"


async def test_a_missing_name_is_filled_in() -> None:
    said = Completion(provider="", requested_model="", returned_model="", text="x")
    completion = await answer(lambda _: said, asking(model="big-model"))
    assert (completion.provider, completion.requested_model, completion.returned_model) == (
        "doing",
        "big-model",
        "big-model",
    )
    assert completion.latency_us > 0


async def test_whoever_was_asked_cannot_say_that_nobody_was() -> None:
    completion = await answer(lambda _: says("hello", refused=True))
    assert (completion.ok, completion.refused) == (True, False)


@pytest.mark.parametrize("name", ["raw", "output", "stderr", "diff"])
async def test_text_where_bytes_belong_is_a_failure_that_can_be_recorded(name: str) -> None:
    completion = await answer(lambda _: says("Yes.", **{name: "a text"}))
    assert why(completion).kind == "internal"
    assert f"its {name} is a Python str instead of bytes" in why(completion).message
    assert getattr(completion, name) is None
