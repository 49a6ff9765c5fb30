"""How a run is shown: folded from its entries, with the bodies that people want to read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hansard.app.telling.compare import answer_entry, end_of, since_retry
from hansard.app.telling.nested_sessions import sessions_by_question
from hansard.app.views import View, moment
from hansard.errors import Tampered
from hansard.ledger.entry import Entry
from hansard.record.history import RunState, fold
from hansard.record.reading import read_body, read_text, strange
from hansard.store.base import Store

REQUEST_SHOWN = 200
SAID_SHOWN = 2_000
INTERRUPTED = {
    "signal": "whoever drove it was told to stop: by Ctrl-C, a signal, or the program that had begun it",
    "shutdown": "the process that drove it was shut down",
    "error": "an error ended whoever drove it",
}


def run_view(store: Store, run: str, entries: Sequence[Entry]) -> View:
    """One run, with tasks and texts; each entry has the form of its kind."""
    request = read_text(store, first_of(entries), "request")
    state = fold(entries).runs[run]
    return {
        **head_view(state, entries, end_of(entries), None),
        "request": request,
        "route": _route(entries),
        "contexts": _contexts(store, entries),
        "plan": _plan(entries),
        "tasks": _tasks(store, entries),
        **_answer(store, entries),
        "checks": _checks(store, entries),
        "unusable": _unusable(store, entries),
        "interrupted": interrupted_view(store, state, entries),
        "unpriced": sorted(state.unpriced),
    }


def first_of(entries: Sequence[Entry]) -> Entry:
    return next((entry for entry in entries if entry.kind == "run.requested"), entries[0])


def head_view(state: RunState, entries: Sequence[Entry], ended: Entry | None, request: str | None) -> View:
    configured = next((entry for entry in entries if entry.kind == "run.configured"), None)
    return {
        "run": state.run,
        "state": state.state,
        "reason": ended.data.get("reason") if ended else None,
        "mode": first_of(entries).data.get("mode"),
        "request": None if request is None else request[:REQUEST_SHOWN],
        "started": moment(state.started_us),
        "last": moment(state.last_us),
        "entries": state.entries,
        "first_seq": state.first_seq,
        "last_seq": state.last_seq,
        "spent": spent_view(state, ended),
        "budget": budget_view(configured),
        "open_gates": sorted(state.open_gates),
    }


def spent_view(state: RunState, ended: Entry | None) -> View:
    """What a run took so far, calls of which nothing came back included; how long it took is known at its end. Where it is
    not priced, it cost more than that; None, in lists, where it ended under a version that did not say so."""
    return {
        "calls": state.calls,
        "tokens": state.tokens,
        "cost_usd_nano": state.cost_usd_nano,
        "elapsed_us": ended.data.get("elapsed_us") if ended else None,
        "priced": state.priced,
    }


def budget_view(configured: Entry | None) -> View:
    """What a run may take; None where nothing limits it."""
    names = ("max_calls", "max_tokens", "max_cost_usd_nano", "max_seconds")
    return {name: configured.data.get(name) if configured else None for name in names}


def _route(entries: Sequence[Entry]) -> View | None:
    """The last word on where the request belongs."""
    routed = next((entry for entry in reversed(entries) if entry.kind == "run.routed"), None)
    if routed is None:
        return None
    names = ("tier", "lane", "runner_up", "confidence_ppm")
    return {"seq": routed.seq, **{name: routed.data.get(name) for name in names}}


def _contexts(store: Store, entries: Sequence[Entry]) -> list[View]:
    """What each context source gave, for the request or for a task, and why it gave nothing where it failed; its last word."""
    given = {
        (entry.data["source"], entry.data.get("task")): entry for entry in entries if entry.kind == "context.given"
    }
    return [
        {
            "seq": entry.seq,
            "task": task,
            **{key: entry.data[key] for key in ("source", "offered_tokens", "admitted_tokens", "failed")},
            "why": read_text(store, entry, "context") if entry.data["failed"] else None,
        }
        for (_, task), entry in given.items()
    ]


def said_of_context(context: View) -> str:
    """That a context source failed, for whom and why, in words."""
    whom = f" for {context['task']}" if context["task"] is not None else ""
    return (
        f"{context['source']} failed{whom} (entry {context['seq']}): {context['why'] or '(not in the ledger any more)'}"
    )


def _plan(entries: Sequence[Entry]) -> View | None:
    made = next((entry for entry in reversed(entries) if entry.kind == "plan.made"), None)
    if made is None:
        return None
    return {"seq": made.seq, "by": made.data["by"], **{key: made.data[key] for key in ("tasks", "edges", "waves")}}


def plan_data(store: Store, entries: Sequence[Entry]) -> View | None:
    """The plan as a file that `submit --plan` takes; None where there is none yet, or it is not in the ledger any more."""
    made = next((entry for entry in reversed(entries) if entry.kind == "plan.made"), None)
    stored = read_body(store, made, "plan") if made else None
    if made is None or stored is None:
        return None
    try:
        found: View = json.loads(stored.body)
        if not all(_is_task(each) for each in found["tasks"]):
            raise ValueError("a task has no id, no lane, or needs that name none")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise strange(made, "plan", error) from error
    return found


def _is_task(planned: Any) -> bool:
    needs = planned.get("needs", []) if isinstance(planned, dict) else None
    return (
        isinstance(needs, list)
        and all(isinstance(planned.get(name), str) for name in ("id", "lane"))
        and all(isinstance(need, dict) and isinstance(need.get("task"), str) for need in needs)
    )


def _tasks(store: Store, entries: Sequence[Entry]) -> list[View]:
    """Every task of the plan in its order, with what became of it."""
    planned = (plan_data(store, entries) or {}).get("tasks", [])
    tasks = {task["id"]: _waiting(task["id"], task["lane"], task.get("needs", [])) for task in planned}
    for entry in entries:
        data: Any = entry.data
        if entry.kind.startswith("task.") and "task" in data:
            _take(store, tasks.setdefault(data["task"], _waiting(data["task"], None, [])), entry)
        elif entry.kind == "run.retry_asked":
            for task in tasks.values():
                if task["task"] == data["task"] or task["state"] == "skipped":
                    task["state"], task["because"] = "waiting", None
    sessions = _sessions(store, entries)
    if sessions:
        _tell_panels(tasks.values(), entries, sessions)
    return list(tasks.values())


def _tell_panels(tasks: Iterable[View], entries: Sequence[Entry], sessions: Mapping[int, View]) -> None:
    """Say of each attempt, and of each verdict, which session it is of."""
    causes = {entry.seq: entry.causes for entry in entries if entry.kind in ("task.judged", "role.answered")}
    for attempt in (attempt for task in tasks for attempt in task["attempts"]):
        if attempt["seq"] in sessions:
            attempt["panel"] = sessions[attempt["seq"]]
        if attempt["verdict"] and (judges := _judges(causes, attempt["verdict"]["seq"], sessions)):
            attempt["verdict"]["panel"] = judges


def _judges(causes: Mapping[int, Sequence[int]], verdict: int, sessions: Mapping[int, View]) -> View | None:
    """The session whose answer a verdict is."""
    asked = [seq for answered in causes[verdict] for seq in causes.get(answered, ())]
    return next((sessions[seq] for seq in asked if seq in sessions), None)


def _sessions(store: Store, entries: Sequence[Entry]) -> dict[int, View]:
    """The sessions that met inside of the run, by the question that each answers: how it ended, and who dissents.

    Where a question was asked again after a crash, the session is shown where its answer is.
    """
    last = {session: seq for seq, session in sessions_by_question(entries).items()}
    if not last:
        return {}
    # Most runs have none, and what deliberates takes a while to load.
    from hansard.deliberation.story import read_ending

    views: dict[str, View] = {id: {"session": id, "outcome": None, "rounds": None, "unresolved": []} for id in last}
    for entry in entries:
        if entry.kind == "session.ended" and (view := views.get(str(entry.data["session"]))):
            view["outcome"] = entry.data.get("reason") or entry.data["outcome"]
            view["rounds"] = entry.data["rounds"]
            ending = read_ending(store, entry)
            view["unresolved"] = ending["cumulative_unresolved"] if ending else []
    return {seq: views[id] for id, seq in last.items()}


def _waiting(task: str, lane: str | None, needs: Sequence[View]) -> View:
    needed = [need["task"] for need in needs]
    return {"task": task, "lane": lane, "needs": needed, "state": "waiting", "attempts": [], "because": None}


def _take(store: Store, task: View, entry: Entry) -> None:
    data: Any = entry.data
    match entry.kind:
        case "task.attempted":
            task["lane"], task["state"], task["because"] = data["lane"], "running", None
            task["attempts"].append(
                {
                    "attempt": data["attempt"],
                    "seq": entry.seq,
                    "rung": data["rung"],
                    "provider": data["provider"],
                    "model": data["model"],
                    "returned": None,
                    "verdict": None,
                }
            )
        case "task.returned":
            task["state"] = "returned"
            _attempt(task, entry)["returned"] = {
                "seq": entry.seq,
                **{
                    key: data.get(key)
                    for key in ("ok", "finish", "error", "model", "latency_us", "exit_code", "pause_us")
                },
                "tokens": data["input_tokens"] + data["output_tokens"],
                "cost_usd_nano": data["cost_usd_nano"],
                "cost_basis": data["cost_basis"],
            }
        case "task.judged":
            task["state"] = "passed" if data["ok"] else "rejected"
            _attempt(task, entry)["verdict"] = {
                "seq": entry.seq,
                **{key: data.get(key) for key in ("ok", "by", "score_ppm", "same_model")},
                "reasons": read_text(store, entry, "reasons") if "reasons" in entry.body else "",
            }
        case "task.skipped":
            task["state"], task["because"] = "skipped", data.get("upstream") or data["because"]
        case "task.escalated":
            task["state"] = "escalated"


def _attempt(task: View, entry: Entry) -> View:
    number = entry.data["attempt"]
    found: View | None = next((each for each in reversed(task["attempts"]) if each["attempt"] == number), None)
    if found is None:
        raise Tampered(f"entry {entry.seq} ({entry.kind}) is about attempt {number}, which nobody has made")
    return found


def _answer(store: Store, entries: Sequence[Entry]) -> View:
    found = answer_entry(entries)
    if found is None:
        return {"answer": None, "answer_seq": None, "missing": []}
    # A revision says nothing of what is missing: what it revises does.
    made = next((entry for entry in reversed(entries) if entry.kind == "run.answered"), found)
    return {
        "answer": read_text(store, found, "answer"),
        "answer_seq": found.seq,
        "missing": list(made.data.get("missing", [])),
    }


def _checks(store: Store, entries: Sequence[Entry]) -> list[View]:
    """What was found of the answer, by rule and by whoever else was asked, and `of` which entry: that one may be revised."""
    return [
        {
            "seq": entry.seq,
            "of": next(iter(entry.causes), None),
            **{key: entry.data.get(key) for key in ("check", "outcome", "score_ppm")},
            "detail": read_text(store, entry, "detail"),
        }
        for entry in since_retry(entries)
        if entry.kind == "answer.checked"
    ]


def _unusable(store: Store, entries: Sequence[Entry]) -> View | None:
    """The answer of a role without which the run could not go on: whose, and what came instead of a usable one."""
    ended = end_of(entries)
    if ended is None or ended.data.get("state") != "failed":
        return None
    last = next((e for e in entries if e.seq in ended.causes and e.kind == "role.answered" and not e.data["ok"]), None)
    if last is None:
        return None
    said = (read_text(store, last, "output") or "").strip() if "output" in last.body else ""
    if not said and "stderr" in last.body:
        # Programs say last what ended them.
        said = "".join((read_text(store, last, "stderr") or "").strip().splitlines()[-1:])
    return {"seq": last.seq, "role": last.data["role"], "error": last.data.get("error"), "said": said[:SAID_SHOWN]}


def interrupted_view(store: Store, state: RunState, entries: Sequence[Entry]) -> View | None:
    """What interrupted a run with which nobody has gone on since."""
    if state.state != "interrupted":
        return None
    last = next(entry for entry in reversed(entries) if entry.kind == "run.interrupted")
    by, why = str(last.data["by"]), read_text(store, last, "why")
    return {"seq": last.seq, "by": by, "why": said_of_interruption(by, why)}


def said_of_interruption(by: str, why: str | None) -> str:
    """Why a driver left before the end, in words. Older records hold no error."""
    return why or INTERRUPTED.get(by, by)


def of_which(check: View, answer_seq: int | None) -> str:
    """Which answer a check is of, in words, where that is not the one that stands."""
    return "" if check["of"] == answer_seq else f", of entry {check['of']} before it was revised"
