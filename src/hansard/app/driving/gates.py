"""Gates, for every surface: which are open, and what people decide. A decision is bound to exactly what the gate shows."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from shlex import quote
from typing import Any

from hansard.app.driving.brought import brought_plan
from hansard.app.people import human
from hansard.app.telling.following import over_at
from hansard.app.telling.runviews import plan_data
from hansard.app.views import View, moment
from hansard.domain.fact import Body
from hansard.domain.gate import SAID, GateDecided
from hansard.domain.gate import Decision as Decision
from hansard.domain.strict_json import read_json
from hansard.errors import HansardError, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.config import RunConfig
from hansard.orchestration.gates import Gate, Rule, closing, counting
from hansard.orchestration.journal import without_secrets
from hansard.providers.secrets import Secrets
from hansard.record.reading import formed, read_body, read_for_list, read_text
from hansard.record.recorder import Recorder
from hansard.store.base import Query, Store

MAX_EDIT = 1_000_000
MAX_TOLD = 100_000
"""So many characters of the results that a gate's task is built on are told with it; the ledger has the rest."""
VOID = "void"
"""The state of a gate whose run ended before anybody decided."""


class Gates:
    """The gates of one open ledger. Known secrets are removed from what people say, as from whatever else is recorded."""

    def __init__(self, recorder: Recorder, store: Store, secrets: Callable[[], Secrets] = Secrets) -> None:
        self._recorder, self._store, self._secrets = recorder, store, secrets

    def listed(
        self,
        *,
        run: str | None = None,
        closed: bool = False,
        questions: bool = False,
        after: int = -1,
        limit: int | None = None,
    ) -> list[View]:
        """Gates that wait, oldest first; with `closed` also those that do not wait any more, with `questions` what each shows.
        At most `limit` of those that were opened behind entry `after`.
        """
        # Most gates of a long log are closed: what they were is not looked at.
        over = set() if closed else self._closed(run)
        # Many may be of one run: what is asked about it is asked once.
        rules, ended = cache(self._rules), cache(self._is_over)
        found: list[View] = []
        for entry in self._store.select(Query(kind="gate.opened", run=run, after=after)):
            if len(found) == limit:
                break
            if entry.seq in over:
                continue
            view = self._view(formed(self._store, entry), rules, ended)
            if closed or view["state"] == "open":
                found.append(view | (self._parts(entry, read_for_list) if questions else {}))
        return found

    def _closed(self, run: str | None) -> set[int]:
        """The entries that opened the gates which are closed."""
        return {seq for entry in self._store.select(Query(kind="gate.closed", run=run)) for seq in entry.causes}

    def show(self, gate: str) -> View:
        """One gate with what it shows."""
        return self._shown(self._opened(gate))

    def _shown(self, opened: Entry) -> View:
        return self._view(opened, self._rules, self._is_over) | self._parts(opened, read_text)

    def _parts(self, opened: Entry, read: Callable[[Store, Entry, str], str | None]) -> View:
        """What a decision is bound to, in words: the question, and the results that the task would be given."""
        results: list[View] = []
        left = MAX_TOLD
        for entry in self._results(opened):
            text = read(self._store, entry, "output")
            told = None if text is None else text[:left]
            left -= len(told or "")
            results.append(
                {
                    "task": entry.data["task"],
                    "seq": entry.seq,
                    "text": told,
                    "left_out": len(text or "") - len(told or ""),
                }
            )
        return {"question": read(self._store, opened, "question"), "built_on": results}

    def _results(self, opened: Entry) -> list[Entry]:
        """The results whose commitments a gate shows behind that of its own text, in that order."""
        behind: tuple[str, ...] = tuple(opened.data["shown"][1:])
        wanted, found = set(behind), dict[str, Entry]()
        asked = Query(run=opened.run, kind="task.returned", before=opened.seq, newest_first=True)
        for entry in self._store.select(asked) if wanted else ():
            commitment = entry.body.get("output")
            if commitment in wanted:
                wanted.discard(commitment)
                found[commitment] = formed(self._store, entry)
                if not wanted:
                    break
        return [found[each] for each in behind if each in found]

    def in_question(self, gate: View) -> str:
        """What an edit takes the place of: what a gate shows, without the words in which it asks."""
        question = str(gate["question"] or "")
        rule = self._rules(gate["run"]).get(gate["rule"])
        asked = rule.question if rule else ""
        # Words of somebody's own may have blank lines in them; ours have none.
        own = asked and question.startswith(f"{asked}\n\n")
        return question[len(asked) + 2 :] if own else question.partition("\n\n")[2]

    async def decide(
        self,
        gate: str,
        decision: Decision,
        *,
        actor: str | None = None,
        note: str | None = None,
        edit: str | None = None,
        commands: bool = True,
        authenticated: bool = False,
        shown: tuple[str, ...] | None = None,
    ) -> View:
        """Record a decision. `shown` is what the decider saw, where a surface kept it; a gate that shows something else
        refuses. `commands`: whether checks of an edited plan may run programs here."""
        opened = await asyncio.to_thread(self._decidable, gate, shown)
        if (decision == "edit") != (edit is not None):
            raise UsageError("an edit needs the new text, and nothing else takes one")
        if edit is not None:
            await asyncio.to_thread(self._check_edit, opened, edit, commands=commands)
        fact = GateDecided(
            gate=gate,
            decision=decision,
            shown=tuple(opened.data["shown"]),
            authenticated=authenticated,
            note=Body.text(note) if note else None,
            edit=Body.text(edit) if edit is not None else None,
        )
        fact = without_secrets(fact, self._secrets())
        recorded = await self._recorder.record(
            fact, actor=human() if actor is None else actor, run=opened.run, causes=[opened.seq]
        )
        self._recorder.seal_soon()
        view = await asyncio.to_thread(self._shown, opened)
        _refuse_in_vain(view, decision, recorded.seq)
        return view

    def _decidable(self, gate: str, shown: tuple[str, ...] | None) -> Entry:
        """A gate that is open, and shows what the decider saw."""
        opened = self._opened(gate)
        # What nobody can be shown, nobody can decide on.
        view = self._shown(opened)
        if view["state"] == VOID:
            raise UsageError(
                f"run {opened.run} has ended, and nothing waits at gate {gate} any more; nothing was changed"
            )
        if view["state"] != "open":
            raise UsageError(f"gate {gate} is {view['state']} already, by {_by(view)}; nothing was changed")
        if shown is not None and shown != tuple(opened.data["shown"]):
            look = f"hansard gates show {quote(gate)} --ledger {quote(self._store.place)}"
            raise UsageError(f"gate {gate} shows something else by now; look at it again: {look}")
        return opened

    def _check_edit(self, opened: Entry, edit: str, *, commands: bool) -> None:
        if not edit.strip() or len(edit) > MAX_EDIT:
            raise UsageError(f"the new text must have 1 to {MAX_EDIT:,} characters")
        if opened.data["before"] != "plan":
            return
        where, config = "the edited plan", self._config(opened.run)
        plan = brought_plan(read_json(edit, where=where), config, where=where, commands=commands)
        asked = [id for rule in config.gates if rule.asked for id in rule.tasks if not plan.has(id)]
        if asked:
            # Where it did not come at all, its gate stands before the plan as a whole, and is asked there.
            came = self._planned(opened.run)
            if gone := next((id for id in asked if id in came), None):
                raise UsageError(f"{where} has no task {gone!r}, and a gate was asked for before it; keep it there")

    def _planned(self, run: str) -> set[str]:
        """The tasks of the plan as it was before anybody edited it."""
        plan = plan_data(self._store, list(self._store.select(Query(run=run, kind="plan.made", limit=1))))
        if plan is None:
            raise UsageError(f"the plan of run {run} is not in the ledger any more")
        return {task["id"] for task in plan["tasks"]}

    def _config(self, run: str) -> RunConfig:
        configured = next(iter(self._store.select(Query(run=run, kind="run.configured", limit=1))), None)
        stored = read_body(self._store, configured, "config") if configured else None
        if configured is None or stored is None:
            raise UsageError(f"the configuration of run {run} is not in the ledger any more")
        return RunConfig.from_json(stored.body, f"entry {configured.seq}")

    def _is_over(self, run: str) -> bool:
        return over_at(self._store, run) is not None

    def _rules(self, run: str) -> Mapping[str, Rule]:
        """The gates of a run's configuration by their names; none where it cannot be read, and then nobody can drive it."""
        try:
            return {rule.name: rule for rule in self._config(run).gates}
        except HansardError:
            return {}

    def _rule(self, opened: Entry, rules: Mapping[str, Rule]) -> Rule | None:
        """What is asked of the deciders at this gate; None where nobody can say."""
        rule = rules.get(opened.data["rule"])
        return replace(rule, needed=opened.data["needed"], editor=self._editor(opened)) if rule else None

    def _editor(self, opened: Entry) -> str:
        """Who edited what the gate shows, where he did it at this rule: he has had his say."""
        for closed in map(self._entry, opened.causes):
            said = [self._entry(seq) for seq in closed.causes] if closed.kind == "gate.closed" else []
            if any(each.kind == "gate.opened" and each.data["rule"] == opened.data["rule"] for each in said):
                return next((each.actor for each in said if each.kind == "gate.decided"), "")
        return ""

    def _opened(self, gate: str) -> Entry:
        # What waits is mostly new.
        for entry in self._store.select(Query(kind="gate.opened", newest_first=True)):
            if entry.data.get("gate") == gate:
                return formed(self._store, entry)
        place = self._store.place
        raise UsageError(
            f"there is no gate {gate!r} in {place}; `hansard gates list --ledger {quote(place)}` shows them"
        )

    def _entry(self, seq: int) -> Entry:
        return formed(self._store, self._store.entry(seq))

    def _view(self, opened: Entry, rules: Callable[[str], Mapping[str, Rule]], is_over: Callable[[str], bool]) -> View:
        data: Any = opened.data
        gate = str(data["gate"])
        effects = [self._entry(seq) for seq in self._store.effects(opened.seq)]
        closed = next((each for each in effects if each.kind == "gate.closed"), None)
        decisions = [each for each in effects if each.kind == "gate.decided"]
        over = not closed and is_over(opened.run)
        asked = Gate(id=gate, rule=str(data["rule"]), opened=opened, decisions=decisions)
        known = rules(opened.run) if decisions or asked.deadline_us is not None else {}
        rule = self._rule(opened, known)
        counted = {each.seq for each in counting(asked, rule).values()} if rule else set()
        # How it ends with the words that it has got, before a driver has taken them up.
        end = closing(asked, rule, time.time_ns() // 1_000) if rule and not closed and not over else None
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
            "state": closed.data["outcome"] if closed else end.outcome if end else VOID if over else "open",
            "expired": bool(closed.data["expired"] if closed else end and end.expired),
            "decisions": [_decision(each, each.seq in counted) for each in decisions],
        }


def approvals(gate: View) -> int:
    """How many approvals count."""
    return sum(each["counts"] and each["decision"] == "approve" for each in gate["decisions"])


def _refuse_in_vain(gate: View, decision: Decision, seq: int) -> None:
    """UsageError where this word came behind others that have decided otherwise."""
    counts = any(each["seq"] == seq and each["counts"] for each in gate["decisions"])
    # Who approved beside others has got what he wanted; of two texts only one goes on.
    if gate["state"] in SAID and (SAID[gate["state"]] != decision or (decision == "edit" and not counts)):
        was = f"{gate['state']} a moment before, by {_by(gate)}"
        raise UsageError(f"gate {gate['gate']} was {was}; your word is on the record, and changes nothing")


def _by(gate: View) -> str:
    """Who ended it."""
    said = [each for each in gate["decisions"] if each["counts"] and each["decision"] == SAID[gate["state"]]]
    return "its deadline" if gate["expired"] else ", ".join(dict.fromkeys(each["by"] for each in said)) or "nobody"


def _decision(entry: Entry, counts: bool) -> View:
    """One word. It counts where it is the last of somebody who may decide, on what is shown and in time."""
    data: Any = entry.data
    return {
        "seq": entry.seq,
        "time": moment(entry.ts),
        "by": entry.actor,
        "decision": data["decision"],
        "authenticated": data["authenticated"],
        "counts": counts,
    }
