"""From what was asked for to the plan of a run: as recorded, as the user wrote it, of one task by route, or by the coordinator."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal, NamedTuple

from hansard.domain.fact import Body
from hansard.domain.work import PlanMade, RunRouted
from hansard.errors import StoreError, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.asking import Asker
from hansard.orchestration.config import RunConfig
from hansard.orchestration.contexts import Contexts
from hansard.orchestration.ending import Ending
from hansard.orchestration.fence import Fences
from hansard.orchestration.journal import Journal
from hansard.orchestration.plan import Plan, parse_plan, refuse_lane
from hansard.orchestration.progress import Progress
from hansard.orchestration.roles import Choice, as_json, classifier, coordinator
from hansard.record.reading import read_body
from hansard.record.recorder import Cause, Step, Within
from hansard.store.base import Store

if TYPE_CHECKING:
    from hansard.orchestration.route import Route


class Asked(NamedTuple):
    """What a run is for, and how it is to be done; each with its entry."""

    requested: int
    configured: int
    request: str
    config: RunConfig
    plan: bytes | None
    """The plan that the user wrote, where it was not taken up yet."""


def body_of(store: Store, entry: Entry, part: str) -> bytes:
    """A body without which a run cannot go on."""
    stored = read_body(store, entry, part)
    if stored is None:
        raise StoreError(
            f"the {part} of run {entry.run} (entry {entry.seq}) is not in the ledger any more: it cannot go on"
        )
    return stored.body


class Planner:
    """Plans one run. `known` holds plans that were read when they were handed in, by run."""

    def __init__(
        self,
        asked: Asked,
        progress: Progress,
        store: Store,
        asker: Asker,
        contexts: Contexts,
        router_of: "Callable[[RunConfig], Callable[[str], Route]]",
        known: Mapping[str, tuple[bytes, Plan]],
    ) -> None:
        self._requested, self._configured, self._request, self._config, self._brought = asked
        self._journal: Journal = asker.journal
        self._progress, self._store, self._asker, self._contexts = progress, store, asker, contexts
        self._router_of, self._known = router_of, known

    async def made(self) -> "tuple[Plan | Ending, int]":
        """The plan: as recorded, as the user wrote it, of one task by route, or by the coordinator."""
        if self._progress.plan is not None:
            # One of thousands of tasks takes a while to read, and others are driven here meanwhile.
            return await asyncio.to_thread(self.recorded, self._progress.plan), self._progress.plan
        if (data := self._brought) is not None:
            brought = self._known.get(self._journal.run)
            plan = brought[1] if brought and brought[0] == data else self.parsed(data, "the plan")
            fact = plan_made(plan, "user", data)
            recorded = await self._journal.record(fact, "engine", [self._requested, self._configured])
            return plan, recorded.seq
        route, routed = await self._routed()
        if self._progress.mode == "single":
            return await self._single(route.lane, routed)
        return await self._coordinated(route, routed)

    def recorded(self, seq: int) -> Plan:
        return self.parsed(body_of(self._store, self._store.entry(seq), "plan"), f"entry {seq}")

    def parsed(self, data: bytes, where: str) -> Plan:
        try:
            table = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{where} holds no plan: {error}") from error
        return parse_plan(table, self._config.roster, self._config.policy, where=where, commands=True)

    async def _routed(self) -> "tuple[Route, int]":
        """The router's word, on the record; on resume what it said then, whatever it would say by now."""
        if self._progress.routed:
            from hansard.orchestration.route import recorded_route

            first, last = self._progress.routed[0], self._progress.routed[-1]
            return recorded_route(json.loads(body_of(self._store, first, "evidence"))), last.seq
        route = self._router_of(self._config)(self._request)
        fact = RunRouted(
            tier=route.tier,
            lane=route.lane,
            runner_up=route.runner_up,
            confidence_ppm=route.confidence_ppm,
            evidence=Body.json(as_json(asdict(route))),
        )
        recorded = await self._journal.record(fact, "router", [self._requested, self._configured])
        return route, recorded.seq

    async def _single(self, lane: str | None, routed: int) -> "tuple[Plan | Ending, int]":
        """A plan of one task, in the lane that the router or the classifier names."""
        if self._progress.routed and self._progress.routed[-1].data.get("tier") == 2:
            lane = self._progress.routed[-1].data.get("lane")
        elif lane is None:
            lane, routed = await self._classified(routed)
        if lane is None:
            why = "no lane fits this request; name one (--lane), or let it be planned (without --single)"
            return Ending(state="failed", reason="no_lane", causes=(routed,), detail=why), routed
        try:
            refuse_lane(lane, self._config.roster, self._config.policy, "route")
        except UsageError as error:
            return Ending(state="failed", reason="lane_refused", causes=(routed,), detail=str(error)), routed
        plan = Plan.single(lane, self._request)
        recorded = await self._journal.record(plan_made(plan, "router"), "engine", [self._requested, routed])
        return plan, recorded.seq

    async def _classified(self, routed: int) -> tuple[str | None, int]:
        fences = Fences(self._progress.nonce, "", 1, "classifier")
        question = classifier(self._request, self._config.roster, self._config.policy, fences)

        def then(choice: Choice, _: object) -> list[Step]:
            fact = RunRouted(
                tier=2,
                lane=choice.lane,
                confidence_ppm=choice.confidence_ppm,
                evidence=Body.json(as_json({"reason": choice.reason})),
            )
            return [Step(fact, "classifier", [routed, Within(0)])]

        answer = await self._asker.ask(question, [routed], then=then)
        return answer.value.lane, answer.following[0]

    async def _coordinated(self, route: "Route", routed: int) -> tuple[Plan, int]:
        fences = Fences(self._progress.nonce, "", 1, "coordinator")
        config = self._config
        context = await self._contexts.gather(None, [self._requested, self._configured])
        question = coordinator(
            self._request,
            config.roster,
            config.policy,
            fences,
            most=config.tuning.max_tasks,
            scores=dict(route.scores),
            context=context.texts,
            tokens=config.tuning.max_output_tokens,
        )

        def then(plan: Plan, _: object) -> list[Step]:
            causes: list[Cause] = [self._requested, routed, *context.seqs, Within(0)]
            return [Step(plan_made(plan, "coordinator"), "coordinator", causes)]

        answer = await self._asker.ask(question, [routed, *context.seqs], then=then)
        return answer.value, answer.following[0]


def plan_made(plan: Plan, by: Literal["coordinator", "user", "router", "edit"], data: bytes | None = None) -> PlanMade:
    """A plan as it goes on the record."""
    return PlanMade(
        by=by,
        tasks=len(plan.tasks),
        edges=plan.edges,
        waves=len(plan.waves),
        plan=Body.json(data or as_json(plan.as_data())),
    )
