"""The driver of a session: turns the machine, asks the models, and writes everything down before and after.

One call is in flight at any moment. The chair decides nothing: the rules do. Only the chair records within a session.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable
from dataclasses import field
from typing import Any

from hansard.deliberation import selector
from hansard.deliberation.documents import Invalid, SelectorOutput, Usage
from hansard.deliberation.documents.output import asking_schema
from hansard.deliberation.documents.scripting import usage_of
from hansard.deliberation.interruptible import Interruptible
from hansard.deliberation.minutes import Called, Minutes
from hansard.deliberation.outcome import artifact_bytes, artifact_of, recorded_bytes, told
from hansard.deliberation.packet import derive
from hansard.deliberation.pins import Pins
from hansard.deliberation.prompt import Fence, Prompt, Prompts
from hansard.deliberation.protocol.machine import Machine
from hansard.deliberation.protocol.moves import (
    Ask,
    Cap,
    Pause,
    Reading,
    Rested,
    Select,
    Selected,
    Spent,
    Step,
    Stopped,
    Synthesized,
    Unselected,
    Used,
)
from hansard.deliberation.protocol.rules import Rules
from hansard.deliberation.quoting import Content
from hansard.deliberation.setting import Setting
from hansard.deliberation.story import Story
from hansard.deliberation.tooling import ToolMinutes
from hansard.deliberation.transcript import Transcript
from hansard.deliberation.turn import heard, spent_of
from hansard.domain.council import TurnAsked
from hansard.domain.exchange import Completion, Exchange, Failure, Limits, Message, Sampling, Schema
from hansard.domain.fact import Body
from hansard.domain.value import replace, value
from hansard.errors import Broken, StoreError
from hansard.providers.base import Provider, failed, failure, refusal_of
from hansard.providers.checks import requested_model
from hansard.providers.correcting import corrected
from hansard.providers.parse import read
from hansard.providers.retry import Retries
from hansard.providers.scrubbed import without_secrets
from hansard.providers.secrets import Secrets
from hansard.providers.tools import with_tools
from hansard.record.codec import MAX_TEXT
from hansard.record.encoder import fastest
from hansard.record.recorder import Cause

GRACE_US = 1_000
"""A call may outlast the session's time by this much, so that it is over when the clock is read."""
SELECTOR = "selector_output"
_encode = fastest()


@value
class Held:
    """A session that was held: its artifact, how it ended, and what all its calls took."""

    artifact: dict[str, Any] = field(repr=False)
    written: bytes = field(repr=False)
    outcome: Stopped | Synthesized
    selection: SelectorOutput | None
    calls: int
    tokens: int
    cost_usd_nano: int
    elapsed_us: int
    ended_seq: int
    priced: bool
    """Whether it is known what each of its calls cost."""


class Chair:
    """Holds one session, once."""

    def __init__(
        self,
        setting: Setting,
        pins: Pins,
        minutes: Minutes,
        transcript: Transcript,
        cancel: asyncio.Event | None = None,
    ) -> None:
        self.machine = Machine(Rules.of(setting.config))
        self.selection: SelectorOutput | None = None
        self._setting, self._pins, self._minutes, self._transcript = setting, pins, minutes, transcript
        self._interruptible = Interruptible(cancel)
        self._calling = False
        self._stopped: Step | None = None
        self._selecting = Spent(calls=0)
        self._lost, self._priced = 0, True
        self._prompts = Prompts(pins.seed)
        self._agents = {agent.id: agent for agent in (setting.config.coordinator, *setting.config.agents)}
        self._sampling = {id: Sampling(reasoning_effort=each.reasoning_effort) for id, each in self._agents.items()}
        self.last: Completion | None = None

    async def convene(self, causes: Iterable[Cause]) -> Held:
        """Hold the session from its beginning."""
        step = self.machine.begin(self._reading())
        await self._minutes.convened(self._setting.config, causes, step)
        return await self.go_on(step)

    async def resume(self, story: Story) -> Held:
        """Hold the rest of a session that is on the record: everything known is heard again, and nothing is asked twice."""
        state, results, known = self.machine.state, deque(story.results), frozenset(story.lines)
        step = self.machine.begin(Reading())
        self._restore(step, story, known)
        while True:
            if isinstance(step.move, Select) and story.selection is not None:
                self.selection = story.selection
                step = self.machine.send(Selected(reading=Reading(), panel=story.selection.selected_agents))
            elif isinstance(step.move, Ask) and results:
                result = results.popleft()
                if not isinstance(result.event, Used):
                    self.last = result.completion
                step = self.machine.send(result.event)
            elif isinstance(step.move, Pause) and results:
                step = self.machine.send(Rested(reading=state.reading))
            else:
                break
            self._restore(step, story, known)
        if len(state.transcript) != len(story.messages):
            raise StoreError(
                "the record holds messages that the rules would not have made; this session is not resumed"
            )
        self._minutes.take_up(story.convened, story.seqs, story.last)
        self._selecting, self._lost, self._priced = story.selecting, story.lost + story.is_calling, story.priced
        return await self.go_on(step)

    def _restore(self, step: Step, story: Story, known: frozenset[bytes]) -> None:
        """Take the messages of a step from the record, which must hold what the rules make of its results."""
        for draft in step.appended:
            if draft.ordinal >= len(story.messages):
                raise StoreError("the record ends in the middle of a step; this session is not resumed")
            if self._transcript.restore(draft, story.messages[draft.ordinal]) not in known:
                raise StoreError(f"message {draft.ordinal} on the record is not what the rules make of its result")
        for draft in step.amended:
            if self._transcript.amend(draft) not in known:
                raise StoreError(f"message {draft.ordinal} on the record lacks an annotation that the rules ask for")

    async def go_on(self, step: Step) -> Held:
        """Hold the session from here to its end."""
        async with self._interruptible:
            while True:
                match step.move:
                    case Ask() as ask:
                        step = await self._turn(ask)
                    case Select():
                        step = await self._select()
                    case Pause() as pause:
                        await self._rest(pause)
                        step = self.machine.send(Rested(reading=self._reading()))
                    case Stopped() | Synthesized() as outcome:
                        return await self._end(outcome)

    def _reading(self) -> Reading:
        return Reading(elapsed_us=self._pins.elapsed_us(), cancelled=self._interruptible.is_cancelled)

    async def _turn(self, ask: Ask) -> Step:
        if self._interruptible.is_cancelled:
            # Cancelled before it was asked, as a session is that nobody held meanwhile: a question is recorded when it is asked.
            step = self.machine.send(Used(reading=self._reading(), spent=Spent(calls=0)))
            if isinstance(step.move, Stopped):
                return step
        exchange, prompt = self._exchange(ask)
        called = await self._call(ask, self._setting.providers[self._agents[ask.agent].provider], exchange, prompt)
        reading = self._reading()
        step = self._stopped or self.machine.send(heard(called.completion, called.usage, called.spent, reading))
        pause_s = self._pause_s(step.move) if isinstance(step.move, Pause) else None
        self._minutes.heard(called, ask, step, reading.elapsed_us, pause_s)
        return step

    def _count(self, used: Usage) -> Failure | None:
        """Count a call for tools at once; why the session cannot go on, where that was too much."""
        step = self.machine.send(Used(reading=self._reading(), spent=spent_of(used)))
        if not isinstance(step.move, Stopped):
            return None
        self._stopped = step
        return failure("internal", f"the session is over ({step.move.reason}), so no tool was run", retryable=False)

    def _exchange(self, ask: Ask) -> tuple[Exchange, Prompt]:
        """The request of this attempt. After a malformed answer it quotes what was wrong with it [R-6.7-4]."""
        setting = self._setting
        packet = derive(ask, self.machine.state, self._transcript, setting.config, setting.personas)
        prompt = self._prompts.render(packet)
        exchange = self._limited(ask, prompt.messages, ask.expect, asking_schema(ask.expect))
        if offered := setting.tools.get(ask.agent):
            exchange = replace(exchange, tools=offered)
        return corrected(exchange, self.last) if ask.correcting and self.last else exchange, prompt

    def _limited(
        self, ask: Ask, messages: tuple[Message, ...], schema_name: str, schema: Schema | None = None
    ) -> Exchange:
        """A request that ends with the session's time, and says who is asked and where."""
        agent = self._agents.get(ask.agent)
        if agent is None:
            raise Broken(f"the rules ask {ask.agent}, who is not in this session")
        left_us = self.machine.state.rules.max_wallclock_us - self._pins.elapsed_us() + GRACE_US
        return Exchange(
            messages=messages,
            model=agent.model,
            schema=schema,
            schema_name=schema_name,
            sampling=self._sampling[ask.agent],
            limits=Limits(timeout_s=max(left_us, GRACE_US) / 1_000_000),
            metadata={
                "session_id": self._setting.config.session_id,
                "agent_id": ask.agent,
                "round": ask.round,
                "turn_index": ask.turn_index,
                "branch_depth": ask.branch_depth,
            },
        )

    async def _call(self, ask: Ask, provider: Provider, exchange: Exchange, prompt: Prompt | None = None) -> Called:
        """Record the question, ask it, and settle what comes back."""
        fact = TurnAsked(
            session=self._setting.config.session_id,
            agent=ask.agent,
            round=ask.round,
            turn_index=ask.turn_index,
            branch_depth=ask.branch_depth,
            attempt=ask.attempt,
            provider=provider.id,
            model=requested_model(exchange, provider.describe()),
            script_position=self.machine.state.calls,
            jitter_seed=self._pins.seed,
            prompt=Body.json(_request(exchange, prompt, self._setting.secrets)),
        )
        if refusal := refusal_of(provider, exchange):
            self.last = refusal
            return Called(asked=await self._minutes.unasked(fact), completion=refusal, used=usage_of(refusal), calls=0)
        asked = await self._minutes.note(fact)
        secrets = self._setting.secrets
        tools = ToolMinutes(self._minutes, asked, ask.agent, secrets, self._count) if exchange.tools else None
        completion = await self._in_flight(provider, exchange, tools)
        if secrets:
            completion = without_secrets(exchange, completion, secrets)
        self.last = completion
        called = Called(
            asked=asked,
            completion=completion,
            used=usage_of(completion, scripted=provider.describe().get("kind") == "scripted"),
            calls=int(not completion.refused),
        )
        self._priced = self._priced and called.is_priced
        if tools is None or tools.used is None:
            return called
        self._priced = self._priced and tools.priced
        calls = min(called.calls, tools.calls)
        return replace(called, before=tools.used, waited_us=tools.latency_us, calls=calls, tools=(tools.last,))

    async def _in_flight(self, provider: Provider, exchange: Exchange, tools: ToolMinutes | None) -> Completion:
        """The one call of this moment. Cancelling the session ends it."""
        if self._calling:
            raise Broken("a session asks one model at a time, and this one asked two")
        self._calling = True
        work = with_tools(provider, exchange, self._setting.toolbox, tools) if tools else provider.complete(exchange)
        try:
            return await _asked(self._interruptible, provider, exchange, work)
        finally:
            self._calling = False

    def _pause_s(self, pause: Pause) -> float | None:
        """How long to wait before the next attempt, no longer than the session has time."""
        state = self.machine.state
        left_s = (state.rules.max_wallclock_us - self._pins.elapsed_us() + GRACE_US) / 1_000_000
        why = self.last.failure if self.last else None
        return Retries(retries=pause.made).pause_s(
            why or failure(pause.failed.kind, pause.failed.message),
            pause.made,
            random=self._pins.jitter(state.calls),
            remaining_s=max(left_s, 0.0),
        )

    async def _rest(self, pause: Pause) -> None:
        """Wait before the next attempt, and not at all once the session is cancelled."""
        pause_s = self._pause_s(pause)
        if not pause_s:
            return
        await self._minutes.flush()
        await self._interruptible.run(self._pins.sleep(pause_s))

    async def _select(self) -> Step:
        """Who sits on the panel: as declared, by rules, or by one call to a model [§4.1]."""
        setting = self._setting
        if setting.breaches:
            return self._unselected("schema_error", "; ".join(map(str, setting.breaches)))
        if setting.used_up is not None:
            why = f"{setting.used_up} was used up before the session began"
            return self._unselected("budget_exceeded", why, setting.used_up)
        try:
            if setting.config.selector.strategy == "llm":
                return await self._select_by_model()
            output = selector.choose(setting.config, setting.registry)
        except Invalid as error:
            return self._unselected("schema_error", str(error))
        return self._seat(output)

    async def _select_by_model(self) -> Step:
        setting, config = self._setting, self._setting.config
        before = self._reading()
        if before.cancelled or before.elapsed_us > self.machine.state.rules.max_wallclock_us:
            # As for a turn: a question is recorded when it is asked. The rules say why the session is over.
            return self._unselected("provider_unrecoverable", "nobody was asked for a panel")
        ask = Ask(agent=config.coordinator.id, expect="verdict", round=0, turn_index=0)
        fence = Fence(self._pins.seed, ask)
        messages = selector.selection_messages(config, setting.registry, fence.data)
        exchange = self._limited(ask, messages, SELECTOR)
        called = await self._call(ask, setting.selector or setting.provider_of(ask.agent), exchange)
        self._selecting = self._selecting.plus(called.spent)
        completion, reading = called.completion, self._reading()
        try:
            if selector.is_over_budget(called.usage, config.selector_budget):
                reason, why = "budget_exceeded", "choosing the panel took more than selector_budget allows"
            elif (gone := completion.failure) is not None:
                reason = "schema_error" if gone.kind == "malformed_response" else "provider_unrecoverable"
                why = f"nobody chose a panel: {gone.kind}: {gone.message}"
            else:
                return self._seat(selector.read_selection(config, _answer(completion)), called)
        except Invalid as error:
            reason, why = "schema_error", f"the selector's answer is no panel: {error}"
        self._minutes.failed(called, ask, reading.elapsed_us, reason)
        return self._unselected(reason, why)

    def _unselected(self, reason: Any, why: str, cap: Cap = "selector_budget") -> Step:
        # It stands in the data of the record, which take no longer text.
        short = why if len(why) <= MAX_TEXT else f"{why[: MAX_TEXT - 1]}…"
        return self.machine.send(Unselected(reading=self._reading(), reason=reason, why=short, cap=cap))

    def _seat(self, output: SelectorOutput, called: Called | None = None) -> Step:
        self._minutes.selected(output, called)
        self.selection = output
        return self.machine.send(Selected(reading=self._reading(), panel=output.selected_agents))

    async def _end(self, outcome: Stopped | Synthesized) -> Held:
        state = self.machine.state
        outcome = told(outcome, state)
        artifact = artifact_of(self._setting.config, state, self._transcript, outcome)
        named = recorded_bytes(artifact)
        recorded = await self._minutes.ended(self._setting.config.session_id, outcome, state.round, named)
        return Held(
            artifact=artifact,
            written=artifact_bytes(named, self._transcript.lines),
            outcome=outcome,
            selection=self.selection,
            calls=state.calls + self._selecting.calls + self._lost,
            tokens=state.tokens + self._selecting.tokens,
            cost_usd_nano=state.cost_usd_nano + self._selecting.cost_usd_nano,
            elapsed_us=self._pins.elapsed_us(),
            ended_seq=recorded.seq,
            priced=self._priced,
        )


async def unless_cancelled(cancel: asyncio.Event, provider: Provider, exchange: Exchange) -> Completion:
    """Ask, unless the session is cancelled meanwhile; then nothing of the call goes on."""
    async with Interruptible(cancel) as interruptible:
        return await _asked(interruptible, provider, exchange, provider.complete(exchange))


async def _asked(
    interruptible: Interruptible, provider: Provider, exchange: Exchange, work: Coroutine[Any, Any, Completion]
) -> Completion:
    completion = await interruptible.run(work)
    if completion is not None:
        return completion
    why = failure("internal", "the session was cancelled while this call was in flight", retryable=False)
    return failed(provider, exchange, why)


def _answer(completion: Completion) -> Any:
    """What was chosen: an object, or the one that stands in the text, as in every answer of a model."""
    if completion.structured is not None:
        return completion.structured
    reading = read(completion.text)
    if reading.breach is not None:
        raise Invalid(f"the selector's answer is no JSON: {reading.breach}"[:200], rule="R-4.1-4")
    return reading.value


def _request(exchange: Exchange, prompt: Prompt | None, secrets: Secrets) -> bytes:
    """The exact question as it goes on the record, where it names what it quotes of the transcript."""
    quoting: tuple[Content, ...] = prompt.contents if prompt else ()
    contents = [*quoting, *[message.content for message in exchange.messages[len(quoting) :]]]
    if secrets:
        contents = [_scrubbed(content, secrets) for content in contents]
    messages = [
        {"role": message.role, "content": content} for message, content in zip(exchange.messages, contents, strict=True)
    ]
    return _encode({"model": exchange.model, "messages": messages, "expected_output_schema": exchange.schema_name})


def _scrubbed(content: Content, secrets: Secrets) -> Content:
    """The texts without secrets. What is quoted has none, since nothing enters a transcript with one."""
    if isinstance(content, str):
        return secrets.scrub(content)
    return [secrets.scrub(piece) if isinstance(piece, str) else piece for piece in content]
