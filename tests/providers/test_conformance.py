"""The suite, on the providers that need no network and no child, and on somebody's that keeps no contract by itself."""

from hashlib import sha256

from hansard.domain.exchange import Completion
from hansard.providers.base import Answering, Provider, failure
from hansard.providers.breaker import Breaker
from hansard.providers.conformance import Behaviour, ProviderConformance, cannot
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
        from hansard.providers.conformance import question

        call = RecordedCall(
            call=call_of(question()),
            prompt_sha256=sha256(b"any").hexdigest(),
            completion=reply.completion("replayed", "m-1"),
        )
        return Replayed(Recording(calls=(call,)), prompt=lambda exchange: b"any" if opened(exchange) else b"")


def test_a_provider_that_keeps_no_contract_fails_the_suite() -> None:
    class Unheld(ProviderConformance):
        def make(self, behaviour: Behaviour) -> Provider:
            return Rude(behaviour)

    failed = []
    for name in dir(Unheld):
        if name.startswith("test_"):
            try:
                getattr(Unheld(), name)()
            except Exception:  # noqa: BLE001 - which test fails and not how is what is counted
                failed.append(name)
            except BaseException as error:
                assert type(error).__name__ == "SkipTest", error
    assert len(failed) > 10


def test_the_suite_knows_a_completion_that_contradicts_itself() -> None:
    suite = ProviderConformance()
    provider = Rude(Behaviour())
    from hansard.providers.conformance import question

    good = Completion(
        provider="rude", requested_model="m", returned_model="m", text="x", usage=Rude(Behaviour())._behaviour.usage
    )  # type: ignore[arg-type]
    suite.check(provider, question(), good)
