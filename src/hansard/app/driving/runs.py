"""Runs, for every surface: submit, drive, cancel, resume, retry, run again. What they have become is told in `recorded`."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hansard.app.driving.brought import brought_plan
from hansard.app.driving.claiming import beginning
from hansard.app.driving.listening import listening
from hansard.app.driving.waiting import Waiting
from hansard.app.finding import is_of_a_panel, unknown_run
from hansard.app.ids import new_nonce
from hansard.app.lanes.routers import Routers
from hansard.app.people import human
from hansard.app.pool import Pool
from hansard.app.settings import read_text
from hansard.app.spelling import spelled
from hansard.app.telling.capsule import capsule_text
from hansard.app.telling.following import until_over
from hansard.app.telling.recorded import ENDED, RecordedRuns
from hansard.app.views import View
from hansard.app.wiring import SOFTWARE
from hansard.domain.budget import Budget
from hansard.domain.fact import Body, Fact
from hansard.domain.strict_json import read_json
from hansard.domain.strict_toml import read_toml
from hansard.domain.work import CancelAsked, ResumeAsked, RetryAsked, RunConfigured, RunRequested, Surface
from hansard.errors import Fenced, HansardError, StoreError, Unknown, UsageError, plainly
from hansard.orchestration.config import RunConfig
from hansard.orchestration.ending import Ended
from hansard.orchestration.journal import Journal, Listener, without_secrets
from hansard.orchestration.nested import Because, is_panel
from hansard.orchestration.plan import Plan, refuse_lane
from hansard.orchestration.progress import progress_of
from hansard.orchestration.roles import as_json
from hansard.orchestration.watching import Ask
from hansard.providers.base import Provider
from hansard.providers.programs.environment import found, passed_on
from hansard.record.reading import read_body
from hansard.record.recorder import Recorder, Step, Within
from hansard.store.base import Store

if TYPE_CHECKING:
    from hansard.orchestration.engine import Engine

MAX_REQUEST = 10_000_000
KEEP_S = 0.3
NOTICED_S = 10.0
MOST_CONFIGS = 64
OF_A_PANEL = (
    "`hansard deliberate --continue RUN` goes on from a session that asked for something, "
    "and `hansard session resume DIR` completes a session's directory"
)
"""What can be done about a deliberation that is over."""
SUBMIT_AGAIN = "`hansard submit REQUEST` hands it in again"
SWAPPABLE = ("worker", "coordinator", "classifier", "validator", "synthesizer", "intent_judge", "reviser")

Accepted = asyncio.Event | None
"""Is set as soon as what was asked for is on the record."""


class Runs(RecordedRuns):
    """The runs of one open ledger, and what can be done to them."""

    def __init__(self, recorder: Recorder, store: Store, pool: Pool) -> None:
        super().__init__(store)
        self._recorder, self._pool = recorder, pool
        self._routers = Routers(pool.settings)
        self._submitted: set[str] = set()
        """Runs of the engine that were submitted here and not driven yet."""
        self._configs: dict[int, tuple[RunConfig, bytes]] = {}
        self._listeners: list[Listener] = []
        self._driving: dict[str, asyncio.Task[Ended]] = {}
        self.waiting = Waiting(store)
        self.deliberate: Callable[[str, Ask | None], Coroutine[Any, Any, Ended]] | None = None
        """Who drives a run that is a deliberation; it records what is asked of it once the run is his."""
        pool.panel = self._panel
        pool.capsule = lambda run: capsule_text(store, found := self.find(run), self.entries(found))

    @cached_property
    def _engine(self) -> "Engine":
        # Whoever only looks needs none, and it takes a while to load.
        from hansard.orchestration.engine import Engine

        return Engine(
            self._recorder,
            self._store,
            self._pool.means_of,
            self._routers.of,
            secrets=self._pool.secrets,
            listeners=self._listeners,
            abandon=self._abandon,
        )

    def _panel(self, *panel: Any) -> Provider:
        # Most runs have none, and what deliberates takes a while to load.
        from hansard.app.driving.panel_provider import Panel

        return Panel(*panel, store=self._store, secrets=self._pool.secrets)

    async def _abandon(self, journal: Journal, because: Because) -> None:
        from hansard.app.driving.panel_provider import end_sessions

        await end_sessions(self._store, self._pool.secrets, journal, because)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of everything that drivers of this process record; gives what ends it. Errors of a listener end nothing else."""
        return listening(self._listeners, listener)

    async def submit(
        self,
        request: str,
        config: RunConfig,
        *,
        mode: str = "request",
        plan: object = None,
        commands: bool = True,
        lane: str | None = None,
        surface: Surface = "python",
        actor: str | None = None,
        run: str | None = None,
        lent: Mapping[str, Provider] = MappingProxyType({}),
    ) -> str:
        """Put a request on the record, with its whole configuration; gives the run's id, which may be the caller's own. Nothing
        is asked yet. `commands`: whether checks of the plan may run programs here. `lent`: providers for this run alone."""
        _check_request(request)
        written = self._written(request, config, mode, plan, lane, typed=surface == "cli", commands=commands)
        plan_json = as_json(written.as_data()) if written else None
        if config.context:
            config = replace(config, context=tuple(map(self._settled_source, config.context)))
        requested = RunRequested(
            mode="plan" if plan is not None else "single" if lane is not None else mode,  # type: ignore[arg-type]
            surface=surface,
            request=Body.text(request),
            plan=Body.json(plan_json) if plan_json else None,
        )
        as_recorded = self._opened(config)
        self._routers.keep(config)
        asked, configured = without_secrets(requested, self._pool.secrets), _configured(config.budget, as_recorded)
        steps = [Step(asked, actor or human()), Step(configured, "engine", [Within(0)])]
        async with beginning(self._store, run) as id:
            self._pool.keep(id, config, lent)
            for recorded in await self._recorder.record_all(steps, run=id):
                self._tell(id, recorded)
        self._submitted.add(id)
        if written and plan_json:
            self._engine.brought[id] = plan_json, written
        return id

    def _opened(self, config: RunConfig) -> bytes:
        """The configuration as it is recorded, once whoever it names is open and nothing in it is secret."""
        as_recorded = self._recorded_config(config)
        # Opened now: a provider that cannot be opened here is a mistake of usage, and its keys are known before we record.
        self._pool.means_of(config)
        if held := self._pool.secrets.found_in(as_recorded):
            raise UsageError(
                f"the configuration of this run holds {', '.join(held)} in clear, and it stands in the record for good; "
                "name the environment variable or the file that has it instead"
            )
        return as_recorded

    def _recorded_config(self, config: RunConfig) -> bytes:
        """The configuration as it is recorded. A daemon has few, and writes them for every run."""
        known = self._configs.get(id(config))
        if known is None or known[0] is not config:
            if len(self._configs) >= MOST_CONFIGS:
                self._configs.clear()
            known = self._configs[id(config)] = config, _readable(config)
        return known[1]

    def _settled_source(self, source: Mapping[str, Any]) -> Mapping[str, Any]:
        """A source that is another run, by its whole id: `last` is the newest as of now, and not the run that asks."""
        if "run" not in source:
            return source
        return {**source, "run": self.find(str(source["run"]))}

    def _written(
        self, request: str, config: RunConfig, mode: str, plan: object, lane: str | None, *, typed: bool, commands: bool
    ) -> Plan | None:
        """The plan that the user brings: whole, or one task in a lane."""
        named, single = spelled("lane", typed=typed), spelled("single", typed=typed)
        if plan is not None and (lane is not None or mode == "single"):
            raise UsageError(f"a plan has tasks and lanes of its own, and contradicts {named} and {single}; keep one")
        if plan is not None:
            written = brought_plan(plan, config, where="the plan", commands=commands)
            self._refuse_missing_programs(written)
        elif lane is not None:
            refuse_lane(lane, config.roster, config.policy, named)
            written = Plan.single(lane, request)
        else:
            return None
        for id in (id for rule in config.gates if rule.asked for id in rule.tasks):
            # Refuses a gate before a task that will not come.
            written.task(id)
        return written

    def _refuse_missing_programs(self, plan: Plan) -> None:
        """UsageError where a check names a program that is not on the PATH: every result would be rejected, on every rung, after
        it was paid for. One with a slash may be what an earlier task makes.
        """
        environment = passed_on(self._pool.settings.environment)
        checks = ((task.id, check) for task in plan.tasks for check in task.checks)
        for program, id in {check.value[0]: id for id, check in checks if check.kind == "command"}.items():
            if "/" not in program and found(program, environment) is None:
                none = f"there is no program {program!r:.80} on the PATH"
                raise UsageError(f"the plan: task {id!r} has a check whose command cannot be run: {none}")

    async def drive(self, run: str, *, wait: bool = False) -> Ended:
        """Drive a run to its end, here and now. `wait`: also past gates, whose deadlines are kept here meanwhile."""
        while True:
            joined = self._driving_now(run)
            # Who only joined and is tired of waiting interrupts nobody.
            ended = await (asyncio.shield(joined) if joined else self.begin(run))
            if ended.state != "waiting":
                return ended
            if wait:
                await self.waiting.decided(run)
            elif not (joined and await self.waiting.may_go_on(run)):
                # Whoever drove it already may not have seen what was decided before this was called.
                return ended

    def begin(self, run: str) -> asyncio.Task[Ended]:
        """Drive a run, here and from now on; whoever closes this interrupts it."""
        return self._driving_now(run) or self._begun(run, self._driver(run))

    def _driving_now(self, run: str) -> asyncio.Task[Ended] | None:
        """Who drives a run here. A task that is done stands there until the loop comes to what is called back."""
        task = self._driving.get(run)
        return None if task is None or task.done() else task

    def _begun(self, run: str, work: Coroutine[Any, Any, Ended]) -> asyncio.Task[Ended]:
        task = self._driving[run] = asyncio.ensure_future(work)
        task.add_done_callback(lambda task: self._driven(run, task))
        return task

    def _driver(self, run: str, ask: Ask | None = None) -> Coroutine[Any, Any, Ended]:
        if run in self._submitted:
            self._submitted.discard(run)
        elif is_of_a_panel(self._store, run) and self.deliberate:
            return self.deliberate(run, ask)
        return self._engine.drive(run, ask)

    async def close(self) -> None:
        """Interrupt whatever is driven here; the record says so, and it can be resumed."""
        while driving := list(self._driving.values()):
            for task in driving:
                task.cancel()
            await asyncio.gather(*driving, return_exceptions=True)
            # From Python 3.12 on nothing waits for what is done already, and what is called back then comes to nobody.
            await asyncio.sleep(0)

    def _driven(self, run: str, task: asyncio.Task[Ended]) -> None:
        if self._driving.get(run) is task:
            del self._driving[run]
        self._engine.brought.pop(run, None)
        if not task.cancelled() and task.exception() is None and task.result().state in ENDED:
            self._pool.let_go(run)
        self._recorder.seal_soon()

    async def cancel(
        self, run: str, *, surface: Surface = "python", actor: str | None = None, accepted: Accepted = None
    ) -> Ended | None:
        """Ask for a run to be cancelled. Where nobody drives it, this carries it out, and says how it ended; where another
        process does, it is given a while to notice.
        """
        requested = await asyncio.to_thread(self._unfinished, run)
        await self._ask(run, CancelAsked(surface=surface), actor, [requested], accepted)
        try:
            if driving := self._driving_now(run):
                # Whoever is tired of waiting interrupts nobody: the run is to end, and not to stay as it is.
                ended = await asyncio.shield(driving)
                if ended.state != "waiting":
                    return ended
            return await self.drive(run)
        except Fenced:
            await until_over(self._store, run, NOTICED_S)
            return None

    async def resume(self, run: str, *, surface: Surface = "python", actor: str | None = None) -> Ended:
        """Drive an unfinished run on from the record. Fenced, and nothing is recorded, where another process drives it."""
        requested = await asyncio.to_thread(self._unfinished, run)
        if self._driving_now(run):
            return await self.drive(run)
        ask = partial(self._ask, run, ResumeAsked(surface=surface), actor, [requested])
        return await self._begun(run, self._driver(run, ask))

    async def ask_to_resume(self, run: str, *, surface: Surface = "python", actor: str | None = None) -> None:
        """Put it on the record that somebody wants an unfinished run to go on. Nobody drives it yet."""
        requested = await asyncio.to_thread(self._unfinished, run)
        await self._ask(run, ResumeAsked(surface=surface), actor, [requested])

    async def _ask(self, run: str, fact: Fact, actor: str | None, causes: list[int], accepted: Accepted = None) -> None:
        await self._recorder.record(fact, actor=actor or human(), run=run, causes=causes)
        if accepted:
            accepted.set()

    async def retry(self, run: str, task: str, *, surface: Surface = "python", actor: str | None = None) -> Ended:
        """Do one task again, and with it whatever was built on it."""
        ask = await self._to_retry(run, task, surface, actor)
        return await self._begun(run, self._engine.drive(run, ask))

    async def ask_to_retry(self, run: str, task: str, *, surface: Surface = "python", actor: str | None = None) -> None:
        """Put it on the record that somebody wants a task done again. Nobody drives the run yet."""
        await self._engine.ask(run, await self._to_retry(run, task, surface, actor))

    async def _to_retry(self, run: str, task: str, surface: Surface, actor: str | None) -> Ask:
        """What puts it on the record; UsageError where that task cannot be done again."""
        causes = await asyncio.to_thread(self._retried, run, task)
        if self._driving_now(run):
            raise UsageError(f"run {run} is being driven; retry a task when it has ended")
        return partial(self._ask, run, RetryAsked(task=task, surface=surface), actor, causes)

    def _retried(self, run: str, task: str) -> list[int]:
        """The entries on which it rests that a task is done again."""
        progress = progress_of(run, self.entries(run))
        if progress.requested is None:
            raise unknown_run(self._store, run)
        if is_of_a_panel(self._store, run):
            raise UsageError(f"run {run} is a panel's, and has no task to do again; {OF_A_PANEL}")
        if progress.plan is None and progress.ended is None:
            resume = f"hansard runs resume {run} --ledger {quote(self._store.place)}"
            raise UsageError(f"run {run} has no plan yet; `{resume}` goes on with it")
        rejected = progress.ended is not None and progress.ended.data["reason"] == "gate_rejected"
        if progress.plan is None or progress.mode == "plan_only" or rejected:
            raise UsageError(f"run {run} has carried out no plan, so there is no task to do again; {SUBMIT_AGAIN}")
        plan = json.loads(self._body(progress.plan, "plan"))
        ids = [each["id"] for each in plan["tasks"]]
        if task not in ids:
            raise Unknown(f"run {run} has no task {task!r}; its tasks are {', '.join(ids[:20])}")
        return [progress.requested] + ([progress.ended.seq] if progress.ended else [])

    async def rerun(self, run: str, swap: Mapping[str, str] | None = None) -> View:
        """Re-run a run from the record alone. `swap` names providers, by role, that are asked live instead."""
        if is_of_a_panel(self._store, run):
            raise UsageError(
                f"run {run} is a panel's, and has no plan to go through again; "
                "a session is held again with: hansard session execution-replay DIR"
            )
        config = await asyncio.to_thread(self._config, run)
        swapped: dict[str, Provider] = {}
        for role, name in (swap or {}).items():
            table = config.providers.get(name) or self._pool.settings.providers.get(name)
            if role not in SWAPPABLE:
                raise UsageError(f"there is no role {role!r}; one of {', '.join(SWAPPABLE)} can be swapped")
            if is_panel(name):
                raise UsageError(f"{name} is a panel, and a re-run holds no sessions; swap in a provider")
            if table is None:
                raise UsageError(f"there is no provider {name!r}; name one of the run's, or one of hansard.toml")
            swapped[role] = self._pool.provider(name, table, config.folder)
        from hansard.app.reruns.rerun import rerun

        done = await rerun(self._store, run, self._pool.settings, price=self._pool.prices.find, swap=swapped)
        return done.as_view()

    def _config(self, run: str) -> RunConfig:
        entries = {entry.kind: entry for entry in reversed(self.entries(run))}
        if "run.requested" not in entries:
            raise unknown_run(self._store, run)
        configured = entries.get("run.configured")
        if configured is None:
            raise unknown_run(self._store, run)
        return RunConfig.from_json(self._body(configured.seq, "config"), f"entry {configured.seq}")

    def has_gates(self, run: str) -> bool:
        """Whether people have a say in a run."""
        if is_of_a_panel(self._store, run):
            # Its configuration is another one, and has no gates.
            return False
        try:
            return bool(self._config(run).gates)
        except HansardError:
            # Nobody can drive what cannot be read, so it comes to no gate.
            return False

    async def keep(self, run: str) -> None:
        """For whoever watches a run: where it waits and nobody drives it, go on when people decided or a deadline is over."""
        while (state := self.state(run)[0]) not in ENDED:
            if state == "waiting":
                await self.waiting.decided(run)
                with suppress(Fenced):
                    await self.drive(run)
            await asyncio.sleep(KEEP_S)

    def _unfinished(self, run: str) -> int:
        progress = progress_of(run, self.entries(run))
        if progress.requested is None:
            raise unknown_run(self._store, run)
        if progress.ended is not None:
            retry = f"`hansard runs retry {run} TASK --ledger {quote(self._store.place)}` does a task again"
            again = retry if progress.tasks else SUBMIT_AGAIN
            again = OF_A_PANEL if is_of_a_panel(self._store, run) else again
            raise UsageError(f"run {run} has ended ({progress.ended.data['state']}); {again}")
        return progress.requested

    def _body(self, seq: int, part: str) -> bytes:
        stored = read_body(self._store, self._store.entry(seq), part)
        if stored is None:
            raise UsageError(f"the {part} of entry {seq} is not in the ledger any more")
        return stored.body

    def _tell(self, run: str, recorded: Any) -> None:
        for listener in tuple(self._listeners):
            listener(run, recorded)


def _check_request(request: object) -> None:
    if not isinstance(request, str):
        raise UsageError(
            f"the request must be text, and is of type {type(request).__name__}; say in words what is wanted"
        )
    if not request.strip():
        raise UsageError("the request is empty; say what is wanted")
    if len(request) > MAX_REQUEST:
        raise UsageError(f"the request has {len(request):,} characters; at most {MAX_REQUEST:,} are taken")


def _configured(budget: Budget, as_recorded: bytes) -> RunConfigured:
    return RunConfigured(nonce=new_nonce(), software=SOFTWARE, config=Body.json(as_recorded), **budget.recorded())


def read_plan(path: Path) -> Any:
    """A plan file, JSON or TOML. What has two readings is none."""
    try:
        text = read_text(path)
        plan = read_toml(text) if path.suffix == ".toml" else read_json(text, where=f"the plan {path}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read the plan {path}: {plainly(error)}") from error
    if not isinstance(plan, dict):
        raise UsageError(f'{path} holds no plan; write {{"tasks": [...]}}, or let one be made: hansard plan REQUEST')
    return plan


def _readable(config: RunConfig) -> bytes:
    """A configuration as it is recorded, once it is certain that it can be read back: who could not could do nothing to its run."""
    try:
        data = config.to_json()
        RunConfig.from_json(data, "the configuration of the run")
    except (TypeError, ValueError) as error:
        raise UsageError(f"this configuration cannot be recorded: {error}") from error
    except StoreError as error:
        raise UsageError(str(error.__cause__)) from error
    return data


def mode_of(mode: str, plan: object, lane: str | None) -> str:
    """What makes the plan of a run, and so who may be asked and needs a price: nobody where it is brought, or a lane is named.
    The record calls the latter `single`: its plan is one task.
    """
    return mode if plan is None and lane is None else "plan"
