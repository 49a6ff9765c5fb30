"""A panel as a provider: a rung, a lane or a role of a run is answered by a deliberation that stands in the same run.

The session is caused by the entry that asks, is recorded under the run's claim, and takes no more than was carved out for it.
An attempt that a crash cut short goes on with the session that it had convened; nobody is asked twice.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hansard.app.setup.allowance import Allowance, Charged, Priced
from hansard.app.setup.panels import share_of
from hansard.app.telling.deliberationviews import asked_for, pending_of
from hansard.app.telling.nested_sessions import is_gone_on_with, sessions_by_question
from hansard.app.views import positions
from hansard.deliberation.documents import Config
from hansard.deliberation.documents.jcs import jcs
from hansard.deliberation.pins import live
from hansard.deliberation.protocol.moves import Stopped
from hansard.deliberation.session import Pen, Sitting, resume_session, run_session
from hansard.deliberation.setting import Setting
from hansard.deliberation.story import Story, entries_of, read_story
from hansard.domain.budget import NANO_PER_USD, Budget, Spend
from hansard.domain.exchange import Completion, Cost, CostBasis, ErrorKind, Exchange, Usage
from hansard.errors import Fenced, StoreError, Unavailable, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.journal import Journal
from hansard.orchestration.nested import Because, Nested
from hansard.orchestration.purse import USUAL_OUTPUT_TOKENS
from hansard.providers.base import Heard, Provider, answer, answered, failed, failure
from hansard.providers.prices import Price
from hansard.providers.prompt import prompt_of
from hansard.providers.recording import call_of
from hansard.providers.secrets import Secrets
from hansard.providers.tools import Handler
from hansard.record.history import fold
from hansard.record.reading import read_entries
from hansard.store.base import Query, Store

NOTHING = Spend()
WHOSE = "the run has set aside for this panel"
KINDS: Mapping[str, ErrorKind] = {
    "budget_exceeded": "quota_exhausted",
    "timeout": "timeout",
    "schema_error": "internal",
    "user_input_required": "invalid_request",
    "external_research_required": "invalid_request",
    "user_cancel": "internal",
    "provider_unrecoverable": "internal",
}
"""What a session that ended without an answer is called among the failures of providers."""


class Nobody:
    """Stands in for an agent's provider in a session that is only to end."""

    unmetered = True

    def __init__(self, id: str) -> None:
        self.id = id

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "nobody"}

    async def close(self) -> None:
        """There is nothing to let go of."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        return failed(self, exchange, failure("internal", f"{self.id} is not asked any more"))


class Panel:
    """A panel that can be asked. `providers` are those that its agents name, `tools` run what they may use, and `prices` are
    the run's own, by PROVIDER:MODEL.
    """

    def __init__(
        self,
        name: str,
        table: Mapping[str, Any],
        providers: Mapping[str, Provider],
        tools: Mapping[str, Handler],
        prices: Mapping[str, Price],
        *,
        store: Store,
        secrets: Secrets,
    ) -> None:
        self.id, self._share, self._tools, self._prices = name, share_of(table), tools, prices
        self._config = Config.parse(table["config"])
        self._store, self._secrets = store, secrets
        used = [agent.provider for agent in self._config.everybody]
        for id in used:
            if id not in providers:
                raise UsageError(f"{name}: there is no provider {id!r} for its agents ({', '.join(providers)})")
        self._providers = {id: providers[id] for id in used}

    @property
    def unmetered(self) -> bool:
        return all(provider.unmetered for provider in self._providers.values())

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "panel", "model": self.id}

    async def close(self) -> None:
        """Its providers are others', too."""

    def share(self, exchange: Exchange) -> Budget:
        """What one answer may take at most, whatever is asked."""
        return self._share

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        """Outside of a run there is no record to hold a session in."""
        return failed(self, exchange, failure("invalid_request", f"{self.id} only answers inside of a run"))

    def goes_on(self, run: str, exchange: Exchange) -> bool:
        """Whether an earlier driver of this run had convened a session on this question."""
        return _driven_before(self._store, run) and is_gone_on_with(_entries(self._store, run), call_of(exchange))

    async def convene(self, exchange: Exchange, nested: Nested) -> Completion:
        """Hold a session on this question, or what is left of it after a crash."""
        began = asyncio.get_running_loop().time()
        try:
            sitting = await self._sat(exchange, nested)
        except UsageError as error:
            return failed(self, exchange, failure("invalid_request", str(error)))
        completion = self._completion(exchange, sitting, nested.journal.run)
        took_us = int((asyncio.get_running_loop().time() - began) * 1_000_000)
        return await answer(self, exchange, lambda *_: _given(replace(completion, latency_us=max(1, took_us))))

    async def _sat(self, exchange: Exchange, nested: Nested) -> Sitting:
        cancel = asyncio.Event()
        session = asyncio.ensure_future(self._session(exchange, nested, cancel))
        try:
            return await asyncio.shield(session)
        except asyncio.CancelledError:
            if self._is_cancelled(nested.journal.run):
                cancel.set()
            else:
                session.cancel()
            await _over(session)
            if not session.cancelled() and (error := session.exception()):
                raise error from None
            raise

    async def _session(self, exchange: Exchange, nested: Nested, cancel: asyncio.Event) -> Sitting:
        journal, most = nested.journal, exchange.limits.max_output_tokens
        before = convened_before(self._store, journal.run, nested.entry)
        if before is not None:
            return await self._go_on(before, most, nested, cancel)
        pen = Pen(recorder=journal.recorder, run=journal.run, claim=journal.claim, causes=(nested.entry,))
        setting = self._setting(self._asked(exchange, nested), most, nested)
        return await run_session(setting, pen, cancel=cancel, listener=journal.tell)

    async def _go_on(self, session: str, most_output: int | None, nested: Nested, cancel: asyncio.Event) -> Sitting:
        """The rest of a session, within what it has not taken yet."""
        run = nested.journal.run
        story = read_story(self._store, run, session)
        setting = self._setting(story.config, most_output, nested, self._taken(run, session))
        return await _resumed(setting, story, nested.journal, nested.share.max_seconds, cancel)

    def _taken(self, run: str, session: str) -> Spend:
        """What a session has taken so far, with the calls of which nothing came back."""
        taken = fold(entries_of(self._store, run, session)).runs[run]
        calls = taken.calls + len(taken.calling)
        return Spend(calls=calls, tokens=taken.tokens, cost_usd_nano=taken.cost_usd_nano, priced=not taken.unpriced)

    def _asked(self, exchange: Exchange, nested: Nested) -> Config:
        """The configuration of the session: what is asked, within what was set aside."""
        share = nested.share
        budget: dict[str, Any] = {**self._config.budget.as_data()}
        if share.max_tokens is not None:
            budget["max_total_tokens"] = max(1, share.max_tokens)
        if share.max_cost_usd_nano is not None:
            budget["max_total_cost_usd"] = share.max_cost_usd_nano / NANO_PER_USD
        if share.max_seconds is not None:
            budget["max_wallclock_seconds"] = max(1, int(share.max_seconds))
        data = self._config.as_data()
        session = f"{nested.journal.run}-{nested.entry}"
        return Config.parse(
            {**data, "session_id": session, "problem_statement": problem_of(exchange), "budget": budget}
        )

    def _setting(self, config: Config, most_output: int | None, nested: Nested, taken: Spend = NOTHING) -> Setting:
        """The setting, in which everybody is asked within the share of the run and what is left of the panel's own limits."""
        share, own = nested.share, self._share
        tokens = _left(share.max_tokens, own.max_tokens, taken.tokens)
        if most_output is None and tokens is not None:
            # As for whoever else the run asks: without a bound the last answer would have none.
            most_output = USUAL_OUTPUT_TOKENS
        allowance = Allowance(
            calls=_left(share.max_calls, own.max_calls, taken.calls),
            tokens=tokens,
            cost_usd_nano=_left(share.max_cost_usd_nano, own.max_cost_usd_nano, taken.cost_usd_nano),
            most_output=most_output,
            charge=nested.charge,
            whose=WHOSE,
        )
        charged = {id: Charged(Priced(each, self._prices), allowance) for id, each in self._providers.items()}
        return Setting.of(config, providers=charged, secrets=self._secrets, handlers=self._tools)

    def _is_cancelled(self, run: str) -> bool:
        """Whether somebody wants the run cancelled, and no task of it done again since."""
        asked = list(self._store.select(Query(run=run, kind="run.cancel_asked", newest_first=True, limit=1)))
        after = asked[0].seq if asked else -1
        again = self._store.select(Query(run=run, kind="run.retry_asked", after=after, limit=1))
        return bool(asked) and not any(again)

    def _completion(self, exchange: Exchange, sitting: Sitting, run: str) -> Completion:
        artifact = sitting.artifact
        # A session that had ended before was not held here: what it took, failed calls included, stands on the record.
        took = sitting.held or self._taken(run, artifact["session_id"])
        heard = Heard(usage=_usage(artifact, took.tokens), raw=jcs(artifact), returned_model=self.id)
        basis: CostBasis = "unmetered" if self.unmetered else "estimate" if took.priced else "unknown"
        cost = Cost(usd_nano=took.cost_usd_nano, basis=basis)
        if sitting.reason != "synthesis":
            made = failed(self, exchange, _failure(sitting), heard=heard)
            return replace(made, cost=cost)
        content = artifact["canonical_transcript"][-1]["content"]
        text = content["integrated_answer"]
        return Completion(
            provider=self.id,
            requested_model=self.id,
            returned_model=self.id,
            text=text if exchange.schema is not None else text + dissent(content["unresolved_disagreements"]),
            usage=heard.usage or Usage(),
            cost=cost,
            raw=heard.raw,
        )


async def end_sessions(store: Store, secrets: Secrets, journal: Journal, because: Because) -> None:
    """End the sessions that are open in a run: with user_cancel, with timeout, or because nobody is asked any more."""
    over = {entry.data["session"] for entry in read_entries(store, Query(run=journal.run, kind="session.ended"))}
    cancel, seconds = asyncio.Event(), 0 if because == "deadline" else None
    if because == "cancelled":
        cancel.set()
    for entry in list(read_entries(store, Query(run=journal.run, kind="session.convened"))):
        if entry.data["session"] in over:
            continue
        try:
            story = read_story(store, journal.run, str(entry.data["session"]))
            used = [agent.provider for agent in story.config.everybody]
            nobody = {id: Charged(Nobody(id), Allowance(calls=0, whose=WHOSE)) for id in used}
            setting = Setting.of(story.config, providers=nobody, secrets=secrets)
            await _resumed(setting, story, journal, seconds, cancel)
        except (Fenced, Unavailable):
            raise
        except (StoreError, UsageError):
            # What cannot be read any more cannot be ended either; the run ends all the same.
            continue


async def _resumed(
    setting: Setting, story: Story, journal: Journal, seconds: float | None, cancel: asyncio.Event
) -> Sitting:
    """The rest of a session, in no more time than is left for it now."""
    pen = Pen(recorder=journal.recorder, run=journal.run, claim=journal.claim)
    gone_us = story.elapsed_us
    if seconds is not None:
        gone_us = max(gone_us, (story.config.budget.max_wallclock_seconds - int(seconds)) * 1_000_000)
    pins = live(elapsed_before_us=gone_us, seed=story.seed)
    return await resume_session(setting, pen, story, pins=pins, cancel=cancel, listener=journal.tell)


def problem_of(exchange: Exchange) -> str:
    """The question as a problem for a panel. A shape that is asked for is the shape of the integrated answer."""
    asked = prompt_of(exchange)
    if exchange.schema is None:
        return asked
    return (
        f"{asked}\n\nThe answer of this panel, the coordinator's `integrated_answer`, must be that one JSON object as a text, "
        "and nothing else. Where the panel does not agree, say in it who dissents, and why."
    )


def dissent(unresolved: list[Mapping[str, Any]]) -> str:
    """What the panel did not settle, for whoever reads its answer; nothing where it settled everything."""
    if not unresolved:
        return ""
    said = [f"- {each['topic']} ({positions(each)})" for each in unresolved]
    return "\n".join(["", "", "Not settled by the panel:", *said])


def convened_before(store: Store, run: str, entry: int) -> str | None:
    """The session that an earlier driver of this run had convened for the same question, where a crash cut it short."""
    return sessions_by_question(_entries(store, run)).get(entry) if _driven_before(store, run) else None


def _driven_before(store: Store, run: str) -> bool:
    return len(list(store.select(Query(run=run, kind="run.claimed", limit=2)))) > 1


def _entries(store: Store, run: str) -> list[Entry]:
    return list(read_entries(store, Query(run=run)))


def _left(share: int | None, own: int | None, taken: int) -> int | None:
    """The lesser of a share and of what is left of a limit; None where there is neither."""
    return min((each for each in (share, None if own is None else own - taken) if each is not None), default=None)


async def _over(session: "asyncio.Future[Any]") -> None:
    """Wait until a session is over; whoever is in a hurry leaves it as it stands on the record."""
    try:
        await asyncio.wait([session])
    except asyncio.CancelledError:
        session.cancel()
        await asyncio.wait([session])
        raise


async def _given(completion: Completion) -> Completion:
    return completion


def _usage(artifact: Mapping[str, Any], tokens: int) -> Usage:
    """What all calls took, failed ones included."""
    sums = artifact["cumulative_usage"]
    failed_ones = max(0, tokens - sums["total_tokens"])
    guessed = any(message["usage"].get("estimated") for message in artifact["canonical_transcript"])
    return Usage(
        input_tokens=sums["prompt_tokens"] + failed_ones, output_tokens=sums["completion_tokens"], estimated=guessed
    )


def _failure(sitting: Sitting) -> Any:
    ending = sitting.artifact["outcome"]["termination_artifact"]
    said = f"the panel ended without an answer: {sitting.reason}"
    last = ending.get("last_provider_failure")
    if pending := pending_of(ending):
        said += f"; it asks: {' '.join(asked_for(pending))}"
    if sitting.held and isinstance(stop := sitting.held.outcome, Stopped) and stop.why:
        said += f"; {stop.why}"
    if last:
        said += f"; {last['agent_id']} ({last['provider']}): {last['message']}"
    # The session has retried what could be retried: whoever asked it asks somebody else next.
    kind = last["kind"] if last and sitting.reason == "provider_unrecoverable" else KINDS[sitting.reason]
    return failure(kind, said[:2_000], retryable=False)
