"""What is said of a result before anybody else sees it: cheap checks, the plan's own checks, then the validator.

A verdict goes on the record with the result that it is about, and with what either sets free: whoever asks for it gets the steps.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hansard.domain.exchange import Completion
from hansard.domain.fact import Body
from hansard.domain.work import TaskJudged
from hansard.orchestration.asking import Asker, NoAnswer
from hansard.orchestration.calling import Target
from hansard.orchestration.execute import actor, returned, seen
from hansard.orchestration.fence import NO_TEXT, Fences, Kept, capped
from hansard.orchestration.judge import WHOLE, Finding, Programs, at_a_glance, declared
from hansard.orchestration.nested import is_panel
from hansard.orchestration.plan import Task
from hansard.orchestration.roles import Verdict, as_json, validator
from hansard.record.recorder import Cause, Step, Within

_WHOLE = [WHOLE]


class Came(NamedTuple):
    """What came back for an attempt, and from whom."""

    task: Task
    number: int
    target: Target
    completion: Completion


class Judged(NamedTuple):
    """The end of an attempt. `steps` are still to be recorded, the verdict last; without any, `judged` is its entry.

    `climbs` says whether a higher rung could help.
    """

    ok: bool
    reasons: str
    text: Kept
    attempt: int
    climbs: bool = True
    steps: tuple[Step, ...] = ()
    returned: int | None = None
    judged: int | None = None


class Judging:
    """Judges the results of one run; of their texts so many characters are kept."""

    def __init__(self, asker: Asker, keep: int) -> None:
        self._asker, self._journal, self._config, self._keep = asker, asker.journal, asker.config, keep

    async def judge(
        self, came: Came, *, attempted: int | None = None, result: int | None = None, programs: Programs | None = None
    ) -> Judged:
        """Cheap checks first, then the validator. Either the attempt is given, or a result that is recorded already."""
        task, number, _, completion = came
        findings = [at_a_glance(completion)]
        if task.checks and findings[0].ok:
            if attempted is not None:
                # Programs take their time: what came back is on the record before, whatever happens meanwhile.
                step = Step(returned(task.id, number, completion), actor(task), [attempted])
                result, attempted = (await self._journal.record_all([step]))[0].seq, None
            findings += await declared(task.checks, completion.text, programs or self._asker.caller.means.programs)
        ahead = [] if attempted is None else [Step(returned(task.id, number, completion), actor(task), [attempted])]
        cause: Cause = Within(0) if result is None else result
        ok, text = findings[-1].ok, Kept.of(seen(completion.text), self._keep)
        if ok and self._config.judge == "model":
            judged = Judged(ok, "", text, number, returned=result)
            return await self._by_validator(came, judged, findings, ahead, cause)
        by = "checks" if completion.ok else "engine"
        steps = (*ahead, _verdict(task, number, findings, ok=ok, by=by, cause=cause))
        return Judged(ok, "" if ok else _reasons(findings), text, number, steps=steps, returned=result)

    async def _by_validator(
        self, came: Came, judged: Judged, findings: Sequence[Finding], ahead: Sequence[Step], cause: Cause
    ) -> Judged:
        task, number, target, completion = came
        fences = Fences(self._asker.nonce, task.id, number, "validator")
        tuning = self._config.tuning
        shown = capped(seen(completion.text), tuning.answer_chars)
        question = validator(task, number, shown, fences, tuning.max_output_tokens)

        def then(verdict: Verdict, judge: Completion) -> list[Step]:
            found = [*findings, Finding(check="validator", ok=verdict.ok, detail=verdict.reasons)]
            named = self._config.role("validator")
            caller = self._asker.caller
            judged_by = caller.who_answered(caller.target(named), judge)
            same = judged_by == caller.who_answered(target, completion)
            by = "panel" if is_panel(named) else "model"
            step = _verdict(task, number, found, ok=verdict.ok, by=by, cause=Within(0), same=same)
            return [step._replace(fact=replace(step.fact, score_ppm=verdict.score_ppm))]  # type: ignore[call-arg]

        try:
            answer = await self._asker.ask(question, [cause], ahead=ahead, then=then, lane=task.lane)
        except NoAnswer as nothing:
            finding = Finding(check="validator", ok=False, detail=str(nothing))
            step = _verdict(task, number, [*findings, finding], ok=False, by="engine", cause=nothing.seq)
            # A better worker does not mend a judge that says nothing.
            return judged._replace(ok=False, reasons=str(nothing), climbs=False, steps=(step,))
        return judged._replace(
            ok=answer.value.ok,
            reasons=_reasons([Finding(check="validator", ok=answer.value.ok, detail=answer.value.reasons)]),
            returned=judged.returned if judged.returned is not None else answer.ahead[0],
            judged=answer.following[0],
        )

    def swallowed(self, task: Task, number: int, attempted: int) -> Judged:
        """The verdict on an attempt at which the engine has ended too often."""
        detail = f"the engine ended {self._config.tuning.restarts + 1} times while this was tried"
        found = [Finding(check="restarts", ok=False, detail=detail)]
        step = _verdict(task, number, found, ok=False, by="engine", cause=attempted)
        return Judged(ok=False, reasons=detail, text=NO_TEXT, attempt=number, climbs=False, steps=(step,))


def _verdict(
    task: Task, number: int, findings: Sequence[Finding], *, ok: bool, by: str, cause: Cause, same: bool = False
) -> Step:
    fact = TaskJudged(
        task=task.id,
        attempt=number,
        ok=ok,
        by=by,  # type: ignore[arg-type]
        same_model=same,
        reasons=None if findings == _WHOLE else Body.json(as_json([each.as_data() for each in findings])),
    )
    return Step(fact, "validator" if by in ("model", "panel") else "engine", [cause])


def recalled(recorded: bytes) -> str:
    """The reasons of a verdict as they stand in the record, in the words in which they were told at the time."""
    try:
        rows = json.loads(recorded)
        return _reasons([Finding(check=row["check"], ok=row["ok"], detail=row["detail"]) for row in rows])
    except (ValueError, KeyError, TypeError, RecursionError):
        return recorded.decode("utf-8", "replace")


def _reasons(findings: Sequence[Finding]) -> str:
    return "\n".join(f"{finding.check}: {finding.detail}" for finding in findings if not finding.ok)
