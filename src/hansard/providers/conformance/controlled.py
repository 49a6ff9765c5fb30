"""What holds for a provider whose world does what it is told: the words, the kinds of failures, the counts."""

import asyncio
import json

from hansard.domain.exchange import RETRYABLE, ErrorKind
from hansard.providers.conformance.bench import VERDICT, Behaviour, Bench, cannot, question

LANGUAGES = "naïve Straße 漢字 \u202eright to left\u202c 🎉\n\ttabs, \"quotes\", back\\slashes and 'more'"


class Saying(Bench):
    """Tests of what is said, and what is made of it."""

    def test_the_words_come_back_as_they_were_said(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(says=LANGUAGES)) as provider:
                assert (await self.ask(provider, question())).text.strip() == LANGUAGES

        self.run(test)

    def test_a_long_question_arrives_whole(self) -> None:
        text = "All work and no play. " * 50_000 + "END"

        async def test() -> None:
            async with self.opened(Behaviour(echoes=True)) as provider:
                completion = await self.ask(provider, question(text, system=None))
                assert len(completion.text.strip()) == len(text)
                assert completion.text.strip().endswith("END")

        self.run(test)

    def test_answers_to_questions_at_once_do_not_mix(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(echoes=True)) as provider:
                texts = [f"question {number} " * 20 for number in range(8)]
                found = await asyncio.gather(*(self.ask(provider, question(text, system=None)) for text in texts))
                assert [each.text.strip() for each in found] == [text.strip() for text in texts]

        self.run(test)

    def test_a_shape_within_prose_is_found(self) -> None:
        said = 'Use {braces} as follows:\n```json\n{"ok": false, "reason": "no"}\n```\nThat is all.'

        async def test() -> None:
            async with self.opened(Behaviour(says=said)) as provider:
                completion = await self.ask(provider, question(schema=VERDICT))
                assert completion.structured == {"ok": False, "reason": "no"}

        self.run(test)

    def test_an_answer_that_misses_the_shape_is_malformed_and_kept(self) -> None:
        said = '{"ok": "nope", "reason": "because"}'

        async def test() -> None:
            async with self.opened(Behaviour(says=said)) as provider:
                completion = await self.ask(provider, question(schema=VERDICT))
                why = completion.failure
                assert why is not None
                assert (why.kind, why.retryable, completion.finish) == ("malformed_response", True, "error")
                assert why.details["failing_path"] == "/ok"
                assert json.loads(why.details["raw_attempt"]) == json.loads(said)
                assert json.loads(completion.text) == json.loads(said)
                assert completion.usage.total > 0

        self.run(test)

    def test_prose_where_a_shape_was_asked_for_is_malformed(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(says="It looks fine to me.")) as provider:
                completion = await self.ask(provider, question(schema=VERDICT))
                assert completion.failure is not None
                assert completion.failure.kind == "malformed_response"

        self.run(test)

    def test_a_text_that_was_cut_off_says_so(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(says="Paris is the", cut_off=True)) as provider:
                completion = await self.ask(provider, question())
                assert completion.failure is None
                assert completion.finish == "length"

        self.run(test)

    def test_a_shape_that_was_cut_off_is_no_answer_and_not_worth_correcting(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(says='{"ok": true, "reas', cut_off=True)) as provider:
                why = (await self.ask(provider, question(schema=VERDICT))).failure
                assert why is not None
                assert (why.kind, why.retryable) == ("context_length_exceeded", False)

        self.run(test)

    def test_reported_usage_is_given_out_as_reported(self) -> None:
        if not self.reports_usage:
            raise cannot("report usage")
        behaviour = Behaviour()

        async def test() -> None:
            async with self.opened(behaviour) as provider:
                completion = await self.ask(provider, question())
                assert behaviour.usage is not None
                assert completion.usage.input_tokens == behaviour.usage.input_tokens
                assert completion.usage.output_tokens == behaviour.usage.output_tokens
                assert not completion.usage.estimated

        self.run(test)

    def test_usage_that_nobody_reports_is_estimated_and_says_so(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(usage=None)) as provider:
                completion = await self.ask(provider, question())
                assert completion.usage.estimated
                assert completion.usage.input_tokens > 0
                assert completion.usage.output_tokens > 0

        self.run(test)


class Failing(Bench):
    """Tests of the twelve kinds, and of what must not get out."""

    def test_every_kind_of_failure_is_told_as_what_it_is(self) -> None:
        for kind in self.failures:
            self.run(lambda kind=kind: self._fails(kind))  # type: ignore[misc]

    async def _fails(self, kind: ErrorKind) -> None:
        async with self.opened(Behaviour(fails=kind)) as provider:
            completion = await self.ask(provider, question())
            assert completion.failure is not None, kind
            assert completion.failure.kind == kind
            assert completion.failure.retryable == (kind in RETRYABLE), kind

    def test_the_pause_that_a_server_asks_for_is_handed_on(self) -> None:
        if "rate_limit" not in self.failures:
            raise cannot("be limited")

        async def test() -> None:
            async with self.opened(Behaviour(fails="rate_limit", retry_after_s=7.0)) as provider:
                why = (await self.ask(provider, question())).failure
                assert why is not None
                assert why.retry_after_s == 7.0

        self.run(test)

    def test_a_failure_is_no_answer_even_when_it_reads_like_one(self) -> None:
        async def test() -> None:
            async with self.opened(Behaviour(fails=self.failures[0], says='{"ok": true, "reason": "x"}')) as provider:
                completion = await self.ask(provider, question(schema=VERDICT))
                assert completion.failure is not None
                assert completion.structured is None

        self.run(test)

    def test_a_secret_that_comes_back_does_not_get_out(self) -> None:
        if not self.secrets:
            raise cannot("leak: it has no secret")

        async def test() -> None:
            for behaviour in (Behaviour(leaks=True), Behaviour(leaks=True, fails=self.failures[0])):
                async with self.opened(behaviour) as provider:
                    await self.ask(provider, question())

        self.run(test)
