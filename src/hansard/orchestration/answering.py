"""The one answer of a run: made of what passed, checked by what costs nothing, and by others where that was asked for.

Checks never block: they stand beside the answer in the record. A revision is taken only if it is shorter and covers no less.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, replace
from threading import Lock
from typing import Any, NoReturn, ParamSpec, TypeVar

from hansard.domain.fact import Body
from hansard.domain.value import value
from hansard.domain.work import AnswerChecked, AnswerRevised, RunAnswered
from hansard.errors import told_of
from hansard.ledger.entry import Entry
from hansard.orchestration.asking import Asker, NoAnswer
from hansard.orchestration.checks.asking import Drift, intent_judge, reviser
from hansard.orchestration.checks.code import CodeReport, code
from hansard.orchestration.checks.delivery import Delivery, delivery
from hansard.orchestration.checks.intent import Coverage, intent
from hansard.orchestration.checks.revision import accept_revision
from hansard.orchestration.execute import seen
from hansard.orchestration.fence import Fences
from hansard.orchestration.progress import Progress
from hansard.orchestration.purse import Breach
from hansard.orchestration.roles import REQUEST_CHARACTERS, Result, as_json, synthesizer
from hansard.orchestration.seams import PASSES, Verification, heard
from hansard.orchestration.working import Crew
from hansard.record.reading import read_body, read_text
from hansard.record.recorder import Cause, Step, Within
from hansard.store.base import Store

P = ParamSpec("P")
T = TypeVar("T")

MAX_MISSING = 1_000
_ONE_AT_A_TIME = Lock()
OUTCOMES = ("passed", "refused", "abstained")


@value
class Answer:
    """An answer on the record."""

    seq: int
    text: str
    missing: tuple[str, ...]


@value
class Look:
    """What can be said of an answer without asking anybody."""

    coverage: Coverage
    delivery: Delivery
    code: CodeReport


class Answers:
    """Makes and checks the answer of one run."""

    def __init__(self, asker: Asker, progress: Progress, store: Store, request: str, turn: asyncio.Lock) -> None:
        self._asker, self._progress, self._store, self._request = asker, progress, store, request
        self._turn = turn
        self._journal, self._config, self._means = asker.journal, asker.config, asker.caller.means
        self._is_stuck = asker.stuck is not None and progress.answered is not None

    async def make(self, crew: Crew) -> Answer:
        """The answer out of what passed; by the synthesizer, or without a model where one result says it all."""
        missing = tuple(task.id for task in crew.plan.tasks if task.id in crew.lost)[:MAX_MISSING]
        results = self._results(crew)
        causes = await self._journal.gathered([crew.passed[result.task].judged for result in results])
        if len(crew.plan.tasks) == 1 or self._config.answer == "join":
            body = self._joined(crew, results)
            fact = RunAnswered(complete=not missing, missing=missing, answer=body)
            recorded = await self._journal.record(fact, "engine", causes)
            return Answer(seq=recorded.seq, text=body.as_text(), missing=missing)
        fences = Fences(self._progress.nonce, "", 1, "synthesizer")
        question = synthesizer(self._request, results, missing, fences)

        def then(text: str, _: object) -> list[Step]:
            fact = RunAnswered(complete=not missing, missing=missing, answer=Body.text(text))
            return [Step(fact, "synthesizer", [*causes, Within(0)])]

        answer = await self._asker.ask(question, causes, then=then)
        return Answer(seq=answer.following[0], text=answer.value, missing=missing)

    def recorded(self, seq: int) -> Answer:
        """The answer that an earlier driver made."""
        entry = self._store.entry(seq)
        return Answer(seq=seq, text=self._text(entry), missing=tuple(entry.data.get("missing", ())))

    def _text(self, entry: Entry) -> str:
        return read_text(self._store, entry, "answer") or ""

    async def check(self, answer: Answer) -> None:
        """Say on the record what can be said of the answer. What an earlier driver said is not said again."""
        done = self._progress.checked
        if self._config.answer != "join" and self._needs_look():
            look = await _apart(self._turn, _looked, self._request, answer.text, self._config.profile)
            if "intent" not in done:
                self._is_stuck = False
                await self._say_what_is_seen(look, answer.seq)
            if self._config.judge_intent and look.coverage.flagged and "intent_judge" not in done:
                await self._ask_intent(answer, look.coverage)
            if self._is_to_be_revised and look.delivery.flagged:
                answer = await self._revise(answer, look.delivery)
        if self._means.verifier is not None and "verifier" not in done:
            await self._verify(self._standing(answer))

    async def cut_off(self, answer: Answer) -> None:
        """Say of an answer whose run has no time left that nobody has revised or verified it, where somebody was to."""
        late, done = "the time of the run was over before it had said anything", self._progress.checked
        if self._is_to_be_revised and "delivery" in done and done["delivery"].data["outcome"] == "flagged":
            await self._say("delivery", "abstained", f"the reviser: {late}", answer.seq)
        if self._means.verifier is not None and "verifier" not in done:
            await self._say("verifier", "crashed", late, self._standing(answer).seq)

    def _standing(self, answer: Answer) -> Answer:
        """The answer, or what an earlier driver left of it."""
        revised = self._progress.revised
        if revised is None or revised.data["accepted"] is not True:
            return answer
        return replace(answer, seq=revised.seq, text=self._text(revised))

    def _needs_look(self) -> bool:
        """Whether something is left that an earlier driver did not come to. Results that stand joined are judged already."""
        done = self._progress.checked
        wanted = {"intent"} | ({"intent_judge"} if self._config.judge_intent else set())
        return not wanted <= set(done) or self._is_to_be_revised

    @property
    def _is_to_be_revised(self) -> bool:
        """Whether a reviser is wanted, and it is not on the record yet what came of that."""
        said = self._progress.checked.get("delivery")
        came_to_nothing = said is not None and said.data["outcome"] in ("crashed", "abstained")
        return self._config.revise and self._progress.revised is None and not came_to_nothing

    async def _say_what_is_seen(self, look: "Look", seq: int) -> None:
        """Coverage, concision and code, by rule."""
        facts = [
            AnswerChecked(
                check="intent",
                outcome=look.coverage.outcome,
                score_ppm=look.coverage.score_ppm,
                detail=Body.json(as_json(asdict(look.coverage))),
            ),
            AnswerChecked(
                check="delivery",
                outcome="flagged" if look.delivery.flagged else "passed",
                detail=Body.json(as_json(asdict(look.delivery))),
            ),
        ]
        if look.code.blocks:
            outcome = "flagged" if look.code.flagged else "passed"
            facts.append(AnswerChecked(check="code", outcome=outcome, detail=Body.json(as_json(asdict(look.code)))))  # type: ignore[arg-type]
        await self._journal.record_all([Step(fact, "engine", [seq]) for fact in facts])

    async def _ask_intent(self, answer: Answer, coverage: Coverage) -> None:
        """Whether a flagged answer drifted or only paraphrased, by a judge."""
        fences = Fences(self._progress.nonce, "", 1, "intent_judge")
        question = intent_judge(self._request, answer.text, coverage, fences, self._config.tuning.answer_chars)

        def then(drift: Drift, _: object) -> list[Step]:
            outcome = "flagged" if drift.drifted else "passed"
            fact = AnswerChecked(check="intent_judge", outcome=outcome, detail=Body.text(drift.reason))  # type: ignore[arg-type]
            return [Step(fact, "intent_judge", [answer.seq, Within(0)])]

        try:
            await self._asker.ask(question, [answer.seq], then=then)
        except (NoAnswer, Breach) as error:
            await self._say("intent_judge", "crashed", str(error), answer.seq)

    async def _revise(self, answer: Answer, found: Delivery) -> Answer:
        """A shorter answer, by the reviser that is plugged in or by a model; taken only if it says no less. Where there is none, the
        record says why: whoever wished for one would look for it.
        """

        async def unrevised(outcome: str, why: str) -> Answer:
            await self._say("delivery", outcome, why, answer.seq)
            return answer

        cause: Cause = answer.seq
        most = min(self._config.tuning.answer_chars, REQUEST_CHARACTERS)
        if self._means.reviser is None and len(answer.text) > most:
            # What is made of a beginning says nothing of the rest, and would stand in its place.
            why = f"the answer has more than the {most:,} characters that a model is shown of it, and was not revised"
            return await unrevised("abstained", why)
        try:
            if self._means.reviser is not None:
                revised = self._given_up() or self._means.reviser.revise(self._request, answer.text)
                text = await heard(revised)
            else:
                fences = Fences(self._progress.nonce, "", 1, "reviser")
                question = reviser(self._request, answer.text, found, fences)
                asked = await self._asker.ask(question, [answer.seq])
                text, cause = asked.value, asked.seq
        except Breach as breach:
            return await unrevised("abstained", f"nothing was left of the budget to have the answer revised: {breach}")
        except NoAnswer as none:
            return await unrevised("crashed", str(none))
        except PASSES:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever somebody else's code raises, the answer stands
            return await unrevised("crashed", f"the reviser failed: {told_of(error)}")
        if not isinstance(text, str) or not text.strip():
            return await unrevised("abstained", "the reviser gave no text, and the answer was not revised")
        judged = await _apart(self._turn, accept_revision, self._request, answer.text, text)
        fact = AnswerRevised(
            accepted=judged.accepted,
            words_before=judged.words_before,
            words_after=judged.words_after,
            coverage_before_ppm=judged.coverage_before_ppm,
            coverage_after_ppm=judged.coverage_after_ppm,
            answer=Body.text(text),
            why=Body.text(judged.why) if judged.why else None,
        )
        causes = [answer.seq] if cause == answer.seq else [answer.seq, cause]
        recorded = await self._journal.record(fact, "reviser", causes)
        return Answer(seq=recorded.seq, text=text, missing=answer.missing) if judged.accepted else answer

    async def _verify(self, answer: Answer) -> None:
        assert self._means.verifier is not None
        try:
            said = await heard(self._given_up() or self._means.verifier.verify(self._request, answer.text))
            found = said if said is not None else Verification(outcome="abstained")
            if not isinstance(found, Verification):
                raise TypeError(f"gave a {type(found).__name__} instead of a Verification")
            if found.outcome not in OUTCOMES:
                raise ValueError(f"a verifier passes, refuses or abstains; this one said {found.outcome!r:.60}")
            if not isinstance(found.detail, str):
                raise TypeError(f"gave a {type(found.detail).__name__} as its detail instead of text")
        except PASSES:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever somebody else's code raises, the answer stands
            await self._say("verifier", "crashed", told_of(error), answer.seq)
            return
        await self._say("verifier", found.outcome, found.detail, answer.seq)

    def _given_up(self) -> Coroutine[Any, Any, NoReturn] | None:
        """In place of what drivers died at again and again: that is what comes next, and not what comes after it."""
        stuck, self._is_stuck = self._is_stuck, False
        return self._asker.given_up() if stuck else None

    async def _say(self, check: str, outcome: str, detail: str, cause: int) -> None:
        fact = AnswerChecked(check=check, outcome=outcome, detail=Body.text(detail[:100_000]))  # type: ignore[arg-type]
        await self._journal.record(fact, check, [cause])

    def _results(self, crew: Crew) -> list[Result]:
        """What the answer is made of: results that no other result was built on, each within its share of the prompt."""
        used = {need.task for id in crew.passed for need in crew.plan.task(id).needs if need.kind == "data"}
        ids = [task.id for task in crew.plan.tasks if task.id in crew.passed and task.id not in used]
        share = max(500, self._config.tuning.answer_chars // len(ids))
        return [
            Result(
                task=id,
                lane=crew.plan.task(id).lane,
                attempt=crew.passed[id].attempt,
                text=crew.passed[id].text.capped(share),
            )
            for id in ids
        ]

    def _joined(self, crew: Crew, results: Sequence[Result]) -> Body:
        """The answer without a model: the one output as it is, or the outputs under their names, whole."""
        if len(results) == 1:
            return self._output(crew, results[0])
        return Body.text("\n\n".join(f"## {result.task}\n\n{self._whole(crew, result)}" for result in results))

    def _whole(self, crew: Crew, result: Result) -> str:
        """A result as others see it. Read again only where what was kept of it is cut."""
        kept = crew.passed[result.task].text
        return seen(self._output(crew, result).as_text()) if kept.more else kept.text

    def _output(self, crew: Crew, result: Result) -> Body:
        found = read_body(self._store, self._store.entry(crew.passed[result.task].returned), "output")
        return Body(found.media, found.body) if found else Body.text(result.text)


def _looked(request: str, text: str, profile: str) -> Look:
    return Look(coverage=intent(request, text), delivery=delivery(text, profile), code=code(text))


async def _apart(turn: asyncio.Lock, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Off the event loop: a hostile answer may take seconds. One at a time, because parsing code touches global state; who
    waits for his turn waits here, and not in one of the threads that everybody reads with.
    """

    def alone() -> T:
        with _ONE_AT_A_TIME:
            return work(*args, **kwargs)

    async with turn:
        return await asyncio.to_thread(alone)
