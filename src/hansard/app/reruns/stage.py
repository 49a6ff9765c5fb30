"""What stands in for the world while a run is run again: recorded answers, programs and seams, no further than the record goes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from hansard.app.reruns.bounds import Until
from hansard.app.reruns.order import Order
from hansard.app.telling.nested_sessions import calls_by_question
from hansard.domain.budget import Budget, Spend
from hansard.domain.exchange import Completion, Exchange
from hansard.domain.value import value
from hansard.errors import ProviderError
from hansard.ledger.entry import Entry
from hansard.orchestration.calling import Swallowed, Unanswered
from hansard.orchestration.judge import LOOKING
from hansard.orchestration.nested import Nested
from hansard.orchestration.seams import Verification
from hansard.providers.base import Provider
from hansard.providers.recording import Call, call_of, opened
from hansard.record.replaying import WORKER, Reader, call_asked


class World(NamedTuple):
    """What stands in for the world in a re-run, whoever is asked there."""

    recorded: Provider
    swapped: Mapping[str, Provider]
    until: Until
    taken: "Taken"
    order: Order | None


class Stage:
    """A provider in a re-run: recorded answers for all roles but those that are swapped."""

    def __init__(self, name: str, model: str, world: World, *, unmetered: bool) -> None:
        self.id, self.unmetered, self._model = name, unmetered, model
        self._recorded, self._swapped, self._until, self._taken, self._order = world

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "replayed", "model": self._model}

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def complete(self, exchange: Exchange) -> Completion:
        live = self._swapped.get(str(exchange.metadata.get("role", "")))
        if live is None:
            if self._until.is_swallowed(exchange):
                # It was made, whatever came of it. What stands in place of an answer says so itself.
                if call_of(exchange).role == WORKER:
                    self._count(exchange, Spend(calls=1))
                raise Swallowed
            if self._until.stands_at(exchange):
                self._until.stand()
                raise Unanswered
            completion = await self._recorded.complete(exchange)
            if self._order is not None:
                await self._order.answered(call_of(exchange))
            return completion
        with self._until.waiting():
            return await live.complete(exchange)

    def _count(self, exchange: Exchange, took: Spend) -> None:
        lane = exchange.metadata.get("lane")
        self._taken.add(str(lane) if lane else None, took)


class Taken:
    """What sessions inside of the recorded run took, call by call, for whoever asks the questions again that are `put` again."""

    def __init__(self, reader: Reader, entries: Sequence[Entry], put: Set[int]) -> None:
        self.elsewhere: dict[str | None, Spend] = {}
        """What was spent so far by lane, and is not in the record of the re-run: that has no turns of sessions."""
        self._waiting: defaultdict[tuple[Call, str], list[Sequence[Completion]]] = defaultdict(list)
        calls = calls_by_question(entries)
        for entry in (entry for entry in entries if entry.seq in put and entry.seq in calls):
            waiting = self._waiting[call_asked(entry), sha256(reader.data(entry, "prompt")).hexdigest()]
            waiting.append([took for _, took in calls[entry.seq]])

    def by(self, exchange: Exchange) -> Sequence[Completion]:
        """The calls of the next session on this question; none where the recorded run held no more of them."""
        waiting = self._sessions(exchange)
        return waiting.pop(0) if waiting else ()

    def next_by(self, exchange: Exchange) -> Sequence[Completion]:
        """The same, for whoever only looks."""
        waiting = self._sessions(exchange)
        return waiting[0] if waiting else ()

    def has(self, exchange: Exchange) -> bool:
        """Whether the recorded run held a session on this question that nobody has asked for here yet."""
        return bool(self._sessions(exchange))

    def _sessions(self, exchange: Exchange) -> list[Sequence[Completion]]:
        return self._waiting[call_of(exchange), sha256(opened(exchange)).hexdigest()]

    def add(self, lane: str | None, took: Spend) -> None:
        self.elsewhere[lane] = self.elsewhere.get(lane, Spend()).more(
            took.calls, took.tokens, took.cost_usd_nano, took.elapsed_us, priced=took.priced
        )


class PanelStage(Stage):
    """A panel in a re-run: its recorded answer, for which as much is set aside and spent as its session took."""

    def __init__(self, name: str, world: World, *, unmetered: bool, share: Budget) -> None:
        super().__init__(name, name, world, unmetered=unmetered)
        self._share = share

    def share(self, exchange: Exchange) -> Budget:
        """What its session took, and no more: the record does not tell when what was left over of its share was given back."""
        if str(exchange.metadata.get("role", "")) in self._swapped:
            return self._share
        took = Spend()
        for each in self._taken.next_by(exchange):
            took = took.plus(each)
        return replace(self._share, max_calls=took.calls, max_tokens=took.tokens, max_cost_usd_nano=took.cost_usd_nano)

    def goes_on(self, run: str, exchange: Exchange) -> bool:
        """The record tells that the question was put: so it had what it took."""
        return self._taken.has(exchange) or self._until.is_swallowed(exchange)

    async def convene(self, exchange: Exchange, nested: Nested) -> Completion:
        swapped = str(exchange.metadata.get("role", "")) in self._swapped
        if not swapped and self._until.is_swallowed(exchange):
            raise Swallowed
        if not swapped and self._until.stands_at(exchange):
            calls = self._taken.by(exchange)
            for took in calls:
                nested.charge(took)
            self._until.owe(lambda: self._count_all(exchange, calls))
            self._until.stand()
            raise Unanswered
        for took in () if swapped else self._taken.by(exchange):
            self._charge(exchange, nested, took)
        completion = await self.complete(exchange)
        if swapped:
            self._charge(exchange, nested, completion)
        return completion

    def _charge(self, exchange: Exchange, nested: Nested, took: Completion) -> None:
        nested.charge(took)
        self._count_all(exchange, [took])

    def _count_all(self, exchange: Exchange, calls: Sequence[Completion]) -> None:
        for took in calls:
            self._count(exchange, Spend().plus(took, took.latency_us))


@value
class _Ran:
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class Programs:
    """Recorded runs of programs, each as often as it was run; anything else is a miss."""

    def __init__(self, reader: Reader, entries: Sequence[Entry], until: Until) -> None:
        self._ran: defaultdict[tuple[tuple[str, ...], str], list[Mapping[str, Any]]] = defaultdict(list)
        for entry in (entry for entry in entries if entry.kind == "task.judged" and "reasons" in entry.body):
            for row in reader.findings(entry):
                if (ran := row.get("program")) is not None:
                    self._ran[_called(ran["argv"]), ran["stdin_sha256"]].append({"said": row["detail"], **ran})
        self._reader, self._until = reader, until
        self.miss: str | None = None

    async def __call__(self, argv: tuple[str, ...], stdin: bytes, timeout_s: float) -> _Ran:
        known = self._ran.get((_called(argv), sha256(stdin).hexdigest()), [])
        if not known and self._is_unjudged(stdin):
            # What stands in no verdict let its result through to the validator, whom nobody came to ask.
            return _Ran(exit_code=0, stdout=b"", stderr=b"")
        if not known:
            self.miss = self.miss or f"program {argv!r}: the recorded run started none with this input"
            raise ProviderError(self.miss)
        found = known.pop(0) if len(known) > 1 else known[0]
        if found.get("failed") is True:
            raise ProviderError(found["said"])
        return _Ran(exit_code=found["exit_code"], stdout=b"", stderr=found["said"].encode("utf-8", "surrogatepass"))

    def _is_unjudged(self, stdin: bytes) -> bool:
        """Whether a check is given a result of which no verdict came, behind its pattern where it has one. A program's result
        is recorded with its line ends, and checked without them.
        """
        given = {each.rstrip(b"\r\n") for each in (stdin, stdin.partition(b"\0")[2])} - {b""}
        texts = (_text(self._reader, each, "output") for each in self._until.phase.unjudged)
        return any(text.encode("utf-8", "surrogatepass").rstrip(b"\r\n") in given for text in texts)


class Said:
    """What seams said, from the record."""

    def __init__(self, reader: Reader, entries: Sequence[Entry], until: Until) -> None:
        self._reader, self._until = reader, until
        self._entries = entries
        self.source = ""

    def of(self, source: str) -> "Said":
        made = Said(self._reader, self._entries, self._until)
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
        found = self._said("answer.checked", check="verifier")
        if found is None:
            raise ProviderError("the recorded run asked no verifier")
        if found.data["outcome"] == "crashed":
            raise ProviderError(_text(self._reader, found, "detail"))
        return Verification(outcome=found.data["outcome"], detail=_text(self._reader, found, "detail"))

    async def revise(self, request: str, answer: str) -> str | None:
        found = self._said("answer.revised")
        if found is None and (crashed := self._said("answer.checked", check="delivery", outcome="crashed")):
            raise ProviderError(_text(self._reader, crashed, "detail"))
        return _text(self._reader, found, "answer") if found else None

    def _said(self, kind: str, **data: str) -> Entry | None:
        """What was said of the answer of this phase."""
        first, last = self._until.phase.first, self._until.phase.last
        own = (each for each in self._entries if each.kind == kind and first <= each.seq <= last)
        return next((each for each in own if data.items() <= each.data.items()), None)


def _called(argv: Sequence[str]) -> tuple[str, ...]:
    """A program by its name and its words. What looks for a pattern is the same one, whichever Python runs it."""
    return LOOKING if tuple(argv[1:]) == LOOKING else tuple(argv)


def _text(reader: Reader, entry: Entry, part: str) -> str:
    found = reader.body(entry, part)
    return found.as_text() if found else ""
