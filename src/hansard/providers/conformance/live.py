"""What holds for a provider whatever it answers: a real model passes this too."""

import asyncio
import json

from hansard.domain.exchange import Exchange, Sampling
from hansard.providers.conformance.bench import VERDICT, Behaviour, Bench, question
from hansard.providers.schema import compile

A_VERDICT = json.dumps({"ok": True, "reason": "it fits"})
SHORT_S = 0.5


class LiveConformance(Bench):
    """Tests that do not look at the words."""

    def test_a_question_gets_a_text(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour()) as provider:
                completion = await self.ask(provider, question(max_output_tokens=32))
                assert completion.failure is None
                assert completion.text.strip()

        self.run(test)

    def test_a_shape_that_is_asked_for_is_kept(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(says=A_VERDICT)) as provider:
                completion = await self.ask(provider, question("Does it fit?", schema=VERDICT, max_output_tokens=200))
                assert completion.failure is None
                assert compile(VERDICT).check(completion.structured) is None

        self.run(test)

    def test_what_a_provider_does_not_know_about_sampling_it_passes_over(self) -> None:
        sampling = Sampling(temperature=0.0, top_p=1.0, seed=7, stop=("\n\n",), reasoning_effort="low")

        async def test() -> None:
            async with self.opened(Behaviour()) as provider:
                completion = await self.ask(provider, question(sampling=sampling, max_output_tokens=32))
                assert completion.failure is None

        self.run(test)

    def test_a_deadline_ends_the_call_and_the_work(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(hangs=True)) as provider:
                async with asyncio.timeout(SHORT_S + self.slack_s):
                    completion = await self.ask(provider, _long(timeout_s=SHORT_S))
                assert completion.failure is not None
                assert completion.failure.kind == "timeout"
                assert completion.failure.retryable
                await self.until(lambda: self.at_work() == 0, "the work goes on after the deadline")

        self.run(test)

    def test_cancellation_passes_and_ends_the_work(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(hangs=True)) as provider:
                asking = asyncio.create_task(provider.complete(_long(timeout_s=60.0)))
                await self.until(lambda: self.at_work() == 1, "the question never reached what answers it")
                asking.cancel()
                done, _ = await asyncio.wait({asking}, timeout=self.slack_s)
                assert asking in done, "cancelling does not end the call"
                assert asking.cancelled(), "a call that was cancelled must not answer"
                await self.until(lambda: self.at_work() == 0, "the work goes on after cancellation")

        self.run(test)

    def test_several_questions_at_once_are_all_answered(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour()) as provider:
                asked = [self.ask(provider, question(max_output_tokens=16)) for _ in range(4)]
                assert all(each.failure is None for each in await asyncio.gather(*asked))

        self.run(test)

    def test_a_question_that_makes_no_sense_is_refused_and_not_asked(self) -> None:
        nonsense = (
            Exchange(messages=()),
            question("half of a character: \ud800"),
            question(schema={"type": "object", "propertyOrder": ["ok"]}),
            question(timeout_s=0.0),
        )

        async def test() -> None:
            async with self.opened(Behaviour()) as provider:
                for exchange in nonsense:
                    completion = await self.ask(provider, exchange)
                    assert completion.failure is not None
                    assert completion.failure.kind == "invalid_request"

        self.run(test)

    def test_closing_twice_is_closing_once(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour()) as provider:
                await self.ask(provider, question(max_output_tokens=8))
                await provider.close()
                await provider.close()

        self.run(test)

    def test_it_says_what_it_is_and_no_secret(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour()) as provider:
                said = provider.describe()
                assert provider.id
                assert said["kind"]
                assert all(isinstance(each, str) for pair in said.items() for each in pair)
                assert isinstance(provider.unmetered, bool)
                self.check_no_secret(repr(dict(said)) + repr(provider))

        self.run(test)


def _long(*, timeout_s: float) -> Exchange:
    """A question whose answer takes longer than anybody waits here."""
    return question("Count from one to ten thousand, in words.", system=None, timeout_s=timeout_s)
