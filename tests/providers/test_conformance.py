"""The suite, on the providers that need no network and no child, and on somebody's that keeps no contract by itself."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Cost, Usage
from hansard.providers.base import Answering, Provider, failure
from hansard.providers.breaker import Breaker
from hansard.providers.conformance import Behaviour, ProviderConformance, cannot, question
from hansard.providers.limits import Limited
from hansard.providers.recording import RecordedCall, Recording, call_of, opened
from hansard.providers.replayed import Replayed
from hansard.providers.reply import Reply
from hansard.providers.script import Entry, Script
from hansard.providers.scripted import Scripted
from hansard.providers.scrubbed import Scrubbed
from hansard.providers.secrets import Secrets
from providers.pretend import KEY, Rude


def script_of(behaviour: Behaviour) -> Script:
    if behaviour.echoes:
        raise cannot("echo: a script is written beforehand")
    why = failure(behaviour.fails, "as written", retry_after_s=behaviour.retry_after_s) if behaviour.fails else None
    reply = Reply(
        text="" if why else behaviour.says,
        finish="length" if behaviour.cut_off else "stop",
        usage=behaviour.usage,
        failure=why,
    )
    entry = Entry(reply=reply, latency_s=3600.0 if behaviour.hangs else 0.0)
    return Script(entries=(entry,), on_exhaustion="loop")


class TestScripted(ProviderConformance):
    def make(self, behaviour: Behaviour) -> Provider:
        self.provider = Scripted(script_of(behaviour))
        return self.provider

    def at_work(self) -> int:
        return self.provider.in_flight


class TestWithLimitsAndABreaker(ProviderConformance):
    def make(self, behaviour: Behaviour) -> Provider:
        self.provider = Scripted(script_of(behaviour))
        return Limited(Breaker(self.provider), max_concurrent=2, per_minute=60_000)

    def at_work(self) -> int:
        return self.provider.in_flight


class TestAThirdPartysThatIsHeldToTheContract(ProviderConformance):
    secrets = (KEY,)

    def make(self, behaviour: Behaviour) -> Provider:
        self.provider = Rude(behaviour)
        return Scrubbed(Answering(self.provider), Secrets({"RUDE_KEY": KEY}))

    def at_work(self) -> int:
        return self.provider.at_work


class TestReplayed(ProviderConformance):
    """Nothing hangs in a recording, and the questions are not known beforehand: every prompt counts as the recorded one."""

    def make(self, behaviour: Behaviour) -> Provider:
        if behaviour.hangs:
            raise cannot("hang: a recording has ended")
        reply = script_of(behaviour).entries[0].reply
        if reply.usage is None:
            raise cannot("lack usage: a recording holds what was counted or estimated")
        call = RecordedCall(
            call=call_of(question()),
            prompt_sha256=sha256(b"any").hexdigest(),
            completion=reply.completion("replayed", "m-1"),
        )
        return Replayed(Recording(calls=(call,)), prompt=lambda exchange: b"any" if opened(exchange) else b"")


class Unheld(ProviderConformance):
    """Not collected: a provider that keeps no contract, and is not held to it."""

    slack_s = 0.2
    secrets = (KEY,)

    def make(self, behaviour: Behaviour) -> Provider:
        self.provider = Rude(behaviour)
        return self.provider

    def at_work(self) -> int:
        return self.provider.at_work


@pytest.mark.parametrize(
    "name",
    [
        "test_a_question_gets_a_text",
        "test_a_shape_that_is_asked_for_is_kept",
        "test_a_deadline_ends_the_call_and_the_work",
        "test_a_question_that_makes_no_sense_is_refused_and_not_asked",
        "test_an_answer_that_misses_the_shape_is_malformed_and_kept",
        "test_usage_that_nobody_reports_is_estimated_and_says_so",
        "test_every_kind_of_failure_is_told_as_what_it_is",
        "test_a_failure_is_no_answer_even_when_it_reads_like_one",
        "test_a_secret_that_comes_back_does_not_get_out",
    ],
)
def test_a_provider_that_keeps_no_contract_fails_the_suite(name: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, TimeoutError, IndexError)):
        getattr(Unheld(), name)()


GOOD = Completion(
    provider="rude",
    requested_model="m",
    returned_model="m",
    text="Paris.",
    usage=Usage(input_tokens=1, output_tokens=1),
)
BAD = failure("network", "gone")


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": "other"},
        {"requested_model": ""},
        {"returned_model": ""},
        {"finish": "tool_call"},
        {"finish": "error"},
        {"usage": Usage()},
        {"usage": Usage(input_tokens=-1)},
        {"cost": Cost(usd_nano=-1)},
        {"failure": BAD},
        {"failure": BAD, "finish": "error", "structured": {}},
        {"failure": failure("auth_failure", "no", retryable=True), "finish": "error"},
        {"failure": failure("network", ""), "finish": "error"},
        {"failure": failure("bad luck", "no"), "finish": "error"},  # type: ignore[arg-type]
        {"failure": BAD, "finish": "error", "usage": Usage()},
        {"text": f"the key is {KEY}"},
        {"stderr": KEY.encode()},
        {"failure": failure("network", "gone", header=KEY), "finish": "error"},
    ],
    ids=str,
)
def test_the_suite_knows_a_completion_that_contradicts_itself(wrong: dict[str, Any]) -> None:
    Unheld().check(Rude(Behaviour()), question(), GOOD)
    with pytest.raises(AssertionError):
        Unheld().check(Rude(Behaviour()), question(), replace(GOOD, **wrong))
