"""The openai provider: Chat Completions and Responses, against a server that speaks both."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hansard.domain.exchange import Limits, Message, Sampling, Schema, Tool, Usage
from hansard.errors import UsageError
from hansard.providers.openai import open_openai
from hansard.providers.openai.servers import SERVERS
from providers.asking import CHAT, CITY, OPENAI, PARIS, RESPONSES, Form, answers, asked, failure_of
from providers.hosted_bench import HostedConformance
from providers.wire import Raw, Refuse, Say, Turn, Wire
from providers.wire_formats import FORMATS

ALL = pytest.mark.parametrize("form", OPENAI, ids=str)
WISHES = Sampling(temperature=0.5, top_p=0.9, seed=7, stop=("END",), reasoning_effort="low")
OPTIONAL: Schema = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "river": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPEN: Schema = {"type": "object", "properties": {"any": {"type": "object"}}, "required": ["any"]}


class OpenaiConformance(HostedConformance):
    def quota(self, said: str) -> Turn:
        return Refuse(status=429, body={"error": {"message": said, "code": "insufficient_quota"}})


class TestChat(OpenaiConformance):
    form = CHAT[0]


class TestChatStreamed(OpenaiConformance):
    form = CHAT[1]


class TestResponses(OpenaiConformance):
    form = RESPONSES[0]


class TestResponsesStreamed(OpenaiConformance):
    form = RESPONSES[1]


ERRORS: tuple[tuple[int, dict[str, Any], str], ...] = (
    (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, "quota_exhausted"),
    (429, {"code": "billing_hard_limit_reached"}, "quota_exhausted"),
    (429, {"type": "exceeded_current_quota_error", "message": "not active: insufficient balance"}, "quota_exhausted"),
    (429, {"code": "rate_limit_exceeded", "type": "requests"}, "rate_limit"),
    (404, {"code": "model_not_found", "message": "gone"}, "model_unavailable"),
    (404, {"message": "The model `x` does not exist.", "type": "NotFoundError"}, "model_unavailable"),
    (404, {"message": "File Not Found", "type": "not_found_error", "code": 404}, "invalid_request"),
    (403, {"code": "model_not_found"}, "model_unavailable"),
    (400, {"code": "context_length_exceeded"}, "context_length_exceeded"),
    (400, {"message": "This model's maximum context length is 4096 tokens."}, "context_length_exceeded"),
    (400, {"message": "too long", "type": "exceed_context_size_error", "n_ctx": 2048}, "context_length_exceeded"),
    (400, {"code": 400, "message": "API key not valid. Please pass a valid API key."}, "auth_failure"),
    (400, {"code": 400, "message": "API key expired. Please renew the API key."}, "auth_failure"),
    (400, {"message": "Incorrect API key provided: no***ne."}, "auth_failure"),
    (400, {"code": "content_filter"}, "content_filter"),
    (400, {"code": "content_policy_violation"}, "content_filter"),
    (400, {"code": "invalid_value", "param": "temperature"}, "invalid_request"),
    (500, {"message": "maximum context length is unknown to a broken server"}, "network"),
    (418, {"message": "teapot"}, "invalid_request"),
)


@ALL
@pytest.mark.parametrize(("status", "error", "kind"), ERRORS)
def test_an_error_has_its_kind(form: Form, wire: Wire, status: int, error: dict[str, Any], kind: str) -> None:
    failure = failure_of(answers(form, wire, Refuse(status=status, body={"error": error})))
    assert failure.kind == kind
    if isinstance(error.get("code"), str):
        assert failure.details["vendor_code"] == error["code"]


@ALL
def test_an_error_that_is_only_a_text_is_read(form: Form, wire: Wire) -> None:
    failure = failure_of(answers(form, wire, Refuse(status=404, body={"error": "model 'x' not found, try pulling it"})))
    assert failure.kind == "model_unavailable"
    assert "try pulling it" in failure.message


@ALL
def test_an_error_in_a_list_of_one_is_read(form: Form, wire: Wire) -> None:
    error = {"code": 429, "message": "Resource has been exhausted.", "status": "RESOURCE_EXHAUSTED"}
    failure = failure_of(answers(form, wire, Refuse(status=429, body=[{"error": error}])))
    assert failure.kind == "rate_limit"
    assert failure.message.endswith("answered 429: Resource has been exhausted.")


@ALL
@pytest.mark.parametrize(
    ("headers", "said", "wait_s"),
    [
        ({}, "45.837906927s", 45.837906927),
        ({}, "7s", 7.0),
        ({"retry-after": "3"}, "7s", 3.0),
        ({}, "soon", None),
        ({}, 7, None),
        ({}, "-1s", None),
    ],
)
def test_a_server_may_say_in_its_error_how_long_to_wait(
    form: Form, wire: Wire, headers: dict[str, str], said: object, wait_s: float | None
) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.Help"}, "x", {"@type": "RetryInfo", "retryDelay": said}]
    body = [{"error": {"code": 429, "message": "You exceeded your current quota.", "details": details}}]
    failure = failure_of(answers(form, wire, Refuse(status=429, body=body, headers=headers)))
    assert (failure.kind, failure.retry_after_s) == ("rate_limit", wait_s)


@ALL
@pytest.mark.parametrize(
    ("quotas", "message", "kind"),
    [
        (
            [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
            "You exceeded your current quota.",
            "quota_exhausted",
        ),
        (
            [{"quotaMetric": "x.googleapis.com/generate_requests_per_model_per_day"}],
            "You exceeded it.",
            "quota_exhausted",
        ),
        (
            [{"quotaId": "RequestsPerMinute"}, {"quotaId": "TokensPerDay"}],
            "You exceeded your quota.",
            "quota_exhausted",
        ),
        (
            [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}],
            "You exceeded your current quota.",
            "rate_limit",
        ),
        ([], "Quota exceeded for metric 'Requests' and limit 'Requests per day per user'.", "quota_exhausted"),
        ([], "You have exhausted your daily quota on this model.", "quota_exhausted"),
        ([], "Rate limit reached on requests per day (RPD). Please try again in 7m12s.", "rate_limit"),
        (["x", {"quotaId": 7}], "You exceeded your current quota.", "rate_limit"),
        ("x", "You exceeded your current quota.", "rate_limit"),
    ],
)
def test_a_limit_of_the_day_is_a_quota_that_is_spent(
    form: Form, wire: Wire, quotas: object, message: str, kind: str
) -> None:
    """Gemini asks to wait for some seconds then, too."""
    details = [{"@type": "QuotaFailure", "violations": quotas}, {"@type": "RetryInfo", "retryDelay": "30s"}]
    body = [{"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}}]
    failure = failure_of(answers(form, wire, Refuse(status=429, body=body)))
    assert (failure.kind, failure.retryable) == (kind, kind == "rate_limit")


IN_STREAM: tuple[tuple[dict[str, Any], str], ...] = (
    ({"message": "boom", "type": "server_error", "code": None}, "network"),
    ({"message": "boom", "type": "server_error", "code": 500}, "network"),
    ({"message": "slow down", "code": "rate_limit_exceeded"}, "rate_limit"),
    ({"message": "Overloaded", "type": "overloaded_error"}, "rate_limit"),
    ({"message": "later", "type": "service_unavailable_error", "code": "server_is_overloaded"}, "network"),
    ({"message": "no money", "code": "insufficient_quota"}, "quota_exhausted"),
    ({"message": "the context window is full", "code": None}, "context_length_exceeded"),
    ({"message": "bad", "type": "invalid_request_error"}, "invalid_request"),
    ({"message": "what?", "code": "never_heard_of"}, "internal"),
)


@pytest.mark.parametrize(("error", "kind"), IN_STREAM)
def test_an_error_within_a_chat_stream_has_its_kind_and_the_text_before_it_is_kept(
    wire: Wire, error: dict[str, Any], kind: str
) -> None:
    completion = answers(CHAT[1], wire, Say(text="Par", error=error))
    assert failure_of(completion).kind == kind
    assert completion.text == "Par"
    assert completion.usage.estimated


@pytest.mark.parametrize("form", RESPONSES, ids=str)
def test_a_response_that_failed_has_the_kind_of_its_error(form: Form, wire: Wire) -> None:
    failed = Say(text="", finish="failed", error={"code": "rate_limit_exceeded", "message": "slow"})
    assert failure_of(answers(form, wire, failed)).kind == "rate_limit"
    for code in ("server_error", "server_is_overloaded"):
        failed = Say(text="", finish="failed", error={"code": code, "message": "boom"})
        assert failure_of(answers(form, wire, failed)).kind == "network"


def test_an_error_beside_the_message_has_its_kind_and_what_was_said_before_it_counts(wire: Wire) -> None:
    choice = {"message": {"content": "Par"}, "finish_reason": "error", "error": {"code": 502, "message": "upstream"}}
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    completion = answers(CHAT[0], wire, Raw(body=json.dumps({"choices": [choice], "usage": usage}).encode()))
    assert (failure_of(completion).kind, failure_of(completion).retryable) == ("network", True)
    assert "upstream" in failure_of(completion).message
    assert (completion.text, completion.usage.total) == ("Par", 9)


@pytest.mark.parametrize("form", CHAT, ids=str)
@pytest.mark.parametrize(
    ("said", "finish"),
    [("eos", "stop"), ("eos_token", "stop"), ("stop_sequence", "stop"), ("model_length", "length")],
)
def test_the_ways_to_end_of_other_servers_are_known(form: Form, wire: Wire, said: str, finish: str) -> None:
    completion = answers(form, wire, Say(text="Paris.", finish=said))
    assert (completion.text, completion.finish, completion.failure) == ("Paris.", finish, None)


@pytest.mark.parametrize("form", CHAT, ids=str)
@pytest.mark.parametrize("unsaid", [b"null", b'""'])
def test_an_answer_that_came_whole_has_ended_also_where_nobody_says_why(form: Form, wire: Wire, unsaid: bytes) -> None:
    search = Tool(name="search", description="Look it up.", input_schema={"type": "object"})
    for say, word in ((Say(), b'"stop"'), (Say(text="", tool="search", arguments={"q": 1}), b'"tool_calls"')):
        asks = {"model": "m", "stream_options": {"include_usage": True}}
        told = FORMATS["chat/completions"](say, asks, form.streamed)
        body = told.replace(b'"finish_reason": ' + word, b'"finish_reason": ' + unsaid)
        assert body != told
        turn = Raw(body=body, content_type="text/event-stream" if form.streamed else "application/json")
        completion = answers(form, wire, turn, exchange=asked(tools=(search,)))
        assert completion.failure is None
        assert (completion.text, len(completion.calls)) == (say.text, len(say.all_calls))
        assert not completion.usage.estimated


def test_an_error_event_ends_a_stream_of_responses(wire: Wire) -> None:
    completion = answers(RESPONSES[1], wire, Say(text="Par", error={"code": "server_error", "message": "boom"}))
    assert failure_of(completion).kind == "network"
    assert completion.text == "Par"


@pytest.mark.parametrize("left_out", [{"output": []}, {"output": None}, {}], ids=["empty", "null", "missing"])
def test_a_stream_of_responses_whose_last_event_leaves_out_what_was_said_is_an_answer(
    wire: Wire, left_out: dict[str, Any]
) -> None:
    search = Tool(name="search", description="Look it up.", input_schema={"type": "object"})
    call = {"type": "function_call", "call_id": "a", "name": "search", "arguments": '{"q": 1}'}
    end = {"status": "completed", "model": "m", "usage": {"input_tokens": 9, "output_tokens": 5}, **left_out}
    begin: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": "Par"},
        {"type": "response.output_text.delta", "delta": "is."},
        {"type": "response.output_item.done", "item": {"type": "message", "content": []}},
    ]
    for said in ([], [{"type": "response.output_item.done", "item": call}]):
        told = [*begin, *said, {"type": "response.completed", "response": end}]
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in told).encode()
        turn = Raw(body=body, content_type="text/event-stream")
        completion = answers(RESPONSES[1], wire, turn, exchange=asked(tools=(search,)))
        assert completion.failure is None
        assert (completion.text, completion.usage) == ("Paris.", Usage(input_tokens=9, output_tokens=5))
        assert [(each.id, each.arguments) for each in completion.calls] == ([("a", {"q": 1})] if said else [])
        assert b'"Paris."' in (completion.raw or b"")


@pytest.mark.parametrize(("phase", "text"), [("commentary", "Paris."), (None, "Let me see. Paris.")])
def test_what_a_model_says_on_its_way_to_an_answer_is_no_part_of_it(wire: Wire, phase: str | None, text: str) -> None:
    def message(said: str, phase: str | None) -> dict[str, Any]:
        return {"type": "message", "phase": phase, "content": [{"type": "output_text", "text": said}]}

    before, answer = message("Let me see. ", phase), message("Paris.", "final_answer")
    reply = {"status": "completed", "model": "m", "output": [before, answer]}
    assert answers(RESPONSES[0], wire, Raw(body=json.dumps(reply).encode())).text == text
    event = {"type": "response.completed", "response": reply}
    streamed = Raw(body=f"data: {json.dumps(event)}\n\n".encode(), content_type="text/event-stream")
    assert answers(RESPONSES[1], wire, streamed).text == text
    alone = Raw(body=json.dumps({**reply, "output": [before]}).encode())
    assert answers(RESPONSES[0], wire, alone).text == "Let me see. "


@ALL
def test_a_refusal_is_a_content_filter_failure_and_keeps_its_words(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text="", refusal="I cannot help with that."), exchange=asked(schema=CITY))
    failure = failure_of(completion)
    assert (failure.kind, completion.finish) == ("content_filter", "content_filter")
    assert "I cannot help with that." in failure.message
    assert completion.usage.output_tokens == 5


@ALL
def test_a_whole_object_survives_a_filter_that_struck_afterwards(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text=PARIS, finish="content_filter"), exchange=asked(schema=CITY))
    assert completion.ok
    assert completion.finish == "content_filter"


@ALL
def test_an_ending_that_no_format_knows_is_internal(form: Form, wire: Wire) -> None:
    assert failure_of(answers(form, wire, Say(finish="bored"))).kind == "internal"


@pytest.mark.parametrize("form", CHAT, ids=str)
def test_the_fingerprint_of_the_server_is_kept(form: Form, wire: Wire) -> None:
    assert answers(form, wire).fingerprint == "fp_44709d"


@pytest.mark.parametrize("form", CHAT, ids=str)
def test_what_is_sent_as_chat(form: Form, wire: Wire) -> None:
    answers(form, wire, exchange=asked(sampling=WISHES, limits=Limits(max_output_tokens=50)))
    assert wire.last.path == "/v1/chat/completions"
    sent = {key: value for key, value in wire.last.body.items() if not key.startswith("stream")}
    assert sent == {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is the capital of France?"},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "max_completion_tokens": 50,
    }
    assert wire.last.body.get("stream_options") == ({"include_usage": True} if form.streamed else None)


@pytest.mark.parametrize("form", RESPONSES, ids=str)
def test_what_is_sent_as_responses_and_nothing_is_stored(form: Form, wire: Wire) -> None:
    answers(form, wire, exchange=asked(sampling=WISHES, limits=Limits(max_output_tokens=50)))
    assert wire.last.path == "/v1/responses"
    sent = {key: value for key, value in wire.last.body.items() if key != "stream"}
    assert sent == {
        "model": "gpt-4o",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "What is the capital of France?"}],
        "store": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 50,
    }


@ALL
@pytest.mark.parametrize("model", ["o3-mini", "gpt-5", "gpt-5.2-pro"])
def test_a_reasoning_model_is_told_its_effort_and_no_temperature(form: Form, wire: Wire, model: str) -> None:
    answers(form, wire, exchange=asked(sampling=replace(WISHES, reasoning_effort=None)), model=model)
    assert not {"temperature", "top_p", "stop", "reasoning_effort", "reasoning"} & wire.last.body.keys()
    answers(form, wire, exchange=asked(sampling=WISHES), model=model)
    sent = wire.last.body
    assert not {"temperature", "top_p", "stop"} & sent.keys()
    assert "low" in (sent.get("reasoning_effort"), sent.get("reasoning", {}).get("effort"))


def form_sent(wire: Wire) -> Any:
    """The shape that was asked for, wherever the format puts it."""
    sent = wire.last.body
    if "text" in sent:
        return {key: value for key, value in sent["text"]["format"].items() if key != "type"}
    return sent["response_format"]["json_schema"]


@ALL
def test_a_schema_is_asked_for_strictly(form: Form, wire: Wire) -> None:
    exchange = replace(asked(schema=CITY), schema_name="the city / verdict")
    assert answers(form, wire, Say(text=PARIS), exchange=exchange).ok
    assert form_sent(wire) == {"name": "the_city___verdict", "strict": True, "schema": CITY}
    assert "JSON Schema" not in json.dumps(wire.last.body["messages" if form.api == "chat" else "input"])


@ALL
def test_what_is_optional_is_asked_for_as_null_and_taken_out_again(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text='{"city": "Rome", "river": null}'), exchange=asked(schema=OPTIONAL))
    assert form_sent(wire)["strict"] is True
    assert form_sent(wire)["schema"]["required"] == ["city", "river"]
    assert completion.structured == {"city": "Rome"}


@ALL
def test_a_schema_without_a_strict_form_is_asked_for_loosely(form: Form, wire: Wire) -> None:
    assert answers(form, wire, Say(text='{"any": {"x": 1}}'), exchange=asked(schema=OPEN)).structured == {
        "any": {"x": 1}
    }
    assert form_sent(wire) == {"name": "answer", "strict": False, "schema": OPEN}


@pytest.mark.parametrize("form", CHAT, ids=str)
@pytest.mark.parametrize("server", SERVERS)
def test_each_server_is_asked_for_a_shape_as_the_table_says(form: Form, wire: Wire, server: str) -> None:
    assert answers(form, wire, Say(text=PARIS), exchange=asked(schema=CITY), server=server).ok
    sent = wire.last.body
    assert ("response_format" in sent) == (SERVERS[server].chat == "json_schema")
    described = "JSON Schema" in sent["messages"][-1]["content"]
    assert described == (server != "openai")


@ALL
@pytest.mark.parametrize("structured", ["none", "json_object", "json_schema"])
def test_the_user_may_say_what_the_server_can(form: Form, wire: Wire, structured: str) -> None:
    assert answers(form, wire, Say(text=PARIS), exchange=asked(schema=CITY), structured=structured).ok
    sent = wire.last.body
    shape = sent.get("response_format") or sent.get("text", {}).get("format") or {}
    assert shape.get("type", "none") == structured
    question = (sent.get("messages") or sent["input"])[-1]["content"]
    assert ("JSON Schema" in question) == (structured != "json_schema")


@pytest.mark.parametrize("form", CHAT, ids=str)
def test_other_servers_get_the_older_name_of_the_token_limit(form: Form, wire: Wire) -> None:
    answers(form, wire, exchange=asked(limits=Limits(max_output_tokens=9)), server="vllm")
    assert wire.last.body["max_tokens"] == 9
    assert "max_completion_tokens" not in wire.last.body


@pytest.mark.parametrize("form", CHAT, ids=str)
def test_the_name_of_a_speaker_is_sent_where_the_format_takes_it(form: Form, wire: Wire) -> None:
    named = tuple(Message(role="user", content="hi", name=name) for name in ("ada", "two words"))
    answers(form, wire, exchange=asked(messages=named))
    assert [message.get("name") for message in wire.last.body["messages"]] == ["ada", None]


def test_text_that_comes_in_parts_is_put_together(wire: Wire) -> None:
    parts: Any = [
        {"type": "thinking", "thinking": []},
        {"type": "text", "text": "Par"},
        {"type": "text", "text": None},
        {"type": "text", "text": "is."},
    ]
    assert answers(CHAT[0], wire, Say(text=parts)).text == "Paris."


def test_the_vendors_own_address_needs_its_key() -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        open_openai("mine", {"model": "gpt-4o"}, {})
    opened = open_openai("mine", {"model": "gpt-4o"}, {"OPENAI_API_KEY": "sk-0123456789"})
    assert opened.describe()["base_url"] == "https://api.openai.com/v1"


def test_the_vendors_key_is_not_sent_to_another_address(wire: Wire) -> None:
    opened = open_openai("mine", {"base_url": f"{wire.url}/v1"}, {"OPENAI_API_KEY": "sk-0123456789"})
    assert "api_key" not in str(opened.describe())
    assert opened.describe()["kind"] == "openai"


@pytest.mark.parametrize("api", ["completions", 3])
def test_an_unknown_api_is_refused(api: Any) -> None:
    with pytest.raises(UsageError, match="api must be one of chat, responses"):
        open_openai("mine", {"base_url": "http://127.0.0.1:1", "api": api}, {})
