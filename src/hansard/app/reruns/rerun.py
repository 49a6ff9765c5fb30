"""Re-runs a recorded run: the real engine, with recorded answers in place of models and programs, into a ledger in memory.

Nobody is asked but whoever is swapped in. The report says that every decision came out the same, or which was the first that
did not. Nonces, ids and the clock of gates come from the record, so prompts come out byte for byte.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from hansard.app.finding import unknown_run
from hansard.app.reruns.bounds import Bounded, Until
from hansard.app.reruns.decisions import Key, decisions
from hansard.app.reruns.gates import Gates
from hansard.app.reruns.lost import Lost, lost_calls, put_again
from hansard.app.reruns.order import Order
from hansard.app.reruns.phases import Phase, given_up, is_answer, phases_of
from hansard.app.reruns.sound import refuse_contradictions
from hansard.app.reruns.stage import PanelStage, Programs, Said, Stage, Taken, World
from hansard.app.settings import Settings
from hansard.app.setup.panels import share_of
from hansard.app.views import View
from hansard.app.wiring import found_ledger, replayed
from hansard.domain.budget import Budget
from hansard.domain.fact import Body
from hansard.domain.value import value
from hansard.domain.work import CancelAsked, RetryAsked, RunConfigured, RunRequested
from hansard.errors import HansardError, Tampered
from hansard.ledger.entry import Entry
from hansard.orchestration.calling import Means
from hansard.orchestration.checks.asking import TEMPLATES as CHECK_TEMPLATES
from hansard.orchestration.config import RunConfig
from hansard.orchestration.engine import Engine
from hansard.orchestration.nested import is_panel
from hansard.orchestration.progress import Progress, progress_of
from hansard.orchestration.route import Route, recorded_route
from hansard.orchestration.seams import Source
from hansard.orchestration.templates import TEMPLATES
from hansard.providers.base import Provider
from hansard.providers.prices import Price
from hansard.record.reading import came_of, strange
from hansard.record.recorder import Recorder, Step, Within
from hansard.record.replaying import Gone, Reader, recording_of
from hansard.store.base import Query, Store, verify_of

UNFINISHED = ("interrupted", "waiting")


@value
class Divergence:
    """A decision that came out otherwise. None stands for a decision that was not made at all."""

    decision: str
    recorded: str | None
    now: str | None
    seq: int | None

    def as_view(self) -> View:
        return {"decision": self.decision, "recorded": self.recorded, "now": self.now, "seq": self.seq}


@value
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
        # Beside the loop, as all that goes through a whole run: it may have thousands of tasks, and others are driven here.
        made = await asyncio.to_thread(_Rerun, store, run, memory.store, price, swap)
        return await made.report()


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
        self._reader = Reader(store)
        self._entries = self._reader.entries(run)
        if not any(entry.kind == "run.configured" for entry in self._entries):
            raise unknown_run(store, run)
        refuse_contradictions(self._reader, self._entries)
        self._progress = progress_of(run, self._entries)
        self._given_up = given_up(self._entries)
        kept = self._kept = [entry for entry in self._entries if entry.seq not in self._given_up]
        self._phases = phases_of(self._reader, kept)
        self._until = Until(memory, self._phases[0], swap)
        self._programs = Programs(self._reader, kept, self._until)
        self._replayed = replayed(recording_of(self._reader, kept))
        put = put_again(self._entries, self._phases, self._given_up)
        self._taken = Taken(self._reader, self._entries, put)
        self._order = Order(memory, self._until, self._taken.add)
        self._lost = lost_calls(self._entries, self._progress, self._phases, put, self._given_up)
        self._metered = _metered(self._entries)
        self._routed = self._said_by_the_router()
        self._gates = Gates(self._reader, self._entries, kept, self._progress, memory, self._until)

    async def report(self) -> Rerun:
        recorder = Bounded(self._memory, self._until)
        engine = Engine(
            recorder,
            self._memory,
            self._means_of,
            lambda _: lambda _: self._routed,
            clock_us=self._gates.clock_us,
            elsewhere=self._taken.elsewhere,
        )
        error = ""
        try:
            await self._submit(recorder)
            state = await self._driven(engine, recorder)
        except (Gone, Tampered):
            raise
        except HansardError as stop:
            state, error = "stopped", str(stop)
        finally:
            await recorder.close()
        first, compared = await asyncio.to_thread(self._compared)
        miss = self._replayed.first_miss or self._programs.miss
        note = error or self._note()
        return Rerun(
            run=self._run,
            identical=first is None and miss is None and not error,
            decisions=compared,
            state=state,
            first=first,
            miss=miss,
            swapped=tuple(sorted(self._swap)),
            note=note,
        )

    def _compared(self) -> tuple[Divergence | None, int]:
        """The first decision that came out otherwise, and how many were compared."""
        now = list(self._memory.select(Query(run=self._run)))
        before = dict(decisions(self._reader, self._entries, self._given_up))
        after = dict(decisions(Reader(self._memory), now))
        return self._first(before, after), len(before)

    def _note(self) -> str:
        notes = []
        if self._progress.ended is None:
            notes.append("the recorded run has not ended; its decisions so far were compared")
        elif self._cut:
            notes.append("the recorded run was cut short; its decisions until then were compared")
        if changed := _worded_otherwise(self._entries):
            notes.append(f"our prompts have other words since ({', '.join(changed)}); nobody has answered these")
        return "; ".join(notes)

    @property
    def _cut(self) -> bool:
        """Whether the recorded run stopped at a moment that no re-run can hit again."""
        return self._phases[-1].cut

    def _first(self, before: Mapping[Key, tuple[str, int]], after: Mapping[Key, tuple[str, int]]) -> Divergence | None:
        """The first decision of the record that came out otherwise; then the first that the record does not have."""
        for key, (then, seq) in before.items():
            now = after.get(key)
            if now is None or now[0] != then:
                return Divergence(decision=" ".join(key), recorded=then, now=now[0] if now else None, seq=seq)
        if self._cut:
            return None
        for key, (found, _) in after.items():
            if key not in before:
                return Divergence(decision=" ".join(key), recorded=None, now=found, seq=None)
        return None

    async def _submit(self, recorder: Recorder) -> None:
        asked = next(entry for entry in self._entries if entry.kind == "run.requested")
        configured = next(entry for entry in self._entries if entry.kind == "run.configured")
        data: Any = configured.data
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
                config=Body.json(self._timeless(self._reader.data(configured, "config"))),
                **{name: data.get(name) for name in Budget().recorded()},
            ),
        )
        await recorder.record_all([Step(facts[0], asked.actor), Step(facts[1], "engine", [Within(0)])], run=self._run)

    def _timeless(self, config: bytes) -> bytes:
        """A configuration without the run's limit of seconds: when they were over is told by the record, and not by our clock.
        Whoever is swapped in takes time of his own.
        """
        table = json.loads(config)
        if self._swap or "max_seconds" not in table.get("budget", {}):
            return config
        del table["budget"]["max_seconds"]
        return json.dumps(table).encode()

    async def _driven(self, engine: Engine, recorder: Recorder) -> str:
        """Drive to the end, phase by phase; where the recorded run heard of people, so does this one."""
        state = ""
        for phase in self._phases:
            if phase.retry is not None:
                await self._retry(recorder, phase.retry)
            self._until.begin(phase, is_last=phase is self._phases[-1])
            self._order.begin(phase, self._lost_in(phase))
            await self._gates.begin(recorder, phase)
            state = await self._gone_through(engine, recorder)
            self._order.give_up()
            self._until.cut()
            if state in UNFINISHED and phase.ended is not None:
                await self._cancel(recorder)
                state = (await engine.drive(self._run)).state
        return state

    def _lost_in(self, phase: Phase) -> Iterator[Lost]:
        """What was lost in a phase while it went on. What was lost when it was cut is lost from then on."""
        for each in (each for each in self._lost if phase.first <= each.place <= phase.last):
            if phase.cut and each.place > phase.claimed:
                self._until.owe(partial(self._taken.add, each.lane, each.took))
            else:
                yield each

    async def _gone_through(self, engine: Engine, recorder: Recorder) -> str:
        """Drive to the end of a phase, or to where the recorded run was cut in it."""
        while True:
            words = self._gates.words
            driving = asyncio.ensure_future(engine.drive(self._run))
            over = asyncio.ensure_future(self._until.over())
            beside = [asyncio.ensure_future(each) for each in (self._order.kept(), self._gates.people(recorder))]
            try:
                await asyncio.wait({driving, over}, return_when=asyncio.FIRST_COMPLETED)
                if not driving.done():
                    return "interrupted"
                ended = driving.result()
            finally:
                driving.cancel()
                for each in (over, *beside):
                    each.cancel()
                await asyncio.gather(driving, over, *beside, return_exceptions=True)
            if ended.state == "waiting":
                await self._gates.decide(recorder, ended.gates)
            if ended.state != "waiting" or words == self._gates.words:
                return ended.state

    async def _cancel(self, recorder: Recorder) -> None:
        requested = (await asyncio.to_thread(self._so_far)).requested
        causes = [requested] if requested is not None else []
        await recorder.record(CancelAsked(surface="python"), actor="engine", run=self._run, causes=causes)

    async def _retry(self, recorder: Recorder, asked: Entry) -> None:
        progress = await asyncio.to_thread(self._so_far)
        causes = [progress.requested, progress.ended.seq if progress.ended else None]
        fact = RetryAsked(task=str(asked.data["task"]), surface=asked.data["surface"])
        known = [cause for cause in causes if cause is not None]
        await recorder.record(fact, actor=asked.actor, run=self._run, causes=known)

    def _so_far(self) -> Progress:
        """How far this one has come."""
        return progress_of(self._run, self._memory.select(Query(run=self._run)))

    def _means_of(self, config: RunConfig, _: str) -> Means:
        models = _models(self._entries)
        names = dict.fromkeys((*config.providers, *models))
        said = Said(self._reader, self._entries, self._until)
        sources = tuple(
            Source(
                name=table["name"],
                source=said.of(table["name"]),
                max_tokens=table["max_tokens"],
                when=table["when"],
            )
            for table in config.context
        )
        order = self._kept_order(config)
        return Means(
            providers={name: self._stage(name, models.get(name, "default"), config) for name in names},
            programs=self._programs,
            price=self._price,
            sleep=_no_time,
            sources=sources,
            verifier=said if config.verifier else None,
            reviser=said if config.reviser else None,
            number=lambda task, previous: self._until.phase.number(task, previous),
            turn=order.turn if order else None,
        )

    def _kept_order(self, config: RunConfig) -> Order | None:
        """The order in which calls are made; None where it does not matter."""
        # Somebody else's answers lead to other questions. Without a limit nobody takes anything from anybody, but what
        # the record does not come to any more must not stand in the way of what it has.
        if self._swap or not (_is_limited(config) or any(phase.cut for phase in self._phases)):
            self._order.give_up()
            return None
        self._order.is_limited, self._order.is_timed = _is_limited(config), _is_timed(config)
        return self._order

    def _stage(self, name: str, model: str, config: RunConfig) -> Stage:
        unmetered = name not in self._metered
        world = World(self._replayed, self._swap, self._until, self._taken, self._kept_order(config))
        if not is_panel(name):
            return Stage(name, model, world, unmetered=unmetered)
        if (table := config.providers.get(name)) is None:
            why = "and its configuration has no such panel: nobody recorded that"
            raise Tampered(f"run {self._run} asked {name}, {why}; {verify_of(self._reader.place, deep=True)}")
        # A panel that a limit of money has refused each time said nothing: what its agents cost is known then.
        unmetered = unmetered and config.prices.keys().isdisjoint(_agents(table["config"]))
        return PanelStage(name, world, unmetered=unmetered, share=share_of(table))

    def _said_by_the_router(self) -> Route:
        """What the router said in the record."""
        found = next((entry for entry in self._progress.routed if entry.data["tier"] != 2), None)
        if found is None:
            return Route(lane=None, confidence_ppm=0, runner_up=None, evidence=(), tier=0, scores=())
        try:
            return recorded_route(json.loads(self._reader.data(found, "evidence")))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise strange(found, "evidence", error) from error


def _agents(panel: Mapping[str, Any]) -> list[str]:
    """Whom the agents of a panel ask, as PROVIDER:MODEL."""
    return [f"{agent['provider']}:{agent['model']}" for agent in (*panel["agents"], panel["coordinator"])]


def _is_limited(config: RunConfig) -> bool:
    """Whether calls take something from each other. A run's seconds are told by the clock."""
    return replace(config.budget, max_seconds=None) != Budget() or any(lane.budget for lane in config.roster.lanes)


def _is_timed(config: RunConfig) -> bool:
    """Whether lanes have seconds, and nothing that is limited is set aside by estimate and given back with an answer."""
    budgets = [config.budget, *(lane.budget for lane in config.roster.lanes if lane.budget)]
    estimated = any(each.max_tokens is not None or each.max_cost_usd_nano is not None for each in budgets)
    return not estimated and any(each.max_seconds is not None for each in budgets[1:])


def _models(entries: Sequence[Entry]) -> dict[str, str]:
    asked = [entry.data for entry in entries if entry.kind in ("task.attempted", "role.asked")]
    return {str(data["provider"]): str(data["model"]) for data in asked}


def _worded_otherwise(entries: Sequence[Entry]) -> list[str]:
    """The templates that were asked with, and have other words in this version of ours."""
    ours = {template.id for template in (*TEMPLATES.values(), *CHECK_TEMPLATES.values())}
    asked = {str(entry.data["template"]) for entry in entries if entry.kind in ("task.attempted", "role.asked")}
    return sorted({id.partition("@")[0] for id in asked - ours})


def _metered(entries: Sequence[Entry]) -> set[str]:
    """The providers for which somebody sends a bill, as far as the record tells."""
    asked = {
        entry.seq: str(entry.data["provider"]) for entry in entries if entry.kind in ("task.attempted", "role.asked")
    }
    answers = [entry for entry in entries if is_answer(entry)]
    said = {(came_of(asked, each), each.data["cost_basis"]) for each in answers}
    # A panel's sum is an estimate wherever somebody in it sends a bill.
    return {name for name, basis in said if basis not in ("unmetered", "estimate" if not is_panel(name) else "")}


async def _no_time(_: float) -> None:
    """A re-run does not wait."""
