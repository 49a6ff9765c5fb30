"""The chair's pen: each step of a session as facts on the record, first there and then in the journal.

One event of the session is one commit: a call's result and every message and annotation that follow from it stand or fall
together. Decides nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from hansard.deliberation.documents import Config, SelectorOutput, Usage, jcs
from hansard.deliberation.documents.exchange import NO_USAGE
from hansard.deliberation.documents.scripting import added
from hansard.deliberation.protocol.moves import Ask, Draft, Json, Spent, Stopped, Synthesized
from hansard.deliberation.protocol.moves import Step as Moved
from hansard.deliberation.result import as_body
from hansard.deliberation.transcript import Transcript
from hansard.deliberation.turn import spent_of
from hansard.domain.budget import NANO_PER_USD
from hansard.domain.council import (
    PanelSelected,
    SessionArchived,
    SessionConvened,
    SessionEnded,
    TurnAmended,
    TurnFailed,
    TurnTaken,
)
from hansard.domain.exchange import Completion, ErrorKind, is_priced
from hansard.domain.fact import Body, Fact
from hansard.domain.value import value
from hansard.record.recorder import Cause, Recorded, Records, Step, Within
from hansard.store.base import Claim

ACTOR = "chair"
ANNOTATIONS = ("dropped_deferred", "schema_failure", "suggested_followups")
Listener = Callable[[Recorded[Fact]], None]


class Journal(Protocol):
    """Where the transcript is kept besides the record."""

    def add(self, line: bytes) -> None: ...


@value
class Called:
    """One question and what came of it."""

    asked: Cause
    completion: Completion
    used: Usage
    """By the last call."""
    before: Usage | None = None
    """By the calls for tools before it, which are on the record already."""
    calls: int = 1
    """0 where a tool has ended it, since all calls of the model were for tools, or nobody was asked."""
    waited_us: int = 0
    """How long the calls for tools before it took, of what the completion says."""
    tools: tuple[Cause, ...] = ()
    """The newest entry about tools that were run for it, where there were any."""

    @property
    def usage(self) -> Usage:
        """By all of them, as a message has it."""
        return self.used if self.before is None else added(self.before, self.used)

    @property
    def spent(self) -> Spent:
        """What is to be counted yet."""
        return spent_of(self.used, calls=self.calls)

    @property
    def is_priced(self) -> bool:
        """Whether anybody knows what the last call cost, where there was one."""
        return not self.calls or is_priced(self.used.total_tokens, self.completion.cost.basis)

    @property
    def causes(self) -> tuple[Cause, ...]:
        return (self.asked, *self.tools)


class Minutes:
    """Records one session. Remembers where each message stands, because later entries name it as their cause.

    What was heard waits for the next question, which follows at once, or for `flush`: one commit then holds both.
    """

    def __init__(
        self,
        recorder: Records,
        run: str,
        claim: Claim,
        transcript: Transcript,
        *,
        journal: Journal | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._recorder, self._run, self._claim = recorder, run, claim
        self._transcript, self._journal, self._listener = transcript, journal, listener
        self._waiting: list[Step] = []
        self._lines: list[bytes] = []
        self.seqs: list[int] = []
        self.session = self.last = -1

    def take_up(self, session: int, seqs: Sequence[int], last: int) -> None:
        """Go on behind what is on the record already."""
        self.session, self.seqs, self.last = session, list(seqs), last

    async def convened(self, config: Config, causes: Iterable[Cause], began: Moved) -> None:
        """The session and its problem statement."""
        fact = SessionConvened(
            session=config.session_id,
            agents=len(config.agents),
            problem=Body.text(config.problem_statement),
            config=Body.json(jcs(config.as_data())),
        )
        self._waiting.append(Step(fact, ACTOR, tuple(causes)))
        self._follow(began, None, 0)
        self.session = (await self.flush())[0].seq

    def selected(self, output: SelectorOutput, called: Called | None) -> None:
        """Who sits on the panel; a model's answer is its cause where a model chose."""
        selection: dict[str, Any] = {"output": output.as_data()}
        spent = {}
        if called is not None:
            selection["usage"] = called.usage.as_data()
            spent = _spent(called)
        fact = PanelSelected(
            strategy=output.strategy,
            agents=output.selected_agents,
            coordinator=output.coordinator_agent,
            selection=Body.json(jcs(selection)),
            **spent,
        )
        self._waiting.append(Step(fact, ACTOR, (called.asked if called else self.session,)))

    async def unasked(self, fact: Fact, *causes: Cause) -> Cause:
        """A question, or results for a model, with which nobody is asked. One commit holds it with what comes of it, so that no
        crash can make a call of it.
        """
        await self.flush()
        self._waiting.append(Step(fact, ACTOR, causes or (self._newest(),)))
        return self._newest()

    async def note(self, fact: Fact, *causes: Cause) -> Recorded[Fact]:
        """A fact now, together with what waits. Where nothing is said to have caused it, the newest entry has."""
        self._waiting.append(Step(fact, ACTOR, causes or (self._newest(),)))
        return (await self.flush())[-1]

    def failed(
        self, called: Called, ask: Ask, elapsed_us: int, ended: str | None, pause_s: float | None = None
    ) -> None:
        """A call that has led to nothing. `ended` is why the session is over, where it ended behind it."""
        self._waiting.append(Step(_failed(called, ask, elapsed_us, ended, pause_s), ACTOR, called.causes))

    def heard(self, called: Called, ask: Ask, moved: Moved, elapsed_us: int, pause_s: float | None = None) -> None:
        """What came back, and every message that follows from it, or the pause before it is tried again."""
        became = called.completion.ok and any(draft.usage is not None for draft in moved.appended)
        if not became:
            stop = moved.move.reason if isinstance(moved.move, Stopped) else None
            self.failed(called, ask, elapsed_us, stop, pause_s)
        self._follow(moved, called if became else None, elapsed_us)

    async def ended(self, session: str, outcome: Stopped | Synthesized, rounds: int, artifact: bytes) -> Recorded[Fact]:
        """How the session ended, with its artifact as the record has it."""
        fact = SessionEnded(
            session=session,
            outcome="termination" if isinstance(outcome, Stopped) else "synthesis",
            reason=outcome.reason if isinstance(outcome, Stopped) else None,
            rounds=rounds,
            why=outcome.why or None if isinstance(outcome, Stopped) else None,
            artifact=Body.json(artifact),
        )
        return await self.note(fact)

    async def archived(self, session: str, files: int, listing: bytes) -> Recorded[Fact]:
        """The directory is complete: the hash of every file in it."""
        fact = SessionArchived(session=session, files=files, manifest=Body.json(listing))
        return await self.note(fact, self.last)

    async def flush(self) -> Sequence[Recorded[Fact]]:
        """Record what waits, in one commit, and then write it into the journal."""
        steps, self._waiting = self._waiting, []
        lines, self._lines = self._lines, []
        if not steps:
            return ()
        recorded = await self._recorder.record_all(steps, run=self._run, claim=self._claim)
        self.last = recorded[-1].seq
        for each in recorded:
            if isinstance(each.fact, TurnTaken):
                self.seqs.append(each.seq)
            if self._listener:
                self._listener(each)
        if self._journal:
            for line in lines:
                self._journal.add(line)
        return recorded

    def _newest(self) -> Cause:
        return Within(len(self._waiting) - 1) if self._waiting else self.last

    def _follow(self, moved: Moved, called: Called | None, elapsed_us: int) -> None:
        """The facts of a step, and the lines that they add to the journal."""
        for draft in moved.appended:
            causes = called.causes if called and not self._waiting else (self._newest(),)
            self._lines.append(self._transcript.append(draft))
            answered = called if draft.usage is not None else None
            fact = _taken(draft, self._lines[-1], answered, elapsed_us)
            self._waiting.append(Step(fact, ACTOR, causes))
        for draft in moved.amended:
            before = self._transcript.messages[draft.ordinal]
            self._lines.append(self._transcript.amend(draft))
            seq = self.seqs[draft.ordinal]
            for what in _grown(before, draft):
                amended = TurnAmended(amends=seq, what=what, message=Body.json(self._lines[-1]))
                self._waiting.append(Step(amended, ACTOR, (seq,)))


def _grown(before: dict[str, Any], draft: Draft) -> Iterator[Any]:
    return (name for name in ANNOTATIONS if len(getattr(draft, name)) > len(before.get(name, ())))


def _spent(called: Called | None) -> dict[str, Any]:
    """What the last call took, and how its cost is known where there was one."""
    used, latency_us = called.used if called else NO_USAGE, None
    if called:
        latency_us = called.completion.latency_us - called.waited_us if called.calls else 0
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "cost_usd_nano": round(used.cost_usd * NANO_PER_USD),
        "cost_basis": called.completion.cost.basis if called and called.calls else None,
        "latency_us": latency_us,
    }


def _taken(draft: Draft, line: bytes, called: Called | None, elapsed_us: int) -> TurnTaken:
    content = draft.content
    confidence = content.get("confidence") if not isinstance(content, str) else None
    return TurnTaken(
        type=draft.type,
        speaker=draft.speaker,
        round=draft.round,
        turn_index=draft.turn_index,
        branch_depth=draft.branch_depth,
        **_spent(called),
        elapsed_us=elapsed_us,
        confidence_ppm=None if confidence is None else round(confidence * 1_000_000),
        tools=(len(called.completion.tool_events) or None) if called else None,
        message=Body.json(line),
        result=as_body(called.completion, _used(draft, called), content) if called else None,
    )


def _used(draft: Draft, called: Called) -> Json:
    """What the last call used: as the message has it, where no tools came before."""
    return draft.usage if draft.usage is not None and called.before is None else called.used.as_data()


_ENDED: Mapping[str | None, ErrorKind] = {
    "budget_exceeded": "quota_exhausted",
    "timeout": "timeout",
    "schema_error": "malformed_response",
}
"""What a good answer has failed with that came to nothing, by why the session is over."""


def _failed(called: Called, ask: Ask, elapsed_us: int, ended: str | None, pause_s: float | None) -> TurnFailed:
    """An answer that came and may not become a message, because a cap is breached, has failed like any other."""
    why, used = called.completion.failure, called.used
    kind: ErrorKind = why.kind if why else _ENDED.get(ended, "internal")
    return TurnFailed(
        agent=ask.agent,
        attempt=ask.attempt,
        error=kind,
        retriable=why.retryable if why else False,
        **_spent(called),
        elapsed_us=elapsed_us,
        calls=None if called.calls else 0,
        pause_us=round(pause_s * 1_000_000) if pause_s else None,
        result=as_body(called.completion, used.as_data()),
    )
