"""What comes before a session: experts whose personas are made for it, and first answers that everybody gives alone.

Everything is recorded under the run's claim before and after each call, so that a crash repeats nothing that was answered.
The calls keep to the limits of the session, which gets what they leave.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from hansard.app.pool import Pool
from hansard.app.setup.allowance import Allowance, Charged, Counted
from hansard.app.setup.convening import Convening
from hansard.app.telling.deliberationviews import Spent, spent_on_record
from hansard.deliberation.chair import unless_cancelled
from hansard.deliberation.documents import SCHEMA_VERSION, AgentConfig, Config, Persona
from hansard.deliberation.documents.scripting import usage_of
from hansard.deliberation.ensemble import EnsembleAnswer, first_exchange, with_first_answers
from hansard.deliberation.experts import (
    TEMPLATE,
    expert_exchange,
    read_expert,
    taken_by,
    with_experts,
)
from hansard.deliberation.protocol.moves import Cap
from hansard.deliberation.result import as_body
from hansard.deliberation.session import Pen
from hansard.deliberation.setting import Setting
from hansard.domain.budget import NANO_PER_USD
from hansard.domain.council import EnsembleAnswered, PersonaMade, TurnAsked, TurnFailed
from hansard.domain.exchange import Completion, Exchange
from hansard.domain.fact import Body, Fact
from hansard.domain.value import value
from hansard.domain.work import Role, RoleAnswered, RoleAsked
from hansard.errors import UsageError, first_of
from hansard.orchestration.execute import answered
from hansard.providers.base import Provider
from hansard.providers.checks import checked, spoiled
from hansard.providers.correcting import corrected, wants_correction
from hansard.providers.prompt import prompt_of
from hansard.providers.scrubbed import scrubbed
from hansard.record.reading import read_body, read_entries
from hansard.record.recorder import Cause, Recorded, Step
from hansard.record.replaying import Reader, completion_of
from hansard.store.base import Query, Store

ROLE: Role = "persona_maker"
CORRECTIONS = 2
Tell = Callable[[str, Sequence[Recorded[Any]]], None]


@value
class Ready:
    """What a session begins with, and the entries that it comes from."""

    made: Convening
    causes: Sequence[Cause]
    used_up: str | None = None
    """Which limit kept an expert from being made, in words, where one did."""
    elapsed_us: int = 0
    """The time that is gone when the session begins."""
    nothing_left: Cap | None = None
    """The cap of which nothing is left for the session."""


async def prepared(store: Store, pool: Pool, made: Convening, pen: Pen, cancel: asyncio.Event, tell: Tell) -> Ready:
    """Make the experts and gather the first answers that are asked for and not on the record yet."""
    if not made.experts and not made.ensemble:
        return Ready(made=made, causes=pen.causes)
    preparing = _Preparing(store, pool, made, pen, cancel, tell)
    experts, from_experts = await preparing.experts(made)
    made = replace(made, config=with_experts(made.config, experts))
    answers, from_answers = await preparing.first_answers(made) if made.ensemble else ([], [])
    spent = spent_on_record(store, pen.run)
    gone = nothing_left(made.config, spent)
    made = replace(made, config=_less(with_first_answers(made.config, answers), spent))
    causes = [*pen.causes, *from_experts, *from_answers]
    return Ready(made=made, causes=causes, used_up=preparing.used_up, elapsed_us=spent.elapsed_us, nothing_left=gone)


def nothing_left(config: Config, spent: Spent) -> Cap | None:
    """The cap that was reached before the session. A cap of no money at all is not: what costs nothing keeps to it."""
    if spent.tokens >= config.budget.max_total_tokens:
        return "max_total_tokens"
    return "max_total_cost_usd" if spent.cost_usd_nano and spent.cost_usd_nano >= _nano(config) else None


def _less(config: Config, spent: Spent) -> Config:
    """The configuration with caps that are less what was spent."""
    data = config.as_data()
    budget = data["budget"]
    budget["max_total_tokens"] = max(1, budget["max_total_tokens"] - spent.tokens)
    if spent.cost_usd_nano:
        budget["max_total_cost_usd"] = max(0, _nano(config) - spent.cost_usd_nano) / NANO_PER_USD
    return Config.parse(data)


def _nano(config: Config) -> int:
    return round(config.budget.max_total_cost_usd * NANO_PER_USD)


class _Preparing:
    """The calls before one session. `used_up` says which limit kept an expert from being made, where one did."""

    def __init__(self, store: Store, pool: Pool, made: Convening, pen: Pen, cancel: asyncio.Event, tell: Tell) -> None:
        self._store, self._pool, self._pen, self._cancel, self._tell = store, pool, pen, cancel, tell
        self.used_up: str | None = None
        self._alone, self._asking = asyncio.Condition(), 0
        spent, budget, now = spent_on_record(store, pen.run), made.config.budget, asyncio.get_running_loop().time
        until = now() + budget.max_wallclock_seconds - spent.elapsed_us / 1e6
        self._allowance = Allowance(
            calls=None if made.max_calls is None else made.max_calls - spent.calls,
            tokens=budget.max_total_tokens - spent.tokens,
            cost_usd_nano=_nano(made.config) - spent.cost_usd_nano,
            left_s=lambda: until - now(),
            whose="this run may take",
        )

    async def experts(self, made: Convening) -> tuple[list[Persona], list[int]]:
        """The personas for all needs; one that cannot be made is on the record as refused, and left out."""
        done = [
            (entry, self._body(entry.seq, "definition"))
            for entry in read_entries(self._store, Query(run=self._pen.run, kind=PersonaMade.KIND))
        ]
        kept = [(Persona.parse(json.loads(data)), entry.seq) for entry, data in done if entry.data["accepted"] is True]
        for need in made.experts[len(done) :]:
            if self._cancel.is_set():
                break
            config = with_experts(made.config, [persona for persona, _ in kept])
            if (found := await self._expert(made, config, need)) is not None:
                kept.append(found)
        return [persona for persona, _ in kept], [seq for _, seq in kept]

    async def _expert(self, made: Convening, config: Config, need: str) -> tuple[Persona, int] | None:
        panel = list(config.selector.default_deliberation_panel)
        provider = Charged(self._setting(made).provider_of(config.coordinator.id), self._allowance)
        base = replace(
            expert_exchange(need, panel, self._nonce(f"expert|{need}")),
            model=config.coordinator.model,
        )
        exchange, causes, turn, heard = base, list(self._pen.causes), 0, self._heard()
        while True:
            turn += 1
            exchange = replace(exchange, metadata={**base.metadata, "turn": turn})
            if before := heard.get((turn, self._prompt(exchange).data)):
                completion, causes = checked(exchange, before[0]), [before[1]]
            else:
                completion, causes = await self._ask_maker(provider, exchange, causes, turn)
            if not (wants_correction(completion) and turn <= CORRECTIONS):
                break
            exchange = corrected(base, completion)
        over = self._allowance.overdrawn()
        if over and not completion.refused:
            # Like a synthesis that breaches a cap, what it says does not count.
            completion = spoiled(completion, self._allowance.why(over))
        is_used_up = completion.refused and completion.failure and completion.failure.kind == "quota_exhausted"
        if (over or is_used_up) and completion.failure:
            self.used_up = completion.failure.message
        return await self._made(completion, need, config, causes)

    def _heard(self) -> dict[tuple[object, bytes | None], tuple[Completion, int]]:
        """What the maker answered before a crash and nothing was made of yet, by turn and prompt, each with its entry."""
        entries = list(read_entries(self._store, Query(run=self._pen.run)))
        made = max((entry.seq for entry in entries if entry.kind == PersonaMade.KIND), default=-1)
        asked = {entry.seq: entry for entry in entries if entry.kind == RoleAsked.KIND and entry.seq > made}
        reader, found = Reader(self._store), dict[tuple[object, bytes | None], tuple[Completion, int]]()
        for entry in entries:
            if entry.kind == RoleAnswered.KIND and (question := asked.get(entry.causes[0])):
                key = question.data["turn"], self._body(question.seq, "prompt")
                found[key] = completion_of(reader, question, entry), entry.seq
        return found

    def _prompt(self, exchange: Exchange) -> Body:
        return Body.text(self._pool.secrets.scrub(prompt_of(exchange)))

    async def _ask_maker(
        self, provider: Charged, exchange: Exchange, causes: list[Cause], turn: int
    ) -> tuple[Completion, list[Cause]]:
        if refusal := provider.refusal(exchange):
            # A question that nobody is asked is not on the record as one.
            return refusal, causes
        fact = RoleAsked(
            role=ROLE,
            attempt=1,
            turn=turn,
            provider=provider.id,
            model=exchange.model or "default",
            template=TEMPLATE,
            prompt=self._prompt(exchange),
        )
        [asked] = await self._record([Step(fact, "engine", causes)])
        completion = await self._called(provider, exchange)
        [said] = await self._record([Step(answered(ROLE, completion), ROLE, [asked.seq])])
        return completion, [said.seq]

    async def _made(
        self, completion: Completion, need: str, config: Config, causes: Sequence[Cause]
    ) -> tuple[Persona, int] | None:
        panel = list(config.selector.default_deliberation_panel)
        persona, why = None, completion.failure
        definition = Body.text(completion.text or (why.message if why else ""))
        if completion.ok:
            try:
                persona = read_expert(completion.structured, need, panel, taken_by(config))
                definition = Body.json(json.dumps(persona.as_data(), ensure_ascii=False).encode())
            except UsageError as error:
                definition = Body.text(str(error))
        name = persona.id if persona else "none"
        fact = PersonaMade(persona=name, accepted=persona is not None, definition=definition)
        [recorded] = await self._record([Step(fact, "engine", causes)])
        return (persona, recorded.seq) if persona else None

    async def first_answers(self, made: Convening) -> tuple[list[EnsembleAnswer], list[int]]:
        """An answer of each agent that has none on the record yet, all asked at once."""
        known = {
            str(entry.data["agent"]): (EnsembleAnswer.parse(json.loads(self._body(entry.seq, "answer"))), entry.seq)
            for entry in read_entries(self._store, Query(run=self._pen.run, kind=EnsembleAnswered.KIND))
        }
        panel = made.config.selector.default_deliberation_panel
        wanted = {id: index for index, id in enumerate(panel) if id not in known and not self._cancel.is_set()}
        # Who has nobody to ask any more may be where the others cannot be opened.
        setting = self._setting(made) if wanted else None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    id: group.create_task(self._first_answer(setting, id, index))
                    for id, index in wanted.items()
                    if setting is not None
                }
        except ExceptionGroup as errors:
            # Whoever drives the run must see whether it was fenced off, or the ledger refuses for now.
            raise first_of(errors) from None
        found = known | {id: task.result() for id, task in tasks.items() if task.result() is not None}
        ordered = [found[id] for id in panel if id in found]
        return [answer for answer, _ in ordered], [seq for _, seq in ordered]

    async def _first_answer(self, setting: Setting, id: str, index: int) -> Any:
        config, agent = setting.config, setting.config.agent(id)
        if agent is None or id not in setting.personas:
            return None
        exchange = first_exchange(config, agent, setting.personas[id], self._nonce(f"first|{id}"))
        provider = setting.provider_of(id)
        async with self._alone:
            # What those who are asked leave over may be enough for a whole answer.
            await self._alone.wait_for(lambda: not self._asking or not self._allowance.is_short(exchange))
            if self._cancel.is_set() or Charged(provider, self._allowance).refusal(exchange):
                # A question that nobody is asked is not on the record as one.
                return None
            # The others ask at once: what this call takes is taken before it is written down.
            counted = Counted(provider, self._allowance, exchange)
            self._asking += 1
        try:
            return await self._asked_alone(config, agent, index, counted, exchange)
        finally:
            self._asking -= 1
            async with self._alone:
                self._alone.notify_all()

    async def _asked_alone(
        self, config: Config, agent: AgentConfig, index: int, provider: Counted, exchange: Exchange
    ) -> Any:
        fact = TurnAsked(
            session=config.session_id,
            agent=agent.id,
            round=0,
            turn_index=index,
            branch_depth=0,
            attempt=1,
            provider=provider.id,
            model=agent.model,
            prompt=self._prompt(exchange),
        )
        [asked] = await self._record([Step(fact, "engine", self._pen.causes)])
        completion = await self._called(provider, exchange)
        step, answer = _first(config, agent.id, provider, completion)
        [recorded] = await self._record([Step(step, "engine", [asked.seq])])
        return (answer, recorded.seq) if answer else None

    def _setting(self, made: Convening) -> Setting:
        """The setting, in which everybody is asked within the allowance of this run."""
        return replace(made, max_calls=None).setting(self._pool)

    async def _called(self, provider: Provider, exchange: Exchange) -> Completion:
        completion = checked(exchange, await unless_cancelled(self._cancel, provider, exchange))
        return scrubbed(completion, self._pool.secrets) if self._pool.secrets else completion

    async def _record(self, steps: Sequence[Step]) -> list[Recorded[Fact]]:
        recorded = await self._pen.recorder.record_all(steps, run=self._pen.run, claim=self._pen.claim)
        self._tell(self._pen.run, recorded)
        return recorded

    def _nonce(self, about: str) -> str:
        """A mark for fences that no text can know before: it comes from the run's own."""
        configured = next(read_entries(self._store, Query(run=self._pen.run, kind="run.configured", limit=1)))
        return sha256(f"{configured.data['nonce']}|{about}".encode()).hexdigest()[:20]

    def _body(self, seq: int, part: str) -> bytes:
        stored = read_body(self._store, self._store.entry(seq), part)
        if stored is None:
            raise UsageError(f"the {part} of entry {seq} is not in the ledger any more; convene a new session")
        return stored.body


def _first(config: Config, id: str, provider: Provider, completion: Completion) -> tuple[Fact, EnsembleAnswer | None]:
    """What came of asking somebody alone, as a fact."""
    usage = usage_of(completion, scripted=provider.describe().get("kind") == "scripted")
    spent: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost_usd_nano": round(usage.cost_usd * NANO_PER_USD),
        "cost_basis": None if completion.refused else completion.cost.basis,
    }
    if completion.failure is not None:
        why = completion.failure
        fact = TurnFailed(
            agent=id,
            attempt=1,
            error=why.kind,
            retriable=False,
            elapsed_us=completion.latency_us,
            calls=0 if completion.refused else None,
            result=as_body(completion, usage.as_data()),
            **spent,
        )
        return fact, None
    said: Mapping[str, Any] = completion.structured
    answer = EnsembleAnswer.parse(
        {
            "schema_version": SCHEMA_VERSION,
            "session_id": config.session_id,
            "agent_id": id,
            "provider": provider.id,
            "model": completion.returned_model,
            "text": said["text"],
            **({"confidence": said["confidence"]} if said.get("confidence") is not None else {}),
            "usage": usage.as_data(),
        }
    )
    body = Body.json(json.dumps(answer.as_data(), ensure_ascii=False).encode())
    return EnsembleAnswered(agent=id, answer=body, **spent), answer
