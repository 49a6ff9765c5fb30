"""Runs for tests: a real recorder over a real store, providers through the public seam, and an auditor of causes.

Nothing of the engine is replaced. What a test says instead of a model goes through `Answers`, a provider like any other.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hansard.app.driving.runs import Runs
from hansard.app.pool import Pool
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Completion, Cost, ErrorKind, Exchange, Failure, Finish, Usage
from hansard.domain.kinds import KINDS
from hansard.domain.roster import Lane, Roster
from hansard.ledger.entry import Entry
from hansard.orchestration.calling import Means
from hansard.orchestration.config import RunConfig
from hansard.orchestration.ending import Ended
from hansard.providers.base import Heard, Provider, answered, failure
from hansard.record.recorder import Recorder
from hansard.store.base import Draft, Group, Outcome, Query, Seal, Store, StoredBody
from hansard.store.memory import MemoryStore
from ledgers import genesis_draft

LANES = ("alpha", "beta", "gamma")
FINE = {"ok": True, "score": 0.9, "reasons": "it does what was asked"}
POOR = {"ok": False, "score": 0.1, "reasons": "it does not do what was asked"}

Said = str | dict[str, Any] | Failure | Completion
Says = Callable[[Exchange], Said | Awaitable[Said]]


def roster(**lanes: Mapping[str, Any]) -> Roster:
    """Three lanes, with what a test wants of them."""
    made = [
        Lane(name=name, category="test", domain=f"Work of lane {name}", **dict(lanes.get(name, {}))) for name in LANES
    ]
    return Roster(name="test", lanes=tuple(made))


def task(id: str, *needs: str | dict[str, str], lane: str = "alpha", **more: Any) -> dict[str, Any]:
    return {"id": id, "lane": lane, "instruction": f"do {id}", "needs": list(needs), **more}


def plan(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"tasks": list(tasks)}


def who(exchange: Exchange) -> tuple[str, str, int]:
    """Role, task and attempt of a question."""
    said = exchange.metadata
    return str(said["role"]), str(said["task"]), int(said["attempt"])


def obliging(exchange: Exchange) -> Said:
    """Everybody does what is asked."""
    role, task, attempt = who(exchange)
    match role:
        case "worker":
            return f"result of {task}, attempt {attempt}"
        case "validator":
            return FINE
        case "coordinator":
            return {"tasks": [{**task_of("only"), "needs": [], "done_when": []}]}
        case "classifier":
            return {"lane": "alpha", "confidence": 0.8, "reason": "it is first"}
        case _:
            return "the answer"


def hard_to_please(exchange: Exchange) -> Said:
    """A validator that takes nothing but what the panel settled."""
    if who(exchange)[0] != "validator":
        return obliging(exchange)
    return FINE if "Ten a minute." in exchange.messages[1].content else POOR


def task_of(id: str, lane: str = "alpha") -> dict[str, Any]:
    return {"id": id, "lane": lane, "instruction": f"do {id}"}


class Answers:
    """A provider that says what a function tells it to, and keeps count."""

    def __init__(
        self,
        says: Says = obliging,
        *,
        id: str = "told",
        model: str = "told",
        unmetered: bool = True,
        pause_s: float = 0,
    ) -> None:
        self.id, self.unmetered = id, unmetered
        self.calls: list[Exchange] = []
        self.in_flight: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._says, self._model, self._pause_s = says, model, pause_s
        self._asked = asyncio.Event()

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "told", "model": self._model}

    async def close(self) -> None:
        """There is nothing to let go of."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        self.calls.append(exchange)
        self._asked.set()
        role, _, _ = who(exchange)
        keys = ["all", role] + ([f"lane:{exchange.metadata['lane']}"] if role == "worker" else [])
        self.in_flight.update(keys)
        for key in keys:
            self.peak[key] = max(self.peak[key], self.in_flight[key])
        try:
            if self._pause_s:
                await asyncio.sleep(self._pause_s)
            said = self._says(exchange)
            if not isinstance(said, str | dict | Failure | Completion):
                said = await said
            return self._completion(said)
        finally:
            self.in_flight.subtract(keys)

    def _completion(self, said: Said) -> Completion:
        blank = Completion(provider=self.id, requested_model=self._model, returned_model=self._model)
        match said:
            case Completion():
                return said
            case Failure():
                return replace(blank, failure=said, finish="error")
            case str():
                return replace(blank, text=said)
        return replace(blank, structured=said)

    async def asked_times(self, count: int) -> None:
        """Wait until there were so many questions."""
        while len(self.calls) < count:
            self._asked.clear()
            await self._asked.wait()

    def asked(self, role: str, task: str | None = None) -> list[Exchange]:
        """The questions to a role, maybe about one task, in their order."""
        return [each for each in self.calls if who(each)[0] == role and task in (None, who(each)[1])]


def completion(
    text: str = "", *, finish: Finish = "stop", tokens: tuple[int, int] = (0, 0), cost_usd_nano: int = 0, **more: Any
) -> Completion:
    """An answer with everything that a test wants to say of it."""
    return Completion(
        provider="told",
        requested_model=more.pop("model", "told"),
        returned_model=more.pop("returned", "told"),
        text=text,
        finish=finish,
        usage=Usage(input_tokens=tokens[0], output_tokens=tokens[1]),
        cost=Cost(usd_nano=cost_usd_nano, basis="reported") if cost_usd_nano else Cost(),
        **more,
    )


def fails(kind: ErrorKind, message: str = "no") -> Failure:
    return failure(kind, message)


class Ledger(MemoryStore):
    """A memory store that remembers its commits, so that a crash between any two of them can be acted out.

    Where `queued`, it goes through the recorder's queue like a store on disk does, so that tasks record between each other.
    """

    def __init__(self, *, queued: bool = True) -> None:
        self.commits: list[list[Draft]] = []
        self.forged: dict[tuple[int, str], bytes] = {}
        """Bodies that somebody put in the place of those that were recorded, by entry and part."""
        super().__init__(genesis_draft(), clock=time.time)
        self.commits.clear()
        if queued:
            self.inline = None
        else:
            self.inline = self._one

    def _one(self, draft: Draft) -> Any:
        self.commits.append([draft])
        return self._put(draft)

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        told = super().append(groups, seal)
        self.commits += [
            list(group) for group, outcome in zip(groups, told, strict=True) if not isinstance(outcome, Exception)
        ]
        return told

    def body(self, seq: int, part: str) -> StoredBody | None:
        found = super().body(seq, part)
        return replace(found, body=self.forged.get((seq, part), found.body)) if found else None

    def until(self, commits: int) -> "Ledger":
        """The ledger as it would be had everything ended after so many commits. Whoever drove is gone."""
        twin = Ledger()
        for group in self.commits[:commits]:
            [outcome] = twin.append([[draft._replace(fence=None) for draft in group]])
            assert not isinstance(outcome, Exception)
        for name, (epoch, holder, _) in self._claims.items():
            twin._claims[name] = (epoch, holder, 0.0)
        return twin


class QuickPool(Pool):
    """The pool of providers, where nobody waits between two tries. `plugged` are plugged in besides."""

    plugged: Mapping[str, Any] = {}

    def means_of(self, config: RunConfig, run: str = "") -> Means:
        return replace(super().means_of(config, run), **{"sleep": _no_time, **self.plugged})


async def _no_time(_: float) -> None:
    await asyncio.sleep(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One ledger with its runs."""

    store: Store
    runs: Runs
    pool: QuickPool
    settings: Settings
    recorder: Recorder

    def config(self, wishes: Wishes | None = None) -> RunConfig:
        wanted = wishes or Wishes()
        return run_config(self.settings, self.pool, replace(wanted, roster=wanted.roster or roster()))

    async def submit(self, request: str = "please", *, wishes: Wishes | None = None, **how: Any) -> str:
        return await self.runs.submit(request, self.config(wishes), **how)

    async def run(self, request: str = "please", *, wishes: Wishes | None = None, **how: Any) -> Ended:
        """Submit and drive to the end."""
        return await self.runs.drive(await self.submit(request, wishes=wishes, **how))

    def entries(self, run: str, *kinds: str) -> list[Entry]:
        return [each for each in self.store.select(Query(run=run)) if not kinds or each.kind in kinds]

    def text(self, entry: Entry, part: str) -> str:
        stored = self.store.body(entry.seq, part)
        assert stored is not None
        return stored.body.decode()

    def forge(self, run: str, kind: str, part: str, body: str) -> Entry:
        """Put another body in the place of the recorded one of the run's newest entry of a kind; gives that entry."""
        assert isinstance(self.store, Ledger)
        entry = self.entries(run, kind)[-1]
        self.store.forged[entry.seq, part] = body.encode()
        return entry

    def answer(self, run: str) -> str | None:
        found = self.runs.answer(run)
        return None if found is None else found.decode()


_RECORDERS: list[Recorder] = []


def leave_no_thread() -> None:
    """End the writers of every desk. A process with a thread left over is not forked by whoever verifies in it later."""
    while _RECORDERS:
        writer = _RECORDERS.pop()._thread
        if writer is not None:
            writer.shutdown(wait=True)


def desk(*providers: Provider, store: Store | None = None, settings: Mapping[str, Any] | None = None) -> Desk:
    """A desk over a store (in memory unless one is given) with these providers, the first as the default."""
    found = Settings(ledger="memory:", state=Path("unused"), **dict(settings or {}))
    kept = Ledger() if store is None else store
    pool = QuickPool(found, {each.id: each for each in providers})
    recorder = Recorder(kept)
    _RECORDERS.append(recorder)
    return Desk(store=kept, runs=Runs(recorder, kept, pool), pool=pool, settings=found, recorder=recorder)


_OPEN = re.compile(r"<<<DATA ([0-9a-f]+) (\S+)((?: \w+=(?:\d+|\"[^\"]*\"))*)>>>")


def blocks(prompt: str) -> list[tuple[str, str]]:
    """The data blocks of a prompt as a careful reader sees them: name and text of each, in their order.

    Written from the rule alone: a block goes from its first line to the line that ends with the same nonce; nothing inside
    of it opens another one.
    """
    found: list[tuple[str, str]] = []
    at = 0
    while (head := _OPEN.search(prompt, at)) is not None:
        end = f"\n<<<END {head[1]}>>>"
        begins = head.end() + 1
        ends = prompt.index(end, head.end())
        found.append((head[2], prompt[begins:ends]))
        at = ends + len(end)
    return found


def user_text(exchange: Exchange) -> str:
    return exchange.messages[1].content


def audit(store: Store, run: str) -> None:
    """Every entry of a run names causes of kinds that its own kind allows, earlier than itself and of the same run."""
    for entry in store.select(Query(run=run)):
        allowed = KINDS[entry.kind].CAUSES
        for seq in entry.causes:
            cause = store.entry(seq)
            assert cause.kind in allowed, f"{entry.kind} #{entry.seq} is caused by {cause.kind} #{seq}"
            assert cause.run == run
            assert seq < entry.seq
        assert entry.causes or not allowed or entry.kind == "run.requested", f"{entry.kind} #{entry.seq} has no cause"


def verdicts_behind(store: Store, seqs: Iterable[int]) -> set[int]:
    """The verdicts among these entries, with joined results opened up."""
    found: set[int] = set()
    waiting = list(seqs)
    while waiting:
        entry = store.entry(waiting.pop())
        if entry.kind == "results.joined":
            waiting += entry.causes
        elif entry.kind == "task.judged":
            found.add(entry.seq)
    return found


def one(entries: Sequence[Entry]) -> Entry:
    [entry] = entries
    return entry


def reasons(desk: Desk, entry: Entry) -> list[dict[str, Any]]:
    """What the checks of a verdict said."""
    found: list[dict[str, Any]] = json.loads(desk.text(entry, "reasons"))
    return found
