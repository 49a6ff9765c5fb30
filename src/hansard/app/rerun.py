"""Re-runs a recorded run: the real engine, with recorded answers in place of models and programs, into a ledger in memory.

Nobody is asked but whoever is swapped in. The report says that every decision came out the same, or which was the first that
did not. Nonces, ids and the clock of gates come from the record, so prompts come out byte for byte.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from hansard.app.phases import Phase, deeds, is_answer, phases_of
from hansard.app.settings import Settings
from hansard.app.views import View
from hansard.app.wiring import found_ledger, replayed
from hansard.domain.exchange import Completion, Exchange
from hansard.domain.fact import Body
from hansard.domain.gate import GateDecided
from hansard.domain.work import CancelAsked, RetryAsked, RunConfigured, RunRequested
from hansard.errors import HansardError, ProviderError, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.asking import Means
from hansard.orchestration.config import RunConfig
from hansard.orchestration.engine import Engine
from hansard.orchestration.progress import progress_of
from hansard.orchestration.route import Route, recorded_route
from hansard.orchestration.seams import Source, Verification
from hansard.providers.base import Provider
from hansard.providers.prices import Price
from hansard.providers.recording import Recording, call_of, opened
from hansard.record.recorder import Recorder, Step, Within
from hansard.record.replaying import CUT_SHORT, Reader, recording_of
from hansard.store.base import Query, Store

Key = tuple[str, ...]
FOREVER_US = 1 << 60
UNFINISHED = ("interrupted", "waiting")
LOOK_S = 0.01
PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A decision that came out otherwise. None stands for a decision that was not made at all."""

    decision: str
    recorded: str | None
    now: str | None
    seq: int | None

    def as_view(self) -> View:
        return {"decision": self.decision, "recorded": self.recorded, "now": self.now, "seq": self.seq}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What came of a re-run. `miss` names the first question that the record could not answer."""

    run: str
    identical: bool
    decisions: int
    state: str
    first: Divergence | None = None
    miss: str | None = None
    swapped: tuple[str, ...] = ()
    note: str = ""

    def as_view(self) -> View:
        return {
            "run": self.run,
            "identical": self.identical,
            "decisions": self.decisions,
            "state": self.state,
            "first_divergence": self.first.as_view() if self.first else None,
            "miss": self.miss,
            "swapped": list(self.swapped),
            "note": self.note,
        }


class Stage:
    """A provider in a re-run: recorded answers for all roles but those that are swapped."""

    def __init__(
        self,
        name: str,
        model: str,
        recorded: Provider,
        swapped: Mapping[str, Provider],
        until: "_Until",
        *,
        unmetered: bool,
    ) -> None:
        self.id, self.unmetered = name, unmetered
        self._model, self._recorded, self._swapped, self._until = model, recorded, swapped, until

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "replayed", "model": self._model}

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def complete(self, exchange: Exchange) -> Completion:
        live = self._swapped.get(str(exchange.metadata.get("role", "")))
        if live is None:
            await self._until.reached(exchange)
            return await self._recorded.complete(exchange)
        with self._until.waiting():
            return await live.complete(exchange)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    exit_code: int | None
    stdout: bytes
    stderr: bytes


class _Until:
    """Knows how far the recorded run came in a phase. Whoever asks for more waits, as it waited until it was cut."""

    def __init__(self, memory: Store, run: str, first: Phase) -> None:
        self._memory, self._run, self.phase = memory, run, first
        self._stands = asyncio.Event()
        self._live = 0

    async def reached(self, exchange: Exchange) -> None:
        """Come back where the recorded run got past this question, or had none such."""
        if self.phase.stands_at(call_of(exchange), sha256(opened(exchange)).hexdigest()):
            await self.held()

    async def held(self) -> None:
        self._stands.set()
        await asyncio.Event().wait()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While somebody is asked live."""
        self._live += 1
        try:
            yield
        finally:
            self._live -= 1

    def begin(self, phase: Phase) -> None:
        self.phase = phase
        self._stands.clear()

    async def over(self) -> None:
        """Wait until somebody waits for more, and all that the recorded run did is done; or nothing was done for a while."""
        await self._stands.wait()
        size, idle_s = 0, 0.0
        while idle_s < PATIENCE_S:
            entries = list(self._memory.select(Query(run=self._run)))
            if self.phase.done <= deeds(entries):
                return
            idle_s = idle_s + LOOK_S if len(entries) == size and not self._live else 0.0
            size = len(entries)
            await asyncio.sleep(LOOK_S)


class _Programs:
    """Recorded runs of programs; anything else is a miss."""

    def __init__(self, recording: Recording, until: _Until) -> None:
        self._ran = {(each.argv, each.stdin_sha256): each for each in recording.programs}
        self._until = until
        self.miss: str | None = None

    async def __call__(self, argv: tuple[str, ...], stdin: bytes, timeout_s: float) -> _Ran:
        found = self._ran.get((argv, sha256(stdin).hexdigest()))
        if found is None and self._until.phase.cut:
            await self._until.held()
        if found is None:
            self.miss = self.miss or f"program {argv!r}: the recorded run started none with this input"
            raise ProviderError(self.miss)
        return _Ran(exit_code=found.exit_code, stdout=found.stdout, stderr=found.stderr)


class _Said:
    """What seams said, from the record."""

    def __init__(self, reader: Reader, entries: Sequence[Entry]) -> None:
        self._reader = reader
        self._entries = entries
        self.source = ""

    def of(self, source: str) -> "_Said":
        made = _Said(self._reader, self._entries)
        made.source = source
        return made

    async def context(self, request: str, task: str | None) -> str:
        for entry in self._entries:
            if entry.kind == "context.given" and (entry.data["source"], entry.data.get("task")) == (self.source, task):
                text = _text(self._reader, entry, "context")
                if entry.data["failed"] is True:
                    raise ProviderError(text)
                return text
        raise ProviderError(f"the recorded run asked no source {self.source!r} about this")

    async def verify(self, request: str, answer: str) -> Verification | None:
        found = _last(self._entries, "answer.checked", check="verifier")
        if found is None:
            raise ProviderError("the recorded run asked no verifier")
        if found.data["outcome"] == "crashed":
            raise ProviderError(_text(self._reader, found, "detail"))
        return Verification(outcome=found.data["outcome"], detail=_text(self._reader, found, "detail"))

    async def revise(self, request: str, answer: str) -> str | None:
        found = _last(self._entries, "answer.revised")
        return _text(self._reader, found, "answer") if found else None


async def rerun(
    store: Store,
    run: str,
    settings: Settings,
    *,
    price: Callable[[str], Price | None],
    swap: Mapping[str, Provider] = MappingProxyType({}),
) -> Rerun:
    """Re-run a run. Whoever is in `swap`, by role, is asked live; nobody else is."""
    with found_ledger(replace(settings, ledger="memory:")) as memory:
        return await _Rerun(store, run, memory.store, price, swap).report()


class _Rerun:
    def __init__(
        self,
        store: Store,
        run: str,
        memory: Store,
        price: Callable[[str], Price | None],
        swap: Mapping[str, Provider],
    ) -> None:
        self._run, self._swap, self._memory, self._price = run, swap, memory, price
        self._entries = list(store.select(Query(run=run)))
        if not any(entry.kind == "run.configured" for entry in self._entries):
            raise UsageError(f"there is no run {run!r} in {store.place}; `hansard runs list` shows them")
        self._reader = Reader(store)
        self._progress = progress_of(run, self._entries)
        self._recording = recording_of(store, self._entries)
        self._phases = phases_of(self._reader, self._entries)
        self._until = _Until(memory, run, self._phases[0])
        self._programs = _Programs(self._recording, self._until)
        self._replayed = replayed(self._recording)
        self._metered = _metered(self._entries)
        self._late = False

    async def report(self) -> Rerun:
        recorder = Recorder(self._memory)
        left = frozenset[int]().union(*(phase.left for phase in self._phases if phase.cut))
        lost = tuple(lane for seq, lane in self._progress.lost.items() if seq not in left)
        engine = Engine(recorder, self._memory, self._means_of, self._router_of, clock_us=self._clock_us, lost=lost)
        error = ""
        try:
            await self._submit(recorder)
            state = await self._driven(engine, recorder)
        except HansardError as stop:
            state, error = "stopped", str(stop)
        finally:
            await recorder.close()
        now = list(self._memory.select(Query(run=self._run)))
        before = dict(decisions(self._reader, self._entries))
        after = dict(decisions(Reader(self._memory), now))
        first = self._first(before, after)
        miss = self._replayed.first_miss or self._programs.miss
        note = error or self._note()
        return Rerun(
            run=self._run,
            identical=first is None and miss is None and not error,
            decisions=len(before),
            state=state,
            first=first,
            miss=miss,
            swapped=tuple(sorted(self._swap)),
            note=note,
        )

    def _note(self) -> str:
        if self._progress.ended is None:
            return "the recorded run has not ended; its decisions so far were compared"
        return "the recorded run was cut short; its decisions until then were compared" if self._cut else ""

    @property
    def _cut(self) -> bool:
        """Whether the recorded run stopped at a moment that no re-run can hit again."""
        return self._phases[-1].cut

    def _first(self, before: Mapping[Key, tuple[str, int]], after: Mapping[Key, tuple[str, int]]) -> Divergence | None:
        """The first decision of the record that came out otherwise; then the first that the record does not have."""
        for key, (value, seq) in before.items():
            now = after.get(key)
            if now is None or now[0] != value:
                return Divergence(decision=" ".join(key), recorded=value, now=now[0] if now else None, seq=seq)
        if self._cut:
            return None
        for key, (value, _) in after.items():
            if key not in before:
                return Divergence(decision=" ".join(key), recorded=None, now=value, seq=None)
        return None

    async def _submit(self, recorder: Recorder) -> None:
        asked = next(entry for entry in self._entries if entry.kind == "run.requested")
        configured = next(entry for entry in self._entries if entry.kind == "run.configured")
        data: Any = configured.data
        limits = ("max_calls", "max_tokens", "max_cost_usd_nano", "max_seconds")
        request = self._reader.body(asked, "request")
        assert request is not None
        facts = (
            RunRequested(
                mode=asked.data["mode"],
                surface=asked.data["surface"],
                request=request,
                plan=self._reader.body(asked, "plan"),
            ),
            RunConfigured(
                nonce=data["nonce"],
                software=data["software"],
                config=Body.json(self._reader.data(configured, "config")),
                **{name: data.get(name) for name in limits},
            ),
        )
        await recorder.record_all([Step(facts[0], asked.actor), Step(facts[1], "engine", [Within(0)])], run=self._run)

    async def _driven(self, engine: Engine, recorder: Recorder) -> str:
        """Drive to the end, phase by phase; where the recorded run heard of people, so does this one."""
        state = ""
        for phase in self._phases:
            if phase.retry is not None:
                await self._retry(recorder, phase.retry)
            self._until.begin(phase)
            state = await self._gone_through(engine, recorder)
            if state in UNFINISHED and phase.ended is not None:
                await self._cancel(recorder)
                state = (await engine.drive(self._run)).state
        return state

    async def _gone_through(self, engine: Engine, recorder: Recorder) -> str:
        """Drive to the end of a phase, or to where the recorded run was cut in it."""
        while True:
            driving = asyncio.ensure_future(engine.drive(self._run))
            over = asyncio.ensure_future(self._until.over())
            try:
                await asyncio.wait({driving, over}, return_when=asyncio.FIRST_COMPLETED)
                if not driving.done():
                    return "interrupted"
                ended = driving.result()
            finally:
                driving.cancel()
                over.cancel()
                await asyncio.gather(driving, over, return_exceptions=True)
            if ended.state != "waiting" or not await self._decide(recorder, ended.gates):
                return ended.state

    async def _decide(self, recorder: Recorder, gates: Sequence[str]) -> bool:
        """Hand over what people decided at these gates; False when the record has nothing more to say."""
        said = False
        opened = {str(e.data["gate"]): e for e in self._memory.select(Query(run=self._run, kind="gate.opened"))}
        heard = {
            (e.data["gate"], e.actor, e.data["decision"])
            for e in self._memory.select(Query(run=self._run, kind="gate.decided"))
        }
        for entry in self._entries:
            data: Any = entry.data
            if entry.kind == "gate.decided" and data["gate"] in gates:
                if (data["gate"], entry.actor, data["decision"]) in heard:
                    continue
                fact = GateDecided(
                    gate=data["gate"],
                    decision=data["decision"],
                    shown=tuple(opened[data["gate"]].data["shown"]),
                    authenticated=data["authenticated"],
                    edit=self._reader.body(entry, "edit"),
                )
                cause = opened[data["gate"]].seq
                await recorder.record(fact, actor=entry.actor, run=self._run, causes=[cause])
                said = True
            elif entry.kind == "gate.closed" and data["gate"] in gates and data["expired"] is True and not self._late:
                self._late = said = True
        return said

    async def _cancel(self, recorder: Recorder) -> None:
        requested = progress_of(self._run, self._memory.select(Query(run=self._run))).requested
        causes = [requested] if requested is not None else []
        await recorder.record(CancelAsked(surface="python"), actor="engine", run=self._run, causes=causes)

    async def _retry(self, recorder: Recorder, asked: Entry) -> None:
        progress = progress_of(self._run, self._memory.select(Query(run=self._run)))
        causes = [progress.requested, progress.ended.seq if progress.ended else None]
        fact = RetryAsked(task=str(asked.data["task"]), surface=asked.data["surface"])
        known = [cause for cause in causes if cause is not None]
        await recorder.record(fact, actor=asked.actor, run=self._run, causes=known)

    def _means_of(self, config: RunConfig) -> Means:
        models = _models(self._entries)
        names = dict.fromkeys((*config.providers, *models))
        said = _Said(self._reader, self._entries)
        sources = tuple(
            Source(
                name=table["name"],
                source=said.of(table["name"]),
                max_tokens=table["max_tokens"],
                when=table["when"],
            )
            for table in config.context
        )
        return Means(
            providers={name: self._stage(name, models.get(name, "default")) for name in names},
            programs=self._programs,
            price=self._price,
            sleep=_no_time,
            sources=sources,
            verifier=said if config.verifier else None,
            reviser=said if config.reviser else None,
            number=lambda task, previous: self._until.phase.number(task, previous),
        )

    def _stage(self, name: str, model: str) -> Stage:
        return Stage(name, model, self._replayed, self._swap, self._until, unmetered=name not in self._metered)

    def _router_of(self, config: RunConfig) -> Any:
        return lambda _: self._route()

    def _route(self) -> Route:
        """What the router said in the record."""
        found = next((entry for entry in self._progress.routed if entry.data["tier"] != 2), None)
        if found is None:
            return Route(lane=None, confidence_ppm=0, runner_up=None, evidence=(), tier=0, scores=())
        return recorded_route(json.loads(self._reader.data(found, "evidence")))

    def _clock_us(self) -> int:
        return FOREVER_US if self._late else time.time_ns() // 1_000


def decisions(reader: Reader, entries: Sequence[Entry]) -> Iterator[tuple[Key, tuple[str, int]]]:
    """What was decided in a run, each by a name that a re-run gives it too, with the entry that says so."""
    counts: dict[str, int] = {}
    unanswered = _unanswered(entries)
    # A run's seconds are told by the clock; a lane's are those of the recorded answers.
    out_of_time = {
        e.seq for e in entries if e.kind == "budget.breached" and e.data["unit"] == "seconds" and not e.data.get("lane")
    }
    for entry in entries:
        if (entry.data.get("task"), entry.data.get("attempt")) in unanswered and entry.kind == "task.attempted":
            continue
        if entry.seq in out_of_time or (entry.kind == "task.skipped" and not out_of_time.isdisjoint(entry.causes)):
            continue
        for key, value in _decision(reader, entry, counts):
            yield key, (value, entry.seq)


def _decision(reader: Reader, entry: Entry, counts: dict[str, int]) -> Iterator[tuple[Key, str]]:
    data: Any = entry.data

    def number(name: str) -> str:
        counts[name] = counts.get(name, 0) + 1
        return str(counts[name])

    match entry.kind:
        case "run.routed":
            yield ("route", f"tier {data['tier']}"), f"{data.get('lane')} (runner-up {data.get('runner_up')})"
        case "plan.made":
            yield ("plan", number("plan")), f"by {data['by']}, {_short(reader.data(entry, 'plan'))}"
        case "context.given":
            yield ("context", data["source"], str(data.get("task") or "")), f"{data['admitted_tokens']} tokens"
        case "task.attempted":
            yield (
                ("attempt", data["task"], str(data["attempt"])),
                f"on {data['rung']}, {_short(reader.data(entry, 'prompt'))}",
            )
        case "task.judged":
            yield ("verdict", data["task"], str(data["attempt"])), _verdict(data)
        case "task.escalated":
            yield ("escalation", data["task"], data["from_rung"]), f"to {data['to_rung']}"
        case "task.skipped" if data["because"] not in ("cancelled",):
            yield ("skip", data["task"]), f"{data['because']} {data.get('upstream') or ''}".strip()
        case "gate.closed":
            yield ("gate", data["gate"]), f"{data['outcome']}{' by expiry' if data['expired'] else ''}"
        case "budget.breached":
            yield ("budget", data["unit"], str(data.get("lane") or "")), f"limit {data['limit']}"
        case "run.answered":
            whole = "complete" if data["complete"] else f"without {', '.join(data.get('missing', []))}"
            yield ("answer", number("answer")), f"{whole}, {_short(reader.data(entry, 'answer'))}"
        case "answer.checked":
            yield ("check", data["check"], number(f"check {data['check']}")), str(data["outcome"])
        case "answer.revised":
            yield ("revision", number("revision")), "accepted" if data["accepted"] else "refused"
        case "run.ended" if data["reason"] not in CUT_SHORT:
            yield ("end", number("end")), f"{data['state']}: {data['reason']}"


def _verdict(data: Mapping[str, Any]) -> str:
    score = f", score {data['score_ppm']}" if data.get("score_ppm") is not None else ""
    return f"{'passed' if data['ok'] else 'rejected'} by {data['by']}{score}"


def _short(data: bytes) -> str:
    return f"sha256 {sha256(data).hexdigest()[:16]}"


def _unanswered(entries: Sequence[Entry]) -> set[tuple[Any, Any]]:
    """Attempts that nobody answered: the engine ended, or was stopped, while they were made."""
    asked = {(e.data["task"], e.data["attempt"]) for e in entries if e.kind == "task.attempted"}
    answered = {(e.data["task"], e.data["attempt"]) for e in entries if e.kind == "task.returned" and is_answer(e)}
    return asked - answered


def _models(entries: Sequence[Entry]) -> dict[str, str]:
    asked = [entry.data for entry in entries if entry.kind in ("task.attempted", "role.asked")]
    return {str(data["provider"]): str(data["model"]) for data in asked}


def _last(entries: Sequence[Entry], kind: str, **data: str) -> Entry | None:
    found = [e for e in entries if e.kind == kind and all(e.data.get(key) == value for key, value in data.items())]
    return found[-1] if found else None


def _text(reader: Reader, entry: Entry, part: str) -> str:
    found = reader.body(entry, part)
    return found.as_text() if found else ""


def _metered(entries: Sequence[Entry]) -> set[str]:
    """The providers for which somebody sends a bill, as far as the record tells."""
    asked = {
        entry.seq: str(entry.data["provider"]) for entry in entries if entry.kind in ("task.attempted", "role.asked")
    }
    answers = [entry for entry in entries if entry.kind in ("task.returned", "role.answered")]
    return {asked[each.causes[0]] for each in answers if each.data["cost_basis"] not in ("unmetered", "estimate")}


async def _no_time(_: float) -> None:
    """A re-run does not wait."""
