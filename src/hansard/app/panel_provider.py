"""A panel as a provider: a rung, a lane or a role of a run is answered by a deliberation that stands in the same run.

The session is caused by the entry that asks, is recorded under the run's claim, and takes no more than was carved out for it.
An attempt that a crash cut short goes on with the session that it had convened; nobody is asked twice.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hansard.app.allowance import Allowance, Charged
from hansard.app.panels import share_of
from hansard.deliberation.documents import Config
from hansard.deliberation.documents.jcs import jcs
from hansard.deliberation.protocol.moves import Stopped
from hansard.deliberation.session import Pen, Sitting, resume_session, run_session
from hansard.deliberation.setting import Setting
from hansard.deliberation.story import read_story
from hansard.domain.budget import Budget
from hansard.domain.exchange import Completion, Cost, ErrorKind, Exchange, Usage
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.journal import Journal
from hansard.orchestration.nested import Nested
from hansard.providers.base import Heard, Provider, answer, answered, failed, failure
from hansard.providers.prompt import prompt_of
from hansard.providers.secrets import Secrets
from hansard.providers.tools import Handler
from hansard.store.base import Query, Store

NANO = 1_000_000_000
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


class Panel:
    """A panel that can be asked. `providers` are those that its agents name, `tools` run what they may use."""

    def __init__(
        self,
        name: str,
        table: Mapping[str, Any],
        providers: Mapping[str, Provider],
        tools: Mapping[str, Handler],
        store: Store,
        secrets: Secrets,
    ) -> None:
        self.id, self.share, self._tools = name, share_of(table), tools
        self._config = Config.parse(table["config"])
        self._store, self._secrets = store, secrets
        used = [agent.provider for agent in (*self._config.agents, self._config.coordinator)]
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

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        """Outside of a run there is no record to hold a session in."""
        return failed(self, exchange, failure("invalid_request", f"{self.id} only answers inside of a run"))

    async def convene(self, exchange: Exchange, nested: Nested) -> Completion:
        """Hold a session on this question, or what is left of it after a crash."""
        began = asyncio.get_running_loop().time()
        try:
            sitting = await self._sat(exchange, nested)
        except UsageError as error:
            return failed(self, exchange, failure("invalid_request", str(error)))
        completion = self._completion(exchange, sitting)
        took_us = int((asyncio.get_running_loop().time() - began) * 1_000_000)
        return await answer(self, exchange, lambda *_: _given(replace(completion, latency_us=max(1, took_us))))

    async def abandon(self, journal: Journal) -> None:
        """End the sessions of this panel that are open in a run, with user_cancel."""
        over = {entry.data["session"] for entry in self._store.select(Query(run=journal.run, kind="session.ended"))}
        for entry in list(self._store.select(Query(run=journal.run, kind="session.convened"))):
            asked = self._store.entry(entry.causes[0])
            if entry.data["session"] in over or asked.data.get("provider") != self.id:
                continue
            cancel = asyncio.Event()
            cancel.set()
            nothing = Nested(journal=journal, entry=asked.seq, share=Budget(max_calls=0), charge=lambda _: None)
            story = read_story(self._store, journal.run, str(entry.data["session"]))
            pen = Pen(recorder=journal.recorder, run=journal.run, claim=journal.claim)
            setting = self._setting(story.config, None, nothing)
            await resume_session(setting, pen, story, cancel=cancel, listener=journal.tell)

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
        journal = nested.journal
        pen = Pen(recorder=journal.recorder, run=journal.run, claim=journal.claim, causes=(nested.entry,))
        before = convened_before(self._store, journal.run, nested.entry)
        if before is None:
            most = exchange.limits.max_output_tokens
            setting = self._setting(self._asked(exchange, nested), most, nested)
            return await run_session(setting, pen, cancel=cancel, listener=journal.tell)
        story = read_story(self._store, journal.run, str(before.data["session"]))
        setting = self._setting(story.config, exchange.limits.max_output_tokens, nested)
        return await resume_session(setting, pen, story, cancel=cancel, listener=journal.tell)

    def _asked(self, exchange: Exchange, nested: Nested) -> Config:
        """The configuration of the session: what is asked, within what was set aside."""
        share = nested.share
        budget: dict[str, Any] = {**self._config.budget.as_data()}
        if share.max_tokens is not None:
            budget["max_total_tokens"] = max(1, share.max_tokens)
        if share.max_cost_usd_nano is not None:
            budget["max_total_cost_usd"] = share.max_cost_usd_nano / NANO
        if share.max_seconds is not None:
            budget["max_wallclock_seconds"] = max(1, int(share.max_seconds))
        data = self._config.as_data()
        session = f"{nested.journal.run}-{nested.entry}"
        return Config.parse(
            {**data, "session_id": session, "problem_statement": problem_of(exchange), "budget": budget}
        )

    def _setting(self, config: Config, most_output: int | None, nested: Nested) -> Setting:
        allowance = Allowance(
            calls=nested.share.max_calls,
            tokens=nested.share.max_tokens,
            most_output=most_output,
            charge=nested.charge,
            whose="the run has set aside for this panel",
        )
        charged = {id: Charged(provider, allowance) for id, provider in self._providers.items()}
        return Setting.of(config, providers=charged, secrets=self._secrets, handlers=self._tools)

    def _is_cancelled(self, run: str) -> bool:
        return any(self._store.select(Query(run=run, kind="run.cancel_asked", limit=1)))

    def _completion(self, exchange: Exchange, sitting: Sitting) -> Completion:
        artifact = sitting.artifact
        heard = Heard(usage=_usage(sitting), raw=jcs(artifact), returned_model=self.id)
        cost = Cost(usd_nano=_cost(sitting), basis="unmetered" if self.unmetered else "estimate")
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
    lines = ["", "", "Not settled by the panel:"]
    for each in unresolved:
        held = "; ".join(f"{position['agent']}: {position['claim']}" for position in each["positions"])
        lines.append(f"- {each['topic']} ({held})")
    return "\n".join(lines)


def convened_before(store: Store, run: str, entry: int) -> Entry | None:
    """The session that an earlier driver of this run had convened for the same question, where a crash cut it short."""
    same = set(_same_question(store, store.entry(entry)))
    sessions = store.select(Query(run=run, kind="session.convened", newest_first=True))
    return next((each for each in sessions if not same.isdisjoint(each.causes)), None)


def _same_question(store: Store, asked: Entry) -> Iterator[int]:
    """The entries of which this one is a repetition after a crash."""
    if asked.kind == "task.attempted":
        restarted = [store.entry(seq) for seq in asked.causes if store.entry(seq).kind == "task.restarted"]
        before = [store.entry(seq) for each in restarted for seq in each.causes]
        for each in before:
            if each.kind == "task.attempted" and each.data["provider"] == asked.data["provider"]:
                yield each.seq
                yield from _same_question(store, each)
        return
    answered_ones = {seq for each in store.select(Query(run=asked.run, kind="role.answered")) for seq in each.causes}
    for each in store.select(Query(run=asked.run, kind="role.asked", before=asked.seq)):
        if each.data == asked.data and each.causes == asked.causes and each.seq not in answered_ones:
            yield each.seq


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


def _usage(sitting: Sitting) -> Usage:
    """What all calls took, failed ones included."""
    sums = sitting.artifact["cumulative_usage"]
    failed_ones = max(0, sitting.held.tokens - sums["total_tokens"]) if sitting.held else 0
    guessed = any(message["usage"].get("estimated") for message in sitting.artifact["canonical_transcript"])
    return Usage(
        input_tokens=sums["prompt_tokens"] + failed_ones, output_tokens=sums["completion_tokens"], estimated=guessed
    )


def _cost(sitting: Sitting) -> int:
    said = round(sitting.artifact["cumulative_usage"]["cost_usd"] * NANO)
    return sitting.held.cost_usd_nano if sitting.held else said


def _failure(sitting: Sitting) -> Any:
    ending = sitting.artifact["outcome"]["termination_artifact"]
    said = f"the panel ended without an answer: {sitting.reason}"
    pending = ending.get("pending_user_input_request") or ending.get("pending_external_research_request")
    last = ending.get("last_provider_failure")
    if pending:
        said += f"; it asks: {pending.get('question') or pending.get('query')}"
    if sitting.held and isinstance(stop := sitting.held.outcome, Stopped) and stop.why:
        said += f"; {stop.why}"
    if last:
        said += f"; {last['agent_id']} ({last['provider']}): {last['message']}"
    # The session has retried what could be retried: whoever asked it asks somebody else next.
    kind = last["kind"] if last and sitting.reason == "provider_unrecoverable" else KINDS[sitting.reason]
    return failure(kind, said[:2_000], retryable=False)
