"""Gates, for every surface: which are open, and what people decide. A decision is bound to exactly what the gate shows."""

import asyncio
import json
import time
from typing import Any

from hansard.app.people import human
from hansard.app.views import View, moment
from hansard.domain.fact import Body
from hansard.domain.gate import Decision as Decision
from hansard.domain.gate import GateDecided
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.config import RunConfig
from hansard.orchestration.plan import parse_plan
from hansard.orchestration.progress import progress_of
from hansard.record.recorder import Recorder
from hansard.store.base import Query, Store

LOOK_S = 0.5
MAX_EDIT = 1_000_000


class Gates:
    """The gates of one open ledger."""

    def __init__(self, recorder: Recorder, store: Store) -> None:
        self._recorder, self._store = recorder, store

    def listed(self, *, run: str | None = None, closed: bool = False) -> list[View]:
        """Gates that wait, oldest first; with `closed` also those that do not wait any more."""
        found = []
        for entry in self._store.select(Query(kind="gate.opened", run=run)):
            view = self._view(entry)
            if closed or view["state"] == "open":
                found.append(view)
        return found

    def show(self, gate: str) -> View:
        """One gate with what it shows."""
        entry = self._opened(gate)
        stored = self._store.body(entry.seq, "question")
        return self._view(entry) | {"question": Body(stored.media, stored.body).as_text() if stored else None}

    async def decide(
        self,
        gate: str,
        decision: Decision,
        *,
        actor: str | None = None,
        note: str | None = None,
        edit: str | None = None,
        authenticated: bool = False,
        shown: tuple[str, ...] | None = None,
    ) -> View:
        """Record a decision. `shown` is what the decider saw, where a surface kept it; a gate that shows something else refuses."""
        opened = self._opened(gate)
        view = self._view(opened)
        if view["state"] != "open":
            raise UsageError(f"gate {gate} is {view['state']} already; nothing was changed")
        now = tuple(opened.data["shown"])
        if shown is not None and shown != now:
            raise UsageError(f"gate {gate} shows something else by now; look at it again: hansard gates show {gate}")
        if (decision == "edit") != (edit is not None):
            raise UsageError("an edit needs the new text, and nothing else takes one")
        if edit is not None:
            self._check_edit(opened, edit)
        fact = GateDecided(
            gate=gate,
            decision=decision,
            shown=now,
            authenticated=authenticated,
            note=Body.text(note) if note else None,
            edit=Body.text(edit) if edit is not None else None,
        )
        await self._recorder.record(fact, actor=actor or human(), run=opened.run, causes=[opened.seq])
        return self.show(gate)

    def _check_edit(self, opened: Entry, edit: str) -> None:
        if not edit.strip() or len(edit) > MAX_EDIT:
            raise UsageError(f"the new text must have 1 to {MAX_EDIT:,} characters")
        if opened.data["before"] != "plan":
            return
        progress = progress_of(opened.run, self._store.select(Query(run=opened.run, before=opened.seq)))
        assert progress.configured is not None
        stored = self._store.body(progress.configured, "config")
        if stored is None:
            raise UsageError(f"the configuration of run {opened.run} is not in the ledger any more")
        config = RunConfig.from_json(stored.body, f"entry {progress.configured}")
        try:
            data = json.loads(edit)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the edited plan is no JSON: {error}") from error
        parse_plan(data, config.roster, config.policy, where="the edited plan", commands=True)

    def _opened(self, gate: str) -> Entry:
        for entry in self._store.select(Query(kind="gate.opened")):
            if entry.data["gate"] == gate:
                return entry
        raise UsageError(f"there is no gate {gate!r} in {self._store.place}; `hansard gates list` shows them")

    def _view(self, opened: Entry) -> View:
        data: Any = opened.data
        gate = str(data["gate"])
        effects = [self._store.entry(seq) for seq in self._store.effects(opened.seq)]
        closed = next((each for each in effects if each.kind == "gate.closed"), None)
        deadline = data.get("deadline_us")
        return {
            "gate": gate,
            "run": opened.run,
            "seq": opened.seq,
            "rule": data["rule"],
            "before": data["before"],
            "task": data.get("task"),
            "needed": data["needed"],
            "opened": moment(opened.ts),
            "deadline": moment(deadline) if deadline is not None else None,
            "on_expiry": data["on_expiry"],
            "shown": list(data["shown"]),
            "state": closed.data["outcome"] if closed else "open",
            "expired": bool(closed and closed.data["expired"]),
            "decisions": [_decision(each) for each in effects if each.kind == "gate.decided"],
        }


def _decision(entry: Entry) -> View:
    data: Any = entry.data
    return {
        "seq": entry.seq,
        "time": moment(entry.ts),
        "by": entry.actor,
        "decision": data["decision"],
        "authenticated": data["authenticated"],
    }


async def decided(store: Store, run: str) -> None:
    """Wait until something was decided at a gate of this run, a deadline is over, or somebody wants the run cancelled."""
    progress = await asyncio.to_thread(lambda: progress_of(run, store.select(Query(run=run))))
    gates = progress.gates.values()
    deadlines = [gate.deadline_us for gate in gates if gate.closed is None and gate.deadline_us is not None]
    # Whatever came after the last driver took the run may have escaped it: he looks again, and once too often does no harm.
    after = progress.claims[-1] if progress.claims else -1
    asked = [Query(run=run, kind=kind, after=after, limit=1) for kind in ("gate.decided", "run.cancel_asked")]
    while not any(deadline <= time.time_ns() // 1_000 for deadline in deadlines):
        if await asyncio.to_thread(lambda: any(list(store.select(query)) for query in asked)):
            return
        await asyncio.sleep(LOOK_S)
