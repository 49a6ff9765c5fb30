"""Both providers against a real model: a small one, whose words mean little and whose formats are real.

Nothing here is asserted about speed, and of the words only what a model of this size says every time.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from hansard.domain.exchange import Completion, Exchange, Limits, Message, Sampling, Schema, Tool, ToolCall
from hansard.providers.anthropic import open_anthropic
from hansard.providers.base import Provider
from hansard.providers.conformance import Behaviour, LiveConformance
from hansard.providers.conformance.bench import VERDICT
from hansard.providers.hosted.provider import Hosted, Progress
from hansard.providers.openai import open_openai
from hansard.providers.schema import compile
from providers.asking import failure_of
from providers.small_model import KEY, Served, model_server

pytestmark = pytest.mark.real_model

APIS = ["chat", "responses", "messages"]
TIMEOUT_S = 300.0
QUESTION = "What is the capital of France? Answer in one sentence."
REVIEW: Schema = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["accept", "reject", "revise"]},
        "percent": {"type": "integer", "minimum": 0, "maximum": 100},
        "reasons": {"type": "array", "items": {"type": "string", "maxLength": 30}, "minItems": 1, "maxItems": 2},
    },
    "required": ["verdict", "percent", "reasons"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model() -> Iterator[Served]:
    with model_server() as served:
        yield served


@pytest.fixture(scope="module")
def reviewer() -> Iterator[Served]:
    with model_server(REVIEW) as served:
        yield served


@pytest.fixture(scope="module")
def counting() -> Iterator[Served]:
    """One that never comes to an end, however fast the machine: the model alone may well stop after a word."""
    with model_server({"type": "array", "items": {"type": "integer"}, "minItems": 5_000}) as served:
        yield served


def opened(api: str, served: Served, *, key: str = KEY, progress: Progress | None = None, **options: Any) -> Hosted:
    table = {"model": "smollm2", "server": "llama.cpp", "api_key_env": "KEY", "unmetered": True, **options}
    if api == "messages":
        return open_anthropic("small", {**table, "base_url": served.url}, {"KEY": key}, progress=progress)
    more = {"base_url": f"{served.url}/v1", "api": api}
    return open_openai("small", {**table, **more}, {"KEY": key}, progress=progress)


def ask(api: str, served: Served, question: str = QUESTION, *, tokens: int = 24, **more: Any) -> Completion:
    opening = {name: more.pop(name) for name in ("key", "progress", "stream") if name in more}
    exchange = Exchange(
        messages=more.pop("messages", (Message(role="user", content=question),)),
        sampling=more.pop("sampling", Sampling(temperature=0.0)),
        limits=Limits(timeout_s=TIMEOUT_S, max_output_tokens=tokens),
        **more,
    )

    async def once() -> Completion:
        provider = opened(api, served, **opening)
        try:
            return await provider.complete(exchange)
        finally:
            await provider.close()

    return asyncio.run(once())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_plain_question_is_answered(api: str, stream: bool, model: Served) -> None:
    completion = ask(api, model, stream=stream)
    assert completion.failure is None
    assert "Paris" in completion.text
    assert completion.finish == "stop"
    assert (completion.requested_model, completion.returned_model) == ("smollm2", "smollm2")
    assert completion.usage.input_tokens > 20
    assert 0 < completion.usage.output_tokens <= 24
    assert not completion.usage.estimated
    assert completion.cost.basis == "unmetered"


@pytest.mark.parametrize("api", APIS)
def test_the_same_question_at_temperature_0_has_the_same_answer_whole_and_streamed(api: str, model: Served) -> None:
    pieces: list[str] = []
    first, second = ask(api, model, stream=False), ask(api, model, stream=False)
    streamed = ask(api, model, progress=lambda _, piece: pieces.append(piece))
    assert first.text == second.text == streamed.text == "".join(pieces)
    assert len(pieces) > 2
    assert streamed.finish == first.finish
    assert streamed.usage.output_tokens == first.usage.output_tokens
    assert streamed.usage.input_tokens == first.usage.input_tokens


def is_a_review(completion: Completion) -> bool:
    assert completion.failure is None, completion.failure
    assert json.loads(completion.text) == completion.structured
    return compile(REVIEW).check(completion.structured) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_shape_that_the_chat_endpoint_keeps_is_valid_when_checked_again(seed: int, model: Served) -> None:
    wild = Sampling(temperature=0.9, seed=seed)
    assert is_a_review(ask("chat", model, "Review: 2 + 2 = 4.", schema=REVIEW, sampling=wild, tokens=120))


def test_a_streamed_shape_is_valid_too(model: Served) -> None:
    pieces: list[str] = []
    shown: Progress = lambda _, piece: pieces.append(piece)  # noqa: E731
    assert is_a_review(ask("chat", model, "Review: 2 + 2 = 4.", schema=REVIEW, progress=shown, tokens=120))
    assert len(pieces) > 5


@pytest.mark.parametrize("api", ["messages", "responses"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_shape_that_the_server_keeps_by_itself_is_valid_when_checked_again(
    api: str, temperature: float, reviewer: Served
) -> None:
    sampling = Sampling(temperature=temperature)
    assert is_a_review(ask(api, reviewer, "Review: 2 + 2 = 4.", schema=REVIEW, sampling=sampling, tokens=120))


@pytest.mark.parametrize("api", ["messages", "responses"])
def test_a_shape_that_nobody_keeps_is_noticed(api: str, model: Served) -> None:
    failure = failure_of(ask(api, model, "Sing.", schema=REVIEW, tokens=16))
    assert failure.kind in {"malformed_response", "context_length_exceeded"}


def test_a_shape_that_is_cut_off_is_context_length_exceeded(model: Served) -> None:
    completion = ask("chat", model, "Review: 2 + 2 = 4.", schema=REVIEW, tokens=6)
    assert failure_of(completion).kind == "context_length_exceeded"
    assert completion.finish == "length"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_tools_and_the_results_of_calls_are_taken_by_a_real_server(api: str, stream: bool, model: Served) -> None:
    look = Tool(name="look", description="Look at a place.", input_schema={"type": "object"})
    call = ToolCall(id="c-7", name="look", arguments={"at": "Paris"})
    conversation = (
        Message(role="user", content="How is the weather in Paris?"),
        Message(role="assistant", content="", calls=(call,)),
        Message(role="tool", content="It rains.", name="look", call_id="c-7"),
    )
    completion = ask(api, model, stream=stream, tools=(look,), messages=conversation)
    assert completion.failure is None
    assert completion.text or completion.calls


@pytest.mark.parametrize("api", APIS)
def test_a_question_beyond_the_context_is_told_as_such(api: str, model: Served) -> None:
    failure = failure_of(ask(api, model, "word " * 6_000))
    assert failure.kind == "context_length_exceeded"
    assert not failure.retryable


@pytest.mark.parametrize("api", APIS)
def test_a_wrong_key_is_an_auth_failure(api: str, model: Served) -> None:
    failure = failure_of(ask(api, model, key="sk-wrong-0123456789"))
    assert failure.kind == "auth_failure"
    assert "sk-wrong" not in repr(failure)


class SmallModelConformance(LiveConformance):
    """The suite for what answers as it likes."""

    api: ClassVar[str]
    secrets = (KEY,)
    slack_s = 120.0

    @pytest.fixture(autouse=True)
    def _serve(self, model: Served, counting: Served) -> None:
        self._plain = self._now = model
        self._endless = counting

    @asynccontextmanager
    async def opened(self, behaviour: Behaviour) -> AsyncIterator[Provider]:
        if behaviour.says.startswith("{") and self.api != "chat":
            with model_server(VERDICT) as served:
                async with self._opened(served) as provider:
                    yield provider
        else:
            async with self._opened(self._endless if behaviour.hangs else self._plain) as provider:
                yield provider

    @asynccontextmanager
    async def _opened(self, served: Served) -> AsyncIterator[Provider]:
        self._now = served
        provider = opened(self.api, served)
        try:
            yield provider
        finally:
            await provider.close()

    def at_work(self) -> int:
        return self._now.busy()


class TestChat(SmallModelConformance):
    api = "chat"


class TestResponses(SmallModelConformance):
    api = "responses"


class TestMessages(SmallModelConformance):
    api = "messages"
