"""What only a stream can do, in every format that streams."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hansard.domain.exchange import Exchange, Limits
from hansard.providers.hosted import events
from hansard.providers.openai.chat import ChatFold
from providers.asking import CHAT, MESSAGES, STREAMED, Form, answers, asked, failure_of, run
from providers.wire import Cut, Endless, Flood, Raw, Say, Wire
from providers.wire_formats import FORMATS

streamed = pytest.mark.parametrize("form", STREAMED, ids=str)
WITHIN_S = 30.0


def told(form: Form, exchange: Exchange, wire: Wire) -> list[str]:
    heard: list[str] = []

    def progress(asked_for: Exchange, piece: str) -> None:
        assert asked_for is exchange
        heard.append(piece)

    assert answers(form, wire, exchange=exchange, progress=progress).text == "".join(heard)
    return heard


@streamed
def test_progress_tells_each_piece_as_it_comes(form: Form, wire: Wire) -> None:
    assert told(form, asked(), wire) == ["Pari", "s."]
    assert wire.last.body["stream"] is True


@streamed
def test_what_was_said_before_the_deadline_is_kept(form: Form, wire: Wire) -> None:
    text = "All work and no play. " * 40
    completion = answers(form, wire, Cut(say=Say(text=text), silently=True), exchange=asked(timeout_s=3))
    assert failure_of(completion).kind == "timeout"
    assert text.startswith(completion.text)
    assert completion.text
    assert completion.usage.estimated
    assert completion.usage.output_tokens > 0
    assert completion.cost.basis == "estimate"
    assert completion.raw is not None
    assert wire.was_given_up()


@streamed
def test_a_stream_that_ends_early_and_politely_is_a_network_failure(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Cut(say=Say(text="Paris. " * 20), keep=0.6, cleanly=True))
    failure = failure_of(completion)
    assert (failure.kind, failure.retryable) == ("network", True)
    assert completion.text.startswith("Paris.")
    assert completion.usage.estimated


def test_what_a_stream_had_counted_when_it_broke_off_counts(wire: Wire) -> None:
    [form] = [each for each in STREAMED if str(each) == "messages-streamed"]
    text = "Paris. \ud83d" * 200
    usage = answers(form, wire, Cut(say=Say(text=text, tokens=(900, 500, 80)), keep=0.6, cleanly=True)).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.estimated) == (980, 80, True)
    # Of the answer it had counted one token, at its beginning.
    assert 100 < usage.output_tokens < 500


@streamed
def test_a_connection_that_breaks_behind_the_end_of_an_answer_takes_nothing_from_it(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Cut(say=Say(headers={"content-length": "1000000"}), keep=1.0))
    assert completion.failure is None
    assert completion.text == "Paris."
    assert not completion.usage.estimated


def test_a_whole_answer_of_which_only_the_count_is_missing_is_estimated(wire: Wire) -> None:
    completion = answers(CHAT[1], wire, Cut(keep=0.95))
    assert completion.failure is None
    assert completion.text == "Paris."
    assert completion.usage.estimated


@streamed
def test_a_server_that_stays_on_the_line_behind_its_answer_is_not_waited_for(form: Form, wire: Wire) -> None:
    held = Cut(say=Say(headers={"content-length": "1000000"}), keep=1.0, silently=True)
    completion = answers(form, wire, held)
    assert completion.failure is None
    assert completion.text == "Paris."
    assert not completion.usage.estimated
    assert wire.was_given_up()


@pytest.mark.parametrize("form", [CHAT[1], MESSAGES[1]], ids=str)
def test_a_server_that_never_says_that_its_stream_is_over_is_not_waited_for_either(
    form: Form, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LINGER_S", 0.2)
    completion = answers(form, wire, Cut(keep=0.97, silently=True), exchange=asked(timeout_s=WITHIN_S))
    assert completion.failure is None
    assert completion.text == "Paris."
    assert wire.was_given_up()


@pytest.mark.parametrize(
    ("form", "path", "end"),
    [(CHAT[1], "chat/completions", b"data: [DONE]"), (MESSAGES[1], "messages", b"event: message_stop")],
    ids=str,
)
def test_events_without_end_behind_an_answer_do_not_keep_it_from_counting(
    form: Form, path: str, end: bytes, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LINGER_S", 0.2)
    body = FORMATS[path](Say(), {"model": "m", "stream_options": {"include_usage": True}}, True).partition(end)[0]
    endless = Endless(body=body, event=b'data: {"type": "ping", "choices": []}\n\n')
    completion = answers(form, wire, endless, exchange=asked(timeout_s=WITHIN_S))
    assert completion.failure is None
    assert (completion.text, completion.usage.estimated) == ("Paris.", False)
    assert wire.was_given_up()


@pytest.mark.parametrize("cleanly", [True, False])
def test_an_answer_that_has_said_why_it_ended_is_whole_without_a_last_event(wire: Wire, cleanly: bool) -> None:
    completion = answers(MESSAGES[1], wire, Cut(keep=0.97, cleanly=cleanly))
    assert completion.failure is None
    assert (completion.text, completion.finish) == ("Paris.", "stop")
    assert not completion.usage.estimated


@streamed
def test_an_event_that_is_no_json_is_internal(form: Form, wire: Wire) -> None:
    body = b"event: x\ndata: {not json}\n\n"
    assert failure_of(answers(form, wire, Raw(body=body, content_type="text/event-stream"))).kind == "internal"


@pytest.mark.parametrize("junk", [b"DONE", b'"[DONE]"', b"null", b"{"])
def test_an_event_that_is_no_json_behind_the_end_of_an_answer_takes_nothing_from_it(wire: Wire, junk: bytes) -> None:
    stream = FORMATS["chat/completions"](Say(), {"model": "m", "stream_options": {"include_usage": True}}, True)
    body = stream.replace(b"data: [DONE]", b"data: " + junk)
    assert body != stream
    completion = answers(CHAT[1], wire, Raw(body=body, content_type="text/event-stream"))
    assert completion.failure is None
    assert (completion.text, completion.usage.estimated) == ("Paris.", False)


def test_an_error_behind_the_end_of_an_answer_takes_nothing_from_it(wire: Wire) -> None:
    for form, path, end in (
        (CHAT[1], "chat/completions", b"data: [DONE]"),
        (MESSAGES[1], "messages", b"event: message_stop"),
    ):
        stream = FORMATS[path](Say(), {"model": "m", "stream_options": {"include_usage": True}}, True).partition(end)[0]
        body = stream + b'data: {"type": "error", "error": {"type": "api_error", "message": "no count"}}\n\n'
        completion = answers(form, wire, Raw(body=body, content_type="text/event-stream"))
        assert completion.failure is None
        assert (completion.text, completion.usage.estimated) == ("Paris.", False)


@streamed
@pytest.mark.parametrize("nothing", [b"data:\n\n", b"event: ping\ndata: \n\n"])
def test_an_event_without_data_is_none(form: Form, wire: Wire, nothing: bytes) -> None:
    path = {"chat": "chat/completions"}.get(form.api, form.api)
    stream = FORMATS[path](Say(), {"model": "m"}, True)
    body = stream.replace(b"\n\n", b"\n\n" + nothing)
    completion = answers(form, wire, Raw(body=body, content_type="text/event-stream"))
    assert (completion.failure, completion.text) == (None, "Paris.")


@streamed
def test_an_answer_that_comes_whole_though_a_stream_was_asked_for_is_an_answer(form: Form, wire: Wire) -> None:
    body = FORMATS[{"chat": "chat/completions"}.get(form.api, form.api)](Say(), {"model": form.model}, False)
    completion = answers(form, wire, Raw(body=body))
    assert completion.failure is None
    assert (completion.text, completion.raw) == ("Paris.", body)
    assert not completion.usage.estimated


@streamed
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "event"])
def test_an_error_that_comes_in_place_of_a_stream_has_its_kind_and_is_kept(
    form: Form, wire: Wire, stream: bool
) -> None:
    error = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}).encode()
    turn = Raw(body=b"data: " + error + b"\n\n", content_type="text/event-stream") if stream else Raw(body=error)
    completion = answers(form, wire, turn)
    failure = failure_of(completion)
    assert (failure.kind, "slow down" in failure.message) == ("rate_limit", True)
    assert completion.raw == turn.body


@streamed
def test_one_endless_event_is_stopped(form: Form, wire: Wire) -> None:
    exchange = asked(limits=Limits(timeout_s=WITHIN_S, max_output_bytes=1_000))
    completion = answers(form, wire, Flood(content_type="text/event-stream"), exchange=exchange)
    assert failure_of(completion).kind == "malformed_response"
    assert wire.was_given_up()


UNSEEN: dict[str, Say] = {
    "chat-streamed": Say(refusal="no " * 100_000),
    "messages-streamed": Say(thinking="hmm " * 100_000),
}


@pytest.mark.parametrize("form", [form for form in STREAMED if str(form) in UNSEEN], ids=str)
def test_what_is_no_part_of_the_text_is_bounded_too(form: Form, wire: Wire) -> None:
    said = UNSEEN[str(form)]
    completion = answers(form, wire, said, exchange=asked(limits=Limits(max_output_bytes=1_000)))
    assert failure_of(completion).kind == "malformed_response"
    assert len(completion.raw or b"") < 100_000


HEADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "chat-streamed": lambda n: {f"x{n}": "?" * 10_000, "choices": []},
    "messages-streamed": lambda n: {"type": "message_delta", "delta": {f"x{n}": "?" * 10_000}},
}


@pytest.mark.parametrize("form", [form for form in STREAMED if str(form) in HEADS], ids=str)
def test_what_a_stream_says_besides_its_content_is_bounded_too(form: Form, wire: Wire) -> None:
    made = (f"data: {json.dumps(HEADS[str(form)](n))}\n\n".encode() for n in range(100))
    flood = Raw(body=b"".join(made), content_type="text/event-stream")
    completion = answers(form, wire, flood, exchange=asked(limits=Limits(max_output_bytes=1_000)))
    assert failure_of(completion).kind == "malformed_response"
    assert len(completion.raw or b"") < 100_000


def test_what_a_stream_says_again_and_again_counts_once() -> None:
    fold = ChatFold()
    for n in range(1_000):
        fold.take({"id": "x", "usage": {"prompt_tokens": n}, "choices": []})
    assert fold.held < 100


def test_a_long_stream_of_short_events_is_read_whatever_ends_its_lines(wire: Wire) -> None:
    head = {"id": "x" * 100, "object": "chat.completion.chunk", "model": "m"}
    said = [{"delta": {"content": "a"}}] * 1_000 + [{"delta": {}, "finish_reason": "stop"}]
    for end in ("\n", "\r\n"):
        body = "".join(f"data: {json.dumps({**head, 'choices': [each]})}{end}{end}" for each in said).encode()
        assert len(body) > 100_000
        turn = Raw(body=body, content_type="text/event-stream")
        completion = answers(CHAT[1], wire, turn, exchange=asked(limits=Limits(max_output_bytes=1_000)))
        assert completion.text == "a" * 1_000


def test_a_long_stream_of_short_events_is_read_also_where_its_lines_come_one_by_one(wire: Wire) -> None:
    head = {"id": "x" * 100, "object": "chat.completion.chunk", "model": "m"}
    said = [{"delta": {"content": "a"}}] * 1_000 + [{"delta": {}, "finish_reason": "stop"}]
    for end in (b"\n", b"\r\n"):
        lines = [b"data: " + json.dumps({**head, "choices": [each]}).encode() + end for each in said]
        pieces = [piece for line in lines for piece in (line, end)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (*pieces, b""))
        turn = Raw(body=body, content_type="text/event-stream", headers={"transfer-encoding": "chunked"})
        completion = answers(CHAT[1], wire, turn, exchange=asked(limits=Limits(max_output_bytes=1_000)))
        assert completion.text == "a" * 1_000


@streamed
def test_line_separators_of_unicode_do_not_break_an_event(form: Form, wire: Wire) -> None:
    text = "a\u2028b\u2029c\u0085d\x0be"
    assert answers(form, wire, Say(text=text)).text == text


@streamed
@pytest.mark.parametrize("keep", [1.0, 0.7], ids=["whole", "cut"])
def test_a_character_whose_halves_come_in_two_events_is_one(form: Form, wire: Wire, keep: float) -> None:
    completion = answers(form, wire, Cut(say=Say(text="Par\ud83d\ude00is " + "is it. " * 20), keep=keep))
    assert completion.text.startswith("Par\N{GRINNING FACE}is is it.")
    assert "Par\N{GRINNING FACE}is is it.".encode() in (completion.raw or b"")


@streamed
def test_half_of_a_character_stays_on_the_record(form: Form, wire: Wire) -> None:
    completion = answers(form, wire, Say(text="Par\ud83dis"))
    assert completion.text.startswith("Par\N{REPLACEMENT CHARACTER}")
    assert b"Par\\ud83dis" in (completion.raw or b"")


def test_a_byte_order_mark_before_a_stream_is_no_part_of_it(wire: Wire) -> None:
    said = [{"delta": {"content": "Par"}}, {"delta": {"content": "is."}}, {"delta": {}, "finish_reason": "stop"}]
    body = "".join(f"data: {json.dumps({'choices': [each]})}\n\n" for each in said).encode("utf-8-sig")
    assert answers(CHAT[1], wire, Raw(body=body, content_type="text/event-stream")).text == "Paris."


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_read_however_they_are_cut(end: bytes) -> None:
    lines = b': comment\r\nevent: x\r\ndata: {"a":\r\ndata: 1}\r\n\r\nid: 3\n\ndata:{"b": "\xe2\x80\xa8"}\n\ndata: [DONE]\n\nmore'
    body = lines.replace(b"\n\n", 2 * end)
    wanted = [{"a": 1}, {"b": "\u2028"}]

    async def read(size: int) -> list[Any]:
        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(body), size):
                yield body[start : start + size]

        return [event async for event in events.events(chunks())]

    assert all(run(read(size)) == wanted for size in range(1, len(body) + 1))
