"""Asks the control roles on behalf of a run, and records every question and answer.

Nothing is retried silently: each further turn, after a fault or a passing failure, is a new question on the record.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, NoReturn, TypeVar

from hansard.domain.exchange import Completion, Exchange, Limits, Schema
from hansard.domain.fact import Body
from hansard.domain.value import value
from hansard.domain.work import RoleAnswered, RoleAsked
from hansard.errors import ProviderError, UsageError
from hansard.orchestration.calling import Caller, Held, Swallowed, Target, settle
from hansard.orchestration.execute import answered, cut_short
from hansard.orchestration.progress import Progress
from hansard.orchestration.roles import Question
from hansard.providers import checks, parse
from hansard.providers.base import failure
from hansard.providers.correcting import corrected, wants_correction
from hansard.providers.prompt import prompt_of
from hansard.providers.recording import call_of
from hansard.providers.schema import compile as compile_schema
from hansard.record.recorder import Cause, Step, Within
from hansard.record.replaying import SWALLOWED

V = TypeVar("V")
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n```", re.DOTALL)


@value
class Answered(Generic[V]):
    """A role's answer, with its meaning and where it stands: its entry, and those recorded with the question and with it."""

    value: V
    seq: int
    ahead: tuple[int, ...]
    following: tuple[int, ...]
    completion: Completion


class NoAnswer(Exception):
    """A role gave no usable answer; `seq` is the last entry about it."""

    def __init__(self, role: str, seq: int, why: str) -> None:
        super().__init__(f"the {role} gave no usable answer: {why}")
        self.role, self.seq = role, seq


class Asker:
    """Asks for one run, by the calls of its `caller`."""

    def __init__(self, caller: Caller, progress: Progress) -> None:
        self.caller, self._progress = caller, progress
        self.config, self.nonce, self.journal = caller.config, caller.nonce, caller.journal

    async def ask(
        self,
        question: Question[V],
        causes: Sequence[Cause],
        *,
        ahead: Sequence[Step] = (),
        then: Callable[[V, Completion], Sequence[Step]] | None = None,
        lane: str | None = None,
    ) -> Answered[V]:
        """Ask a role until it answers in shape, within bounds. `ahead` is recorded together with the first question, and
        what `then` makes of the answer together with the answer; causes inside these point at each other by Within.

        NoAnswer when it does not, or when crashes have cut it short too often; Breach when the budget ends first, with `ahead`
        recorded all the same.
        """
        caller, tuning = self.caller, self.config.tuning
        target = caller.target(self.config.role(question.role))
        await self._refuse_swallowed(question, target)
        base = question.exchange(target.model, {"lane": lane} if lane else {})
        base = replace(base, limits=Limits(timeout_s=tuning.timeout_s, max_output_tokens=tuning.max_output_tokens))
        exchange, turn, passing, faults = base, 1, 0, 0
        before: tuple[int, ...] = ()
        while True:
            exchange = replace(exchange, metadata={**base.metadata, "turn": turn})
            [*put, asked], exchange, held = await self._put(question, exchange, target, turn, causes, ahead, lane)
            before, ahead = before or tuple(put), ()
            try:
                came = await caller.call(target, held, asked)
            except Swallowed:
                raise await self._swallowed(question, target, asked) from None
            completion, value = _meaning(question, came)
            if completion.ok:
                said = Step(answered(question.role, completion), question.role, [asked])
                recorded = await self.journal.record_all([said, *(then(value, completion) if then else ())])
                seq, *following = (each.seq for each in recorded)
                return Answered(value=value, seq=seq, ahead=before, following=tuple(following), completion=completion)
            corrects = wants_correction(completion) and faults < tuning.corrections
            malformed = completion.failure is not None and completion.failure.kind == "malformed_response"
            passing += not corrects
            about = f"{question.role}|{question.task}"
            pause = None if corrects or malformed else caller.pause_s(completion, passing, about)
            heard = await self.journal.record(answered(question.role, completion, pause), question.role, [asked])
            causes, turn = [heard.seq], turn + 1
            if corrects:
                faults += 1
                exchange = corrected(base, completion)
                continue
            if pause is None:
                why = completion.failure.message if completion.failure else "no reason given"
                raise NoAnswer(question.role, heard.seq, why)
            await caller.means.sleep(pause)

    async def _refuse_swallowed(self, question: Question[Any], target: Target) -> None:
        """NoAnswer where the engine has ended too often while this was asked: to ask it again may end it again."""
        key = (question.role, question.task, question.attempt)
        if (said := self._progress.questions.swallowed.get(key)) is not None:
            raise NoAnswer(question.role, said, self._too_often)
        crashes = self._progress.questions.crashes.get(key, ())
        if len(crashes) > self.config.tuning.restarts:
            raise await self._swallowed(question, target, max(crashes))

    async def _swallowed(self, question: Question[Any], target: Target, asked: int) -> NoAnswer:
        fact = RoleAnswered(role=question.role, **cut_short(SWALLOWED, target.model_name, self._too_often))
        return NoAnswer(question.role, (await self.journal.record(fact, "engine", [asked])).seq, self._too_often)

    @property
    def _too_often(self) -> str:
        return f"the engine ended {self.config.tuning.restarts + 1} times while this was asked"

    @property
    def stuck(self) -> str | None:
        """Why what comes next is given up: drivers died at it again and again, though nobody is asked in it; a program or a plug-in."""
        most = self.config.tuning.restarts
        return f"the engine ended {most + 1} times while this was done" if self._progress.deaths > most else None

    async def given_up(self, argv: tuple[str, ...] = (), stdin: bytes = b"", timeout_s: float = 0) -> NoReturn:
        """In place of what they died at."""
        raise ProviderError(str(self.stuck))

    async def _put(
        self,
        question: Question[Any],
        exchange: Exchange,
        target: Target,
        turn: int,
        causes: Sequence[Cause],
        ahead: Sequence[Step],
        lane: str | None,
    ) -> tuple[list[int], Exchange, Held]:
        """Reserve, and put the question on the record; its entry is the last.

        What stands ahead does not wait: it came back, and whatever happens meanwhile must not lose it.
        """
        before: list[int] = []

        def reserve() -> Held:
            return self.caller.reserve(exchange, target, lane)

        if (held := self.caller.at_once(reserve)) is None:
            if ahead:
                before = [each.seq for each in await self.journal.record_all(ahead)]
                causes = [before[cause.index] if isinstance(cause, Within) else cause for cause in causes]
                ahead = ()
            held = await self.caller.affordable(call_of(exchange), lane, reserve, lambda each: settle(each, None))
        asked = held[-1][1].exchange
        fact = RoleAsked(
            role=question.role,
            task=question.task,
            attempt=question.attempt,
            turn=turn,
            provider=target.name,
            model=target.model_name,
            template=question.template.id,
            prompt=Body.text(prompt_of(asked)),
        )
        try:
            recorded = await self.journal.record_all([*ahead, Step(fact, "engine", causes)])
        except BaseException:
            settle(held, None)
            raise
        return [*before, *(each.seq for each in recorded)], asked, held


def _meaning(question: Question[V], completion: Completion) -> tuple[Completion, Any]:
    """The answer with its meaning; one that makes no sense is malformed, with the fault quoted."""
    if not completion.ok:
        return completion, None
    fault: str
    if completion.finish != "stop":
        fault = f"the answer ended with {completion.finish}"
    elif question.schema is None and not completion.text.strip():
        fault = "the answer is empty"
    elif question.alone and _taken_out_of_prose(completion, question.schema):
        fault = "the JSON object does not stand alone: what stands in prose may be somebody else's"
    else:
        try:
            return completion, question.read(completion.text if question.schema is None else completion.structured)
        except UsageError as error:
            fault = str(error)
    why = failure("malformed_response", fault, retryable=True, validator_message=fault, raw_attempt=completion.text)
    return checks.spoiled(completion, why), None


def _taken_out_of_prose(completion: Completion, schema: Schema | None) -> bool:
    """Whether the value was found inside of a text; a server that gives it apart from its text has not looked for it there."""
    text = completion.text.strip()
    inside = _FENCED.fullmatch(text)
    try:
        json.loads(inside[1] if inside else text)
    except (ValueError, RecursionError):
        return bool(parse.read(text, compile_schema(schema or {})).value == completion.structured)
    return False
