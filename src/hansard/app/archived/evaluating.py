"""Sessions looked at afterwards: found in a directory or on the record, measured, compared, and panels tried on many problems."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any
from unicodedata import normalize

from hansard.app.archived.sessions import artifact_of, place_of
from hansard.app.driving.deliberations import Deliberations
from hansard.app.ids import as_recorded
from hansard.app.settings import read_text
from hansard.app.setup.convening import Convening
from hansard.app.telling.deliberationviews import rounds_of
from hansard.app.telling.directories import find_session
from hansard.app.views import View
from hansard.deliberation.afterwards.evaluation import evaluation_of, postmortem_of
from hansard.deliberation.documents import Artifact, Config, unrepresentable
from hansard.deliberation.documents.transcript import seated
from hansard.deliberation.events import event_of, line_of
from hansard.deliberation.inventory import EVENTS
from hansard.deliberation.metrics import metrics_of
from hansard.deliberation.questions import read_answer, read_questions
from hansard.deliberation.story import entries_of, read_story
from hansard.domain.exchange import is_priced
from hansard.domain.strict_json import read_json
from hansard.domain.value import value
from hansard.domain.work import Surface
from hansard.errors import Tampered, UsageError
from hansard.ledger.entry import Entry
from hansard.record.history import TURNS
from hansard.record.reading import formed, read_entries
from hansard.store.base import Query, Store

MAX_PROBLEMS = 1_000
LAST = "last"


@value
class Held:
    """A finished session: its artifact, and its calls where they are at hand."""

    artifact: dict[str, Any]
    events: list[dict[str, Any]] | None


def find_held(name: str, runs: Path, store: Store | None) -> Held:
    """A session by its directory or id; or by its id or its run on the record, as those that met inside of a run are."""
    try:
        folder = place_of(name, runs)
    except UsageError:
        found = _on_record(store, name) if store is not None else None
        if found is None:
            raise
        return found
    path = folder / EVENTS
    return Held(artifact=artifact_of(folder), events=_events(path) if path.is_file() else None)


_COUNTED: Mapping[str, Mapping[str, type]] = {
    "turn.asked": {"agent": str, "attempt": int},
    "turn.failed": {"agent": str, "error": str},
}
"""What is counted of which event."""


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        found = [json.loads(line) for line in read_text(path).split("\n") if line.strip()]
        for number, each in enumerate(found, 1):
            for name, want in _COUNTED.get(each["event"], {}).items():
                if type(each[name]) is not want:
                    raise ValueError(f"{name} of event {number} is no {'number' if want is int else 'text'}")
        return found
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} holds something else than events: {error}") from error


def _on_record(store: Store, name: str) -> Held | None:
    entry = _named(store, name, "session.ended")
    if entry is None:
        return None
    story = read_story(store, entry.run, str(entry.data["session"]))
    if story.artifact is None:
        raise Tampered(f"entry {entry.seq} ends a session of run {entry.run} and does not follow from it")
    events = [json.loads(line_of(event)) for told in story.told if (event := event_of(told.seq, told.fact))]
    return Held(artifact=story.artifact, events=events)


def _named(store: Store, name: str, kind: str) -> Entry | None:
    """The newest entry of this kind about the session of this name: its id, its run, or `last`."""
    spelled = as_recorded(name)
    for entry in store.select(Query(kind=kind, newest_first=True)):
        if entry.data.get("session") in (name, spelled) or name == LAST:
            return formed(store, entry)
        if spelled == entry.run:
            sessions = [str(each.data["session"]) for each in read_entries(store, Query(run=spelled, kind=kind))]
            if len(sessions) > 1:
                raise UsageError(f"run {spelled} has {len(sessions)} sessions; name one of them: {', '.join(sessions)}")
            return entry
    which = "session that has ended" if kind == "session.ended" else "session"
    if name == LAST:
        raise UsageError(f"{store.place} has no {which} yet; `--ledger LEDGER` asks another ledger")
    if name and any(store.select(Query(run=spelled, limit=1))):
        show = f"hansard runs show {spelled} --ledger {quote(store.place)}"
        raise UsageError(f"run {spelled} has no {which}; `{show}` shows what it has")
    return None


def questions_asked(name: str, runs: Path, store: Store, *, answers: bool = False) -> View:
    """Every question of a session, finished or not, as it was asked, from the record alone; with `answers`, what came back."""
    run, session = _place_on_record(name, runs, store)
    asked = [
        {
            "seq": each.seq,
            "agent": each.agent,
            "round": each.round,
            "attempt": each.attempt,
            "model": each.model,
            "messages": [{"role": message.role, "content": message.content} for message in each.messages],
            **({"answer": read_answer(store, each.came) if each.came else None} if answers else {}),
        }
        for each in read_questions(store, run, session)
    ]
    return {"run": run, "session_id": session, "questions": asked}


def _place_on_record(name: str, runs: Path, store: Store) -> tuple[str, str]:
    """The run and the session that this is the name of, by its directory or as the record has it."""
    try:
        run = find_session(store, place_of(name, runs))
    except UsageError:
        found = _named(store, name, "session.convened")
        if found is None:
            raise
    else:
        found = entries_of(store, run)[0]
    return found.run, str(found.data["session"])


def measured(held: Held) -> View:
    """The figures of the protocol, made anew from the artifact [§7.9]."""
    return metrics_of(held.artifact)


def figures(held: Held) -> View:
    """Everything that can be counted about a session: both sets of figures."""
    return {**measured(held), **evaluation_of(held.artifact, held.events)}


def looked_back(held: Held) -> View:
    return postmortem_of(held.artifact)


_NUMBERS = ("tokens", "cost_usd", "rounds", "messages", "disagreement_frequency", "delegation_frequency")


def short(held: Held) -> View:
    """A session in one row."""
    found, artifact = figures(held), held.artifact
    transcript = artifact["canonical_transcript"]
    scores = [score for score in found["role_purity_score"].values() if score is not None]
    answer = transcript[-1]["content"]["integrated_answer"] if found["outcome_kind"] == "synthesis" else None
    return {
        "session_id": artifact["session_id"],
        "outcome": found["termination_reason"] or found["outcome_kind"],
        "agents": list(seated(Artifact.parse(artifact))),
        "rounds": rounds_of(artifact),
        "messages": len(transcript),
        "tokens": found["tokens_cumulative"]["total_tokens"],
        "cost_usd": found["cost_cumulative"]["cost_usd"],
        "calls_without_price": _without_price(held.events),
        "role_purity": round(fmean(scores), 6) if scores else None,
        "disagreement_frequency": found["disagreement_frequency"],
        "delegation_frequency": found["delegation_frequency"],
        "time_to_finalize": found["time_to_finalize"],
        "unresolved": [each["topic"] for each in artifact["cumulative_unresolved"]],
        "transcript_digest": artifact["transcript_digest"],
        "answer": answer,
    }


def _without_price(events: Sequence[Mapping[str, Any]] | None) -> int | None:
    """How many calls there are whose cost nobody knows, so that the sum lacks it; None where none of them are at hand."""
    if events is None:
        return None
    calls = [each for each in events if each["event"] in TURNS]
    return sum(not is_priced(_tokens(each), each.get("cost_basis")) for each in calls)


def _tokens(event: Mapping[str, Any]) -> int:
    used = (event.get("prompt_tokens"), event.get("completion_tokens"))
    return sum(each for each in used if isinstance(each, int))


def compared(a: Held, b: Held) -> View:
    """Two sessions beside each other, and what B has more than A."""
    one, other = short(a), short(b)
    numbers = [name for name, value in one.items() if type(value) in (int, float) and type(other[name]) in (int, float)]
    return {
        "a": one,
        "b": other,
        "more_in_b": {name: round(other[name] - one[name], 6) for name in numbers},
        "same_transcript": one["transcript_digest"] == other["transcript_digest"],
        "same_answer": one["answer"] is not None and one["answer"] == other["answer"],
        "settled_in_b": [topic for topic in one["unresolved"] if topic not in other["unresolved"]],
        "open_in_b": [topic for topic in other["unresolved"] if topic not in one["unresolved"]],
    }


@value
class Problem:
    """One problem of a set; `expect` is a text that a good answer holds."""

    id: str
    text: str
    expect: str | None = None

    def passed(self, answer: str | None) -> bool | None:
        """Whether an answer holds what is expected, however its letters are put together; None where nothing is."""
        return None if self.expect is None else _letters(self.expect) in _letters(answer or "")


def _letters(text: str) -> str:
    return normalize("NFC", text.casefold())


def read_problems(path: Path) -> list[Problem]:
    """A set of problems: JSON lines with problem, and maybe id and expect; or plain text, one problem a line."""
    found: list[Problem] = []
    # By line ends alone: JSON may hold every other character that ends a line somewhere.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            found.append(_problem(line, f"{path}, line {number}", len(found) + 1))
    if not found:
        raise UsageError(f"{path} holds no problem; write one a line, or JSON lines with a problem each")
    if len(found) > MAX_PROBLEMS:
        raise UsageError(f"{path} holds {len(found):,} problems; at most {MAX_PROBLEMS:,} are tried at once")
    return found


def _problem(line: str, where: str, number: int) -> Problem:
    if not line.lstrip().startswith("{"):
        return Problem(id=str(number), text=line.strip())
    row = read_json(line, where=where)
    if not isinstance(row.get("problem"), str) or not row["problem"].strip():
        raise UsageError(f'{where} has no problem: write {{"problem": "…"}}')
    expect = row.get("expect")
    # Every answer holds an empty text, and nearly every one a space.
    if expect is not None and not (isinstance(expect, str) and expect.strip()):
        raise UsageError(f"{where}: expect must be a text that a good answer holds")
    if why := unrepresentable(row["problem"]):
        raise UsageError(f"{where} {why}")
    id = row.get("id")
    return Problem(id=str(number if id in (None, "") else id), text=row["problem"], expect=expect)


async def evaluated(
    deliberations: Deliberations,
    store: Store,
    made: Convening,
    problems: Sequence[Problem],
    *,
    surface: Surface = "python",
    heard: Callable[[View], object] = lambda row: None,
) -> View:
    """Hold a session of this panel on each problem, one after the other, and say from the record how they went.

    `heard` gets the row of each as soon as its session is over: whoever is interrupted has what was paid for until then.
    """
    rows = []
    for problem in problems:
        config = Config.parse({**made.config.as_data(), "problem_statement": problem.text})
        run = await deliberations.convene(replace(made, config=config), surface=surface)
        sat = await deliberations.hold(run)
        held = _on_record(store, run)
        assert held is not None
        row = {"problem": problem.id, "run": run, **short(held), "fault": sat.sitting.fault}
        row["passed"] = problem.passed(row["answer"])
        rows.append(row)
        heard(row)
    return evaluation_view(rows)


def evaluation_view(rows: Sequence[View], stopped_by: str | None = None) -> View:
    """The sessions of a set, what they come to, and what kept it from its end, if anything did."""
    return {"problems": list(rows), "summary": summed(rows), "stopped_by": stopped_by}


def summed(rows: Sequence[Mapping[str, Any]]) -> View:
    """What the sessions of a set come to."""
    judged = [row["passed"] for row in rows if row["passed"] is not None]
    purity = [row["role_purity"] for row in rows if row["role_purity"] is not None]
    return {
        "sessions": len(rows),
        "syntheses": sum(1 for row in rows if row["outcome"] == "synthesis"),
        "passed": sum(judged) if judged else None,
        "judged": len(judged),
        "role_purity": round(fmean(purity), 6) if purity else None,
        **{name: round(fmean(row[name] for row in rows), 6) if rows else None for name in _NUMBERS},
    }
