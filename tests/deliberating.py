"""Plays sessions for the tests: the machine alone, against answers that a test or Hypothesis makes up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from hansard.deliberation.documents import Config, FakeProviderScript
from hansard.deliberation.documents.scripting import neutral_script
from hansard.deliberation.pins import Pins, pinned
from hansard.deliberation.protocol.machine import Machine
from hansard.deliberation.protocol.moves import (
    Answered,
    Ask,
    Failed,
    Move,
    Pause,
    Reading,
    Rested,
    Select,
    Selected,
    Spent,
    Step,
    Stopped,
    Synthesized,
)
from hansard.deliberation.protocol.rules import Rules
from hansard.deliberation.session import Pen, Sitting, resume_session, run_session
from hansard.deliberation.setting import Setting
from hansard.deliberation.story import read_story
from hansard.domain.budget import NANO_PER_USD
from hansard.domain.exchange import RETRYABLE, ErrorKind
from hansard.domain.fact import Body
from hansard.domain.work import RunRequested
from hansard.ledger.entry import Entry
from hansard.providers.base import Provider
from hansard.providers.scripted import Scripted
from hansard.record.recorder import Recorder
from hansard.store.base import Query, Store
from ledgers import memory

Heard = Answered | Failed
PANEL = ("ada", "ben", "cyd")


def rules(**knobs: Any) -> Rules:
    return Rules(**{"originator": "user", "problem": "What now?", "coordinator": "chair", **knobs})


def usage(tokens: int = 10) -> dict[str, Any]:
    return {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens, "cost_usd": tokens / 1e6}


def spent(tokens: int = 10) -> Spent:
    return Spent(tokens=tokens, cost_usd_nano=tokens * 1000)


def says(content: dict[str, Any], *, tokens: int = 10, reading: Reading | None = None) -> Answered:
    return Answered(reading=reading or Reading(), content=content, usage=usage(tokens), spent=spent(tokens))


def turn(*targets: str, text: str = "I think so.", **how: Any) -> Answered:
    requests = [{"target": target, "type": "question", "content": f"{target}?"} for target in targets]
    return says({"text": text, **({"direct_requests": requests} if requests else {})}, **how)


def verdict(action: str = "continue", **how: Any) -> Answered:
    members: dict[str, Any] = {
        "next_action": action,
        "rationale": "because",
        "confidence": 0.5,
        "focus": "the point",
        "next_agents": [],
        "resolved_disagreements": how.pop("resolved", []),
        "unresolved_disagreements": how.pop("unresolved", []),
    }
    if action == "request_user_input":
        members["user_input_request"] = {"question": "which?"}
    if action == "request_external_research":
        members["external_research_request"] = {"query": "what is known?"}
    return says(members, **how)


def synthesis(**how: Any) -> Answered:
    return says(
        {"integrated_answer": "Yes.", "resolved_disagreements": [], "unresolved_disagreements": []},
        **how,
    )


def fails(
    kind: ErrorKind = "internal", *, retriable: bool | None = None, tokens: int = 0, reading: Reading | None = None
) -> Failed:
    again = kind in RETRYABLE if retriable is None else retriable
    return Failed(reading=reading or Reading(), kind=kind, retriable=again, spent=spent(tokens), message=kind)


def usual(ask: Ask) -> Answered:
    """What an agent says who has nothing special to say: a short turn, a verdict to finalize, a synthesis."""
    if ask.expect == "turn_structured_output":
        return turn()
    return verdict("finalize") if ask.expect == "verdict" else synthesis()


@dataclass(slots=True)
class Play:
    """A session as it went: the machine, every move, every step."""

    machine: Machine
    moves: list[Move] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)

    @property
    def asks(self) -> list[Ask]:
        return [move for move in self.moves if isinstance(move, Ask)]

    @property
    def outcome(self) -> Stopped | Synthesized:
        assert self.machine.outcome is not None
        return self.machine.outcome

    @property
    def reason(self) -> str:
        return self.outcome.reason if isinstance(self.outcome, Stopped) else "synthesis"

    @property
    def spoken(self) -> list[tuple[str, str]]:
        """Type and speaker of each message after the problem statement."""
        return [(draft.type, draft.speaker) for draft in self.machine.state.transcript[1:]]

    def messages(self) -> list[dict[str, Any]]:
        """The transcript as JSON."""
        drafts = self.machine.state.transcript
        return [as_message(draft) for draft in drafts]

    def outcome_data(self) -> dict[str, Any]:
        if isinstance(self.outcome, Synthesized):
            return {"kind": "synthesis", "synthesis_message_id": f"msg-{self.outcome.ordinal:03d}"}
        ending = {"reason": self.outcome.reason, "final_round": self.machine.state.round}
        return {"kind": "termination", "termination_artifact": ending}


def as_message(draft: Any) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": f"msg-{draft.ordinal:03d}",
        "speaker": draft.speaker,
        "type": draft.type,
        "content": draft.content,
        "parent_id": None if draft.parent is None else f"msg-{draft.parent:03d}",
        "round": draft.round,
        "turn_index": draft.turn_index,
        "branch_depth": draft.branch_depth,
        "timestamp": "2026-01-01T00:00:00Z",
        "usage": dict(draft.usage) if draft.usage else usage(0),
    }
    for name in ("suggested_followups", "dropped_deferred", "schema_failure"):
        if getattr(draft, name):
            message[name] = list(getattr(draft, name))
    return message


def play(
    given: Rules,
    answer: Callable[[Ask], Heard] | Sequence[Heard] = usual,
    *,
    panel: Sequence[str] = PANEL,
    rested: Reading | None = None,
) -> Play:
    """Run the machine to its end. Answers in a sequence are used up in order, and then the usual ones follow."""
    scripted: Iterator[Heard] = iter(() if callable(answer) else answer)
    made = Play(Machine(given))
    step = made.machine.begin(Reading())
    while True:
        made.steps.append(step)
        made.moves.append(step.move)
        match step.move:
            case Select():
                step = made.machine.send(Selected(reading=Reading(), panel=tuple(panel)))
            case Pause():
                step = made.machine.send(Rested(reading=rested or Reading()))
            case Ask() as ask:
                heard = answer(ask) if callable(answer) else next(scripted, None) or usual(ask)
                made.heard.append(heard)
                step = made.machine.send(heard)
            case _:
                return made


TARGETS = st.sampled_from((*PANEL, "chair", "nobody"))
KINDS: st.SearchStrategy[ErrorKind] = st.sampled_from(
    ("timeout", "network", "rate_limit", "quota_exhausted", "auth_failure", "malformed_response", "internal")
)


@st.composite
def some_rules(draw: st.DrawFn) -> Rules:
    """Rules with every knob turned."""
    return rules(
        max_rounds=draw(st.integers(1, 4)),
        max_total_tokens=draw(st.sampled_from((50, 200, 10_000))),
        max_total_cost_usd_nano=draw(st.sampled_from((0, 50_000, 10_000_000))),
        agent_tokens=draw(st.sampled_from(({}, {"ada": 25}, {"chair": 30}))),
        max_branch_depth=draw(st.sampled_from((1, 1, 2))),
        max_queue=draw(st.integers(0, 3)),
        drains_per_round=draw(st.integers(0, 2)),
        on_agent_failure=draw(st.sampled_from(("terminate", "continue_without"))),
        retries=draw(st.integers(0, 2)),
        synthesize_on_terminate=draw(st.booleans()),
    )


@st.composite
def some_plays(draw: st.DrawFn) -> Play:
    """Whole sessions: every agent says, asks for and fails at whatever the rules allow for."""
    given = draw(some_rules())

    def answer(ask: Ask) -> Heard:
        tokens = draw(st.sampled_from((0, 1, 5, 20)))
        if draw(st.integers(0, 6)) == 0:
            return fails(draw(KINDS), tokens=tokens)
        if ask.expect == "turn_structured_output":
            return turn(*draw(st.lists(TARGETS, max_size=4)), tokens=tokens)
        if ask.expect == "verdict":
            actions = (
                "continue",
                "continue",
                "continue",
                "finalize",
                "request_user_input",
                "request_external_research",
            )
            return verdict(draw(st.sampled_from(actions)), tokens=tokens)
        return synthesis(tokens=tokens)

    return play(given, answer, panel=draw(st.sampled_from((PANEL, PANEL[:1], PANEL[::-1]))))


def agent(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "persona_ref": persona(id), "provider": "fake", "model": "m", **more}


def persona(id: str) -> dict[str, Any]:
    return {
        "persona_class": "horizontal",
        "id": id,
        "reasoning_scope": f"scope of {id}",
        "reasoning_style": f"style of {id}",
        "behavioral_constraints": ["be brief"],
        "failure_modes": ["talks too much"],
    }


def config(panel: Sequence[str] = PANEL, *, budget: dict[str, Any] | None = None, **runtime: Any) -> Config:
    """A configuration whose every agent asks the provider `fake`."""
    return Config.parse(
        {
            "schema_version": "1.0.0",
            "session_id": "s-1",
            "originator": "user",
            "problem_statement": "What now?",
            "selector": {
                "strategy": "fixed",
                "default_deliberation_panel": list(panel),
                "coordinator_agent": "chair",
            },
            "agents": [agent(id) for id in panel],
            "coordinator": agent("chair"),
            "budget": dict[str, Any]()
            | {
                "max_total_tokens": 500_000,
                "max_total_cost_usd": 5.0,
                "max_rounds": 5,
                "max_wallclock_seconds": 1800,
                **(budget or {}),
            },
            "runtime": runtime,
        }
    )


def configured(given: Rules) -> Config:
    """A configuration that asks for these rules."""
    return config(
        budget={
            "max_total_tokens": given.max_total_tokens,
            "max_total_cost_usd": given.max_total_cost_usd_nano / NANO_PER_USD,
            "max_rounds": given.max_rounds,
            **({"per_agent_token_budget": dict(given.agent_tokens)} if given.agent_tokens else {}),
        },
        max_branch_depth=given.max_branch_depth,
        max_deferred_queue_length=given.max_queue,
        max_deferred_drains_per_round=given.drains_per_round,
        on_agent_failure=given.on_agent_failure,
        per_agent_retry_budget=given.retries,
        synthesize_on_terminate=given.synthesize_on_terminate,
    )


def result(heard: Heard) -> dict[str, Any]:
    """A call's result as the protocol writes it down."""
    good = isinstance(heard, Answered)
    error: dict[str, Any] | None = None
    if isinstance(heard, Failed):
        error = {"kind": heard.kind, "message": "no", "retriable": heard.retriable}
        error |= {} if heard.details is None else {"details": heard.details}
    return {
        "messages": [],
        "tool_events": [],
        "usage": heard.usage if isinstance(heard, Answered) else usage(heard.spent.tokens),
        "finish_reason": "stop" if good else "error",
        "structured_output": heard.content if isinstance(heard, Answered) else None,
        "raw": None,
        "error": error,
    }


def script(heard: Sequence[Heard], **more: Any) -> FakeProviderScript:
    entries = [{"result": result(each)} for each in heard]
    return FakeProviderScript.parse({"schema_version": "1.0.0", "entries": entries, **more})


def scripted(heard: Sequence[Heard], **more: Any) -> Scripted:
    return Scripted(neutral_script(script(heard, **more)), id="fake", one_at_a_time=True)


class Room:
    """A ledger in memory, and a run in it that a chair may drive."""

    def __init__(self, store: Store | None = None, run: str = "r1") -> None:
        self.store, self.run = store or memory(), run
        self._recorder: Recorder | None = None

    async def __aenter__(self) -> Pen:
        self._recorder = Recorder(self.store)
        # A lease that is over at once: whoever comes next may take the run, as after a crash.
        claim = self.store.claim(self.run, 0.0)
        requested = await self._recorder.record(
            RunRequested(mode="deliberation", surface="python", request=Body.text("What now?")),
            actor="human:test",
            run=self.run,
        )
        return Pen(recorder=self._recorder, run=self.run, claim=claim, causes=(requested.seq,))

    async def __aexit__(self, *_: object) -> None:
        assert self._recorder is not None
        await self._recorder.close()

    async def hold(
        self,
        config: Config,
        answers: Sequence[Heard] | Provider,
        *,
        setting: dict[str, Any] | None = None,
        pins: Pins | None = None,
        **more: Any,
    ) -> Sitting:
        provider = scripted(answers) if isinstance(answers, Sequence) else answers
        async with self as pen:
            made = Setting.of(config, **{"providers": {"fake": provider}, **(setting or {})})
            return await run_session(made, pen, pins=pins or pinned(), **more)

    async def resume(
        self,
        answers: Sequence[Heard] | Provider,
        *,
        setting: dict[str, Any] | None = None,
        pins: Pins | None = None,
        session: str | None = None,
        **more: Any,
    ) -> Sitting:
        """Go on with the session of the record; a script goes on where it was."""
        story = read_story(self.store, self.run, session)
        provider = scripted(answers[story.calls :] or [turn()]) if isinstance(answers, Sequence) else answers
        async with self as pen:
            made = Setting.of(story.config, **{"providers": {"fake": provider}, **(setting or {})})
            return await resume_session(made, pen, story, pins=pins or pinned(), **more)

    def facts(self, kind: str | None = None) -> list[Entry]:
        return list(self.store.select(Query(run=self.run, kind=kind)))
