"""Tools that are offered over HTTP, and the calls for them: in every format, whole and streamed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Exchange, Limits, Message, Schema, Tool, ToolCall, Usage
from hansard.providers.openai.chat import ChatFold
from hansard.providers.openai.chat import read as read_chat
from providers.asking import CHAT, CITY, FORMS, KEY, MESSAGES, OPENAI, PARIS, Form, answers, asked, failure_of
from providers.wire import Say, Wire
from providers.wire_formats import Call

ALL = pytest.mark.parametrize("form", FORMS, ids=str)
TOLD = pytest.mark.parametrize("form", MESSAGES, ids=str)
OLD = "claude-3-5-haiku"
"""A model that is asked for a shape through a tool."""

AT: Schema = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
ANY: Schema = {"type": "object"}
LOOK = Tool(name="look", description="Look at a place.", input_schema=AT)
TIME = Tool(name="time", description="What time is it?", input_schema=ANY)
PARIS_CALL = Call(id="c-7", name="look", arguments={"at": "Paris"})
TIME_CALL = Call(id="c-8", name="time", arguments={})
TOOL_WORD = {"chat": "tool_calls", "messages": "tool_use"}
QUESTION = "What is the capital of France?"


def offering(*tools: Tool, **more: Any) -> Exchange:
    return replace(asked(**more), tools=tools or (LOOK, TIME))


def continued(exchange: Exchange, said: Completion, *results: str) -> Exchange:
    """The question once more, with what was called and what came of it."""
    called = Message(role="assistant", content=said.text, calls=said.calls, thought=said.thought)
    heard = tuple(
        Message(role="tool", content=result, name=call.name, call_id=call.id)
        for call, result in zip(said.calls, results, strict=True)
    )
    return replace(exchange, messages=(*exchange.messages, called, *heard))


def sent(wire: Wire) -> Any:
    """The conversation that was sent last."""
    return wire.last.body["messages" if "messages" in wire.last.body else "input"]


CHAT_TOOLS = [
    {"type": "function", "function": {"name": "look", "description": "Look at a place.", "parameters": AT}},
    {"type": "function", "function": {"name": "time", "description": "What time is it?", "parameters": ANY}},
]
RESPONSES_TOOLS = [
    {"type": "function", "name": "look", "description": "Look at a place.", "parameters": AT, "strict": False},
    {"type": "function", "name": "time", "description": "What time is it?", "parameters": ANY, "strict": False},
]
MESSAGES_TOOLS = [
    {"name": "look", "description": "Look at a place.", "input_schema": AT},
    {"name": "time", "description": "What time is it?", "input_schema": ANY},
]
TOOLS = {"chat": CHAT_TOOLS, "responses": RESPONSES_TOOLS, "messages": MESSAGES_TOOLS}


@ALL
def test_tools_are_offered_in_the_words_of_the_format(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, exchange=offering())
    assert (completion.text, completion.finish, completion.calls) == ("Paris.", "stop", ())
    assert wire.last.body["tools"] == TOOLS[form.api]
    assert "tool_choice" not in wire.last.body


@ALL
def test_without_tools_nothing_is_said_of_them(form: Form, wire: Wire) -> None:
    answers(form, wire)
    assert not {"tools", "tool_choice"} & wire.last.body.keys()


@ALL
def test_a_call_is_read_with_its_id_its_arguments_and_the_text_beside_it(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text="Let me see.", calls=(PARIS_CALL,)), exchange=offering())
    assert completion.failure is None
    assert completion.calls == (ToolCall(id="c-7", name="look", arguments={"at": "Paris"}),)
    assert (completion.text, completion.finish) == ("Let me see.", "tool_call")
    assert completion.usage == Usage(input_tokens=16, output_tokens=5, cached_tokens=4)
    assert completion.cost.basis == "price_table"


@ALL
def test_several_calls_at_once_stay_apart(form: Form, wire: Wire) -> None:
    long = Call(id="c-9", name="look", arguments={"at": "somewhere far away, " * 20})
    completion = answers(form, wire, Say(text="", calls=(PARIS_CALL, long, TIME_CALL)), exchange=offering())
    assert [(call.id, call.name, call.arguments) for call in completion.calls] == [
        ("c-7", "look", {"at": "Paris"}),
        ("c-9", "look", long.arguments),
        ("c-8", "time", {}),
    ]
    assert completion.finish == "tool_call"


SENT_BACK: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": QUESTION},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c-7", "type": "function", "function": {"name": "look", "arguments": '{"at": "Paris"}'}},
                {"id": "c-8", "type": "function", "function": {"name": "time", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c-7", "content": "It rains."},
        {"role": "tool", "tool_call_id": "c-8", "content": "12:00"},
    ],
    "responses": [
        {"role": "user", "content": QUESTION},
        {"type": "function_call", "call_id": "c-7", "name": "look", "arguments": '{"at": "Paris"}'},
        {"type": "function_call", "call_id": "c-8", "name": "time", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c-7", "output": "It rains."},
        {"type": "function_call_output", "call_id": "c-8", "output": "12:00"},
    ],
    "messages": [
        {"role": "user", "content": QUESTION},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c-7", "name": "look", "input": {"at": "Paris"}},
                {"type": "tool_use", "id": "c-8", "name": "time", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c-7", "content": "It rains."},
                {"type": "tool_result", "tool_use_id": "c-8", "content": "12:00"},
            ],
        },
    ],
}


@ALL
@pytest.mark.requirement("R-2.8-2")
def test_the_id_of_a_call_goes_out_again_with_its_result(form: Form, wire: Wire) -> None:
    exchange = offering()
    said = answers(form, wire, Say(text="", calls=(PARIS_CALL, TIME_CALL)), exchange=exchange)
    last = answers(form, wire, Say(text="Wet."), exchange=continued(exchange, said, "It rains.", "12:00"))
    assert (last.text, last.finish, last.calls) == ("Wet.", "stop", ())
    assert sent(wire) == SENT_BACK[form.api]
    assert wire.last.body["tools"] == TOOLS[form.api]


@ALL
def test_the_text_beside_a_call_is_sent_back_with_it(form: Form, wire: Wire) -> None:
    exchange = offering()
    said = answers(form, wire, Say(text="Let me see.", calls=(TIME_CALL,)), exchange=exchange)
    answers(form, wire, exchange=continued(exchange, said, "12:00"))
    match form.api:
        case "chat":
            assert (sent(wire)[2]["content"], len(sent(wire)[2]["tool_calls"])) == ("Let me see.", 1)
        case "responses":
            assert sent(wire)[1] == {"role": "assistant", "content": "Let me see."}
            assert sent(wire)[2]["type"] == "function_call"
        case _:
            assert sent(wire)[1]["content"][0] == {"type": "text", "text": "Let me see."}


SIGNED = {"google": {"thought_signature": "c2ln"}}


@pytest.mark.parametrize("thinking", ["It may rain. 🌧", ""])
@pytest.mark.parametrize("form", CHAT, ids=str)
def test_what_a_model_thought_goes_back_with_its_calls(form: Form, wire: Wire, thinking: str) -> None:
    exchange = offering()
    calls = (replace(PARIS_CALL, extra=SIGNED), TIME_CALL)
    said = answers(form, wire, Say(text="", thinking=thinking, calls=calls), exchange=exchange)
    answers(form, wire, exchange=continued(exchange, said, "It rains.", "12:00"))
    message, before = sent(wire)[2], SENT_BACK["chat"][2]
    assert message.pop("reasoning_content") == thinking
    assert [call.pop("extra_content", None) for call in message["tool_calls"]] == [SIGNED, None]
    assert message == before


@pytest.mark.parametrize("form", MESSAGES, ids=str)
def test_blocks_of_thought_go_back_where_they_stood(form: Form, wire: Wire) -> None:
    exchange = offering(schema=CITY)
    say = Say(text="Let me see.", thinking="It may rain.", calls=(FOUND, PARIS_CALL))
    said = answers(form, wire, say, exchange=exchange, model=OLD)
    answers(form, wire, exchange=continued(exchange, said, "It rains."), model=OLD)
    assert sent(wire)[1]["content"] == [
        {"type": "thinking", "thinking": "It may rain.", "signature": "s"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "c-7", "name": "look", "input": {"at": "Paris"}},
    ]


@pytest.mark.parametrize("form", MESSAGES, ids=str)
def test_thoughts_beside_a_call_without_an_id_are_left_out(form: Form, wire: Wire) -> None:
    exchange = offering()
    say = Say(text=" ", thinking="It may rain.", calls=(replace(TIME_CALL, id=None),))
    said = answers(form, wire, say, exchange=exchange)
    answers(form, wire, exchange=continued(exchange, said, "12:00"))
    assert [block["type"] for block in sent(wire)[1]["content"]] == ["tool_use"]


@ALL
def test_no_thought_is_handed_on_with_an_answer_and_no_key_with_a_thought(form: Form, wire: Wire) -> None:
    assert answers(form, wire, Say(thinking="Simple.")).thought is None
    leaky = Say(text="", thinking=f"my key is {KEY}", calls=(replace(TIME_CALL, extra={"key": KEY}),))
    assert KEY not in repr(answers(form, wire, leaky, exchange=offering()))


@pytest.mark.parametrize("form", MESSAGES, ids=str)
def test_blanks_are_not_sent_to_a_server_that_takes_no_text_without_a_word(form: Form, wire: Wire) -> None:
    exchange = offering()
    said = answers(form, wire, Say(text="\n\n", calls=(TIME_CALL,)), exchange=exchange)
    answers(form, wire, exchange=continued(exchange, said, "12:00"))
    assert [block["type"] for block in sent(wire)[1]["content"]] == ["tool_use"]
    blank = (*exchange.messages, Message(role="assistant", content=" \n"), Message(role="user", content="Again."))
    answers(form, wire, exchange=replace(exchange, messages=blank))
    assert [each["content"] for each in sent(wire)[1:]] == ["(no text)", "Again."]


@ALL
def test_the_results_of_two_rounds_follow_each_its_own_calls(form: Form, wire: Wire) -> None:
    exchange = offering()
    first = answers(form, wire, Say(text="", calls=(PARIS_CALL,)), exchange=exchange)
    again = continued(exchange, first, "It rains.")
    second = answers(form, wire, Say(text="", calls=(TIME_CALL,)), exchange=again)
    answers(form, wire, exchange=continued(again, second, "12:00"))
    told = json.dumps(sent(wire))
    places = [told.index(word) for word in ('"look"', "It rains.", '"time"', "12:00")]
    assert places == sorted(places)
    assert len(sent(wire)) == {"chat": 6, "responses": 5, "messages": 5}[form.api]


@ALL
def test_a_tools_message_without_a_call_is_what_the_user_brings(form: Form, wire: Wire) -> None:
    brought = (Message(role="user", content="Look."), Message(role="tool", content="It rains."))
    answers(form, wire, exchange=offering(messages=brought))
    assert sent(wire) == [{"role": "user", "content": "Look."}, {"role": "user", "content": "It rains."}]


@ALL
def test_a_call_without_an_id_gets_one_that_no_other_has(form: Form, wire: Wire) -> None:
    nameless = Call(name="time")
    taken = Call(id="call_1", name="look", arguments={"at": "Rome"})
    exchange = offering()
    said = answers(form, wire, Say(text="", calls=(nameless, taken, nameless)), exchange=exchange)
    assert [call.id for call in said.calls] == ["call_2", "call_1", "call_3"]
    again = continued(exchange, said, "12:00", "Sunny.", "12:01")
    later = answers(form, wire, Say(text="", calls=(nameless,)), exchange=again)
    assert [call.id for call in later.calls] == ["call_4"]


@ALL
def test_of_two_calls_with_one_id_the_second_gets_another(form: Form, wire: Wire) -> None:
    twin = Call(id="c-7", name="time")
    # Streamed chat tells calls apart by their index alone, and so do we.
    said = answers(form, wire, Say(text="", calls=(PARIS_CALL, twin)), exchange=offering())
    assert [(call.id, call.name) for call in said.calls] == [("c-7", "look"), ("call_1", "time")]


BROKEN = ('{"at": "Par', "Paris", '{"at": 1, "at": 2}', '{"at": NaN}', '{"at": "x"} and more', '{"at": "\\ud800"}')


@pytest.mark.parametrize("form", OPENAI, ids=str)
@pytest.mark.parametrize("arguments", [*BROKEN, '["Paris"]', "7", "null"])
def test_arguments_that_are_no_object_stay_text(form: Form, wire: Wire, arguments: str) -> None:
    said = answers(form, wire, Say(text="", calls=(replace(PARIS_CALL, arguments=arguments),)), exchange=offering())
    assert said.failure is None
    assert said.calls == (ToolCall(id="c-7", name="look", arguments=arguments),)


@TOLD
def test_an_input_that_breaks_off_stays_text(form: Form, wire: Wire) -> None:
    said = answers(form, wire, Say(text="", calls=(replace(PARIS_CALL, arguments='{"at": "Par'),)), exchange=offering())
    assert said.calls == (ToolCall(id="c-7", name="look", arguments='{"at": "Par'),)


@ALL
@pytest.mark.parametrize("arguments", ["", " "])
def test_no_arguments_are_an_empty_object(form: Form, wire: Wire, arguments: str) -> None:
    said = answers(form, wire, Say(text="", calls=(replace(TIME_CALL, arguments=arguments),)), exchange=offering())
    assert said.calls == (ToolCall(id="c-8", name="time", arguments={}),)


@ALL
def test_half_of_a_character_in_the_arguments_is_a_tool_failure(form: Form, wire: Wire) -> None:
    broken = replace(PARIS_CALL, arguments="\ud800" if form.api != "messages" else {"at": "\ud800"})
    failure = failure_of(answers(form, wire, Say(text="", calls=(broken,)), exchange=offering()))
    assert failure.kind == "tool_failure"
    assert "surrogate" in failure.message


@ALL
def test_a_call_that_nobody_offered_is_a_tool_failure_and_is_not_handed_on(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text="", calls=(PARIS_CALL, TIME_CALL)))
    failure = failure_of(completion)
    assert (failure.kind, failure.retryable) == ("tool_failure", False)
    assert failure.message == "the model asked for look, time, and no tool was offered"
    assert (completion.calls, completion.finish) == ((), "error")
    assert completion.usage.output_tokens == 5


@pytest.mark.parametrize("form", CHAT, ids=str)
def test_a_call_means_a_call_whatever_a_server_says_of_the_end(form: Form, wire: Wire) -> None:
    for finish in ("stop", "function_call", "tool_calls"):
        said = answers(form, wire, Say(text="", calls=(PARIS_CALL,), finish=finish), exchange=offering())
        assert (said.finish, len(said.calls)) == ("tool_call", 1)
        assert failure_of(answers(form, wire, Say(text="", calls=(PARIS_CALL,), finish=finish))).kind == "tool_failure"


@pytest.mark.parametrize("form", OPENAI, ids=str)
def test_an_answer_counts_beside_a_call_that_nobody_offered(form: Form, wire: Wire) -> None:
    finish = "stop" if form.api == "chat" else None
    completion = answers(form, wire, Say(calls=(PARIS_CALL,), finish=finish))
    assert (completion.failure, completion.text, completion.calls) == (None, "Paris.", ())


@pytest.mark.parametrize("form", [form for form in FORMS if form.api in TOOL_WORD], ids=str)
def test_an_ending_for_calls_without_any_is_a_tool_failure(form: Form, wire: Wire) -> None:
    for text in ("", "Paris."):
        said = Say(text=text, finish=TOOL_WORD[form.api])
        for exchange in (offering(), asked()):
            failure = failure_of(answers(form, wire, said, exchange=exchange))
            assert (failure.kind, "holds none" in failure.message) == ("tool_failure", True)


@ALL
def test_a_call_that_is_cut_off_by_the_limit_of_tokens_is_none(form: Form, wire: Wire) -> None:
    said = Say(text="", calls=(replace(PARIS_CALL, arguments='{"at": "Par'),), finish=form.words["length"])
    completion = answers(form, wire, said, exchange=offering())
    failure = failure_of(completion)
    assert (failure.kind, failure.retryable) == ("context_length_exceeded", False)
    assert failure.message == "the limit of tokens was used up within a call for a tool"
    assert (completion.calls, completion.finish) == ((), "length")


@ALL
def test_what_a_filter_struck_calls_nothing(form: Form, wire: Wire) -> None:
    said = Say(text="", calls=(PARIS_CALL,), finish=form.words["content_filter"])
    completion = answers(form, wire, said, exchange=offering())
    assert failure_of(completion).kind == "content_filter"
    assert completion.calls == ()


@ALL
def test_the_key_is_scrubbed_from_the_arguments_of_a_call(form: Form, wire: Wire) -> None:
    leaky = replace(PARIS_CALL, arguments={"at": f"my key is {KEY}", KEY: [KEY]})
    completion = answers(form, wire, Say(text="", calls=(leaky,)), exchange=offering())
    assert completion.calls[0].arguments == {
        "at": "my key is [secret TEST_KEY]",
        "[secret TEST_KEY]": ["[secret TEST_KEY]"],
    }
    assert KEY not in repr(completion)
    broken = answers(form, wire, Say(text="", calls=(replace(PARIS_CALL, arguments=f'{{"{KEY}'),)), exchange=offering())
    assert broken.calls[0].arguments == '{"[secret TEST_KEY]'


@ALL
def test_calls_come_before_the_shape_that_is_asked_for(form: Form, wire: Wire) -> None:
    exchange = offering(schema=CITY)
    for text in ("", "Let me see.", PARIS):
        said = answers(form, wire, Say(text=text, calls=(PARIS_CALL,)), exchange=exchange)
        assert (said.failure, said.structured, said.finish) == (None, None, "tool_call")
    last = answers(form, wire, Say(text=PARIS), exchange=continued(exchange, said, "It rains."))
    assert last.structured == json.loads(PARIS)


@ALL
def test_a_shape_that_is_told_in_words_is_no_part_of_a_result(form: Form, wire: Wire) -> None:
    exchange = offering(schema=CITY)
    options = {"structured": "none"}
    said = answers(form, wire, Say(text="", calls=(PARIS_CALL,)), exchange=exchange, **options)
    answers(form, wire, Say(text=PARIS), exchange=continued(exchange, said, "It rains."), **options)
    holding = [each for each in sent(wire) if "JSON Schema" in json.dumps(each)]
    assert [each["content"].splitlines()[0] for each in holding] == [QUESTION]
    assert "It rains." in json.dumps(sent(wire)[-1])


@ALL
def test_what_calls_take_is_estimated_where_nobody_counts(form: Form, wire: Wire) -> None:
    long = replace(PARIS_CALL, arguments={"at": "x" * 400})
    usage = answers(form, wire, Say(text="", calls=(long,), tokens=None), exchange=offering()).usage
    assert usage.estimated
    assert 100 <= usage.output_tokens < 120


@ALL
def test_the_arguments_of_calls_are_bounded_like_text(form: Form, wire: Wire) -> None:
    for size in (2_000, 400_000):
        long = replace(PARIS_CALL, arguments={"at": "x" * size})
        exchange = replace(offering(), limits=Limits(timeout_s=20.0, max_output_bytes=1_000))
        completion = answers(form, wire, Say(text="", calls=(long,)), exchange=exchange)
        failure = failure_of(completion)
        assert (failure.kind, failure.retryable) == ("malformed_response", False)
        assert completion.calls == ()


# How some servers that speak Chat Completions stream their calls.


def folded(*deltas: Any) -> list[tuple[str, str, Any]]:
    fold = ChatFold()
    for delta in deltas:
        fold.take({"choices": [{"delta": {"tool_calls": delta}}]})
    fold.take({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    return [(call.id, call.name, call.arguments) for call in read_chat(fold.reply(), offering()).calls]


def function(name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def test_pieces_are_put_together_by_their_index_in_whatever_order() -> None:
    assert folded(
        [{"index": 1, "id": "b", **function("time", "")}, {"index": 0, "id": "a", **function("lo", '{"a')}],
        [{"index": 0, **function("ok", 't": ')}, {"index": 1, **function(None, "{}")}],
        [{"index": 0, "id": None, **function(None, '"x"}')}],
    ) == [("b", "time", {}), ("a", "look", {"at": "x"})]


def test_another_id_is_another_call_where_the_index_stays_the_same() -> None:
    whole = [{"index": 0, "id": id, **function("look", json.dumps({"at": id}))} for id in ("a", "b")]
    assert folded(whole[:1], whole[1:]) == [("a", "look", {"at": "a"}), ("b", "look", {"at": "b"})]


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    first, second = ({"id": id, **function("look", '{"at": ')} for id in ("a", "b"))
    more = function(None, '"x"}')
    assert folded([first], [more], [second], [more]) == [("a", "look", {"at": "x"}), ("b", "look", {"at": "x"})]


def test_an_id_that_is_made_up_for_every_piece_makes_no_calls_of_them() -> None:
    pieces = [function("look", ""), function(None, '{"at": '), function("", '"x"}'), function("time", "{}")]
    deltas = [[{"index": n // 3, "id": f"made-up-{n}", **each}] for n, each in enumerate(pieces)]
    assert folded(*deltas) == [("made-up-0", "look", {"at": "x"}), ("made-up-3", "time", {})]


def test_a_name_that_comes_with_every_piece_is_one_name() -> None:
    begun = {"index": 0, "id": "a", **function("look", '{"at": ')}
    assert folded([begun], [{"index": 0, **function("", "")}], [{**begun, **function("look", '"x"}')}]) == [
        ("a", "look", {"at": "x"})
    ]


def test_what_comes_behind_a_call_and_names_none_belongs_to_the_last() -> None:
    fold = ChatFold()
    for delta in ([{"index": 0, "id": "a", **function("time", "{}")}], [{"extra_content": SIGNED}]):
        fold.take({"choices": [{"delta": {"tool_calls": delta}}]})
    fold.take({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    said = read_chat(fold.reply(), offering())
    assert ([call.id for call in said.calls], said.thought) == (["a"], {"extra_content": {"a": SIGNED}})


def test_thoughts_in_a_list_grow_block_by_block() -> None:
    text, sealed = {"type": "reasoning.text", "index": 0}, {"type": "reasoning.encrypted", "data": "x"}
    fold = ChatFold()
    for piece in ({**text, "text": "It may "}, {**text, "text": "rain.", "signature": "s"}, sealed, sealed, "?"):
        fold.take({"choices": [{"delta": {"reasoning_details": [piece]}}]})
    fold.take({"choices": [{"delta": {"tool_calls": [{"id": "a", **function("time", "{}")}]}}]})
    fold.take({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    assert read_chat(fold.reply(), offering()).thought == {
        "reasoning_details": [{**text, "text": "It may rain.", "signature": "s"}, sealed, sealed]
    }


def test_arguments_that_come_as_an_object_are_taken() -> None:
    assert folded([{"index": 0, "id": "a", **function("look", {"at": "x"})}]) == [("a", "look", {"at": "x"})]


def test_what_makes_no_sense_among_the_pieces_is_passed_over() -> None:
    assert folded(None, "x", [3, {"index": "y", "function": 4}, {"index": 0, "id": 5, **function("time", "{}")}]) == [
        ("call_1", "", {}),
        ("call_2", "time", {}),
    ]


def test_pieces_count_as_held_even_when_they_say_nothing() -> None:
    fold = ChatFold()
    for index in range(1_000):
        fold.take({"choices": [{"delta": {"tool_calls": [{"index": index}]}}]})
    assert fold.held >= 10_000


# The shape of an answer may be a tool itself.

ANSWER = {"name": "answer", "input_schema": CITY}
FOUND = Call(id="t-1", name="answer", arguments=json.loads(PARIS))


@TOLD
def test_the_tool_for_the_answer_stands_beside_those_that_are_offered(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text="", calls=(FOUND,)), exchange=offering(schema=CITY), model=OLD)
    assert (completion.structured, completion.finish, completion.calls) == (json.loads(PARIS), "stop", ())
    *offered, answer = wire.last.body["tools"]
    assert offered == MESSAGES_TOOLS
    assert {name: answer[name] for name in ANSWER} == ANSWER
    assert wire.last.body["tool_choice"] == {"type": "any"}


@TOLD
def test_an_answer_beside_calls_is_dropped(form: Form, wire: Wire) -> None:
    said = Say(text="", calls=(FOUND, PARIS_CALL))
    completion = answers(form, wire, said, exchange=offering(schema=CITY), model=OLD)
    assert completion.failure is None
    assert [call.id for call in completion.calls] == ["c-7"]
    assert (completion.structured, completion.text) == (None, "")


@TOLD
def test_two_answers_at_once_are_none(form: Form, wire: Wire) -> None:
    said = Say(text="", calls=(FOUND, replace(FOUND, id="t-2")))
    for exchange in (offering(schema=CITY), asked(schema=CITY)):
        assert failure_of(answers(form, wire, said, exchange=exchange, model=OLD)).kind == "tool_failure"


@TOLD
def test_a_tool_with_the_name_of_the_answer_is_refused_where_the_answer_is_a_tool(form: Form, wire: Wire) -> None:
    before = len(wire.seen)
    exchange = offering(replace(LOOK, name="answer"), schema=CITY)
    failure = failure_of(answers(form, wire, exchange=exchange, model=OLD))
    assert failure.kind == "invalid_request"
    assert "the tool answer has the name under which the answer is asked for" in failure.message
    assert len(wire.seen) == before


@TOLD
def test_a_tool_may_have_the_name_of_the_answer_where_that_is_none(form: Form, wire: Wire) -> None:
    exchange = offering(replace(LOOK, name="answer"), schema=CITY)
    completion = answers(form, wire, Say(text="", calls=(replace(PARIS_CALL, name="answer"),)), exchange=exchange)
    assert [call.name for call in completion.calls] == ["answer"]
