"""Replies with status 200 that say something odd: an error, or counts that nobody can have counted."""

import json
from typing import Any

import pytest

from hansard.providers.checks import MOST_MESSAGE, MOST_TOKENS
from providers.asking import FORMS, Form, answers, failure_of
from providers.wire import Raw, Say, Wire
from providers.wire_formats import FORMATS

pytestmark = pytest.mark.parametrize("form", [form for form in FORMS if not form.streamed], ids=str)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "type": "rate_limit_error", "message": "slow down"}, "rate_limit"),
        ({"type": "rate_limit_error", "message": "slow down"}, "rate_limit"),
        ({"type": "api_error", "message": "slow down"}, "network"),
        ("slow down", "internal"),
    ],
    ids=str,
)
def test_an_error_that_comes_with_status_200_has_its_kind(form: Form, wire: Wire, error: Any, kind: str) -> None:
    body = json.dumps({"type": "error", "error": error}).encode()
    completion = answers(form, wire, Raw(body=body))
    assert failure_of(completion).kind == kind
    assert "slow down" in failure_of(completion).message
    assert completion.raw == body


@pytest.mark.parametrize(
    "reply",
    [
        {"x" * 1_000_000: 1},
        {"error": {"code": "x" * 1_000_000, "type": "y" * 1_000_000, "message": "z" * 1_000_000}},
    ],
    ids=["keys", "error"],
)
def test_what_is_said_of_a_failure_is_no_longer_than_anybody_reads(
    form: Form, wire: Wire, reply: dict[str, Any]
) -> None:
    body = json.dumps(reply).encode()
    completion = answers(form, wire, Raw(body=body))
    failure = failure_of(completion)
    assert len(failure.message) <= MOST_MESSAGE
    assert len(str(failure.details)) <= 2 * MOST_MESSAGE
    assert completion.raw == body


def test_an_ending_that_nobody_knows_is_told_in_short(form: Form, wire: Wire) -> None:
    reply = FORMATS[{"chat": "chat/completions"}.get(form.api, form.api)](Say(), {"model": "m"}, False)
    for word in (b'"stop"', b'"completed"', b'"end_turn"'):
        reply = reply.replace(word, b'"' + b"x" * 1_000_000 + b'"')
    failure = failure_of(answers(form, wire, Raw(body=reply)))
    assert "ended" in failure.message
    assert len(failure.message) <= MOST_MESSAGE


NAMES = {"chat": ("prompt_tokens", "completion_tokens"), "responses": ("input_tokens", "output_tokens")}


@pytest.mark.parametrize("count", [-5, 10.0, "10", True, None, MOST_TOKENS + 1], ids=str)
def test_a_count_that_cannot_be_one_is_no_report(form: Form, wire: Wire, count: Any) -> None:
    first, second = NAMES.get(form.api, NAMES["responses"])
    reply = json.loads(FORMATS[{"chat": "chat/completions"}.get(form.api, form.api)](Say(), {"model": "m"}, False))
    for usage in ({first: count, second: 5}, {first: 5, second: count}, {second: 5}, {}):
        completion = answers(form, wire, Raw(body=json.dumps({**reply, "usage": usage}).encode()))
        assert completion.ok
        assert completion.usage.estimated
        assert completion.usage.input_tokens > 0 < completion.usage.output_tokens


@pytest.mark.parametrize(("counts", "kept"), [((0, 5), "output_tokens"), ((5, 0), "input_tokens")])
def test_what_a_server_counts_as_nothing_is_estimated_and_its_other_count_stands(
    form: Form, wire: Wire, counts: tuple[int, int], kept: str
) -> None:
    names = NAMES.get(form.api, NAMES["responses"])
    text = "x" * 400
    reply = json.loads(
        FORMATS[{"chat": "chat/completions"}.get(form.api, form.api)](Say(text=text), {"model": "m"}, False)
    )
    usage = answers(
        form, wire, Raw(body=json.dumps({**reply, "usage": dict(zip(names, counts, strict=True))}).encode())
    ).usage
    assert usage.estimated
    assert getattr(usage, kept) == 5
    assert usage.input_tokens > 0
    assert usage.output_tokens in (5, 100)


@pytest.mark.parametrize(
    ("total", "output"), [(1016, 996), (444, 424), (20, 424), (-1, 424), (10**12, 424), (None, 424)]
)
def test_what_a_model_thought_counts_also_where_the_total_alone_tells_it(
    form: Form, wire: Wire, total: Any, output: int
) -> None:
    first, second = NAMES.get(form.api, NAMES["responses"])
    reply = json.loads(FORMATS[{"chat": "chat/completions"}.get(form.api, form.api)](Say(), {"model": "m"}, False))
    counts = {first: 20, second: 424, "total_tokens": total}
    usage = answers(form, wire, Raw(body=json.dumps({**reply, "usage": counts}).encode())).usage
    told = output if form.api in NAMES else 424
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (20, told, False)
