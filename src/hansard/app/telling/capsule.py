"""A capsule: what a finished run knows, small enough to be given to the next one as context."""

import json
from collections.abc import Sequence

from hansard.app.telling.compare import answer_of, end_of, last_verdicts
from hansard.app.views import View
from hansard.ledger.entry import Entry
from hansard.orchestration.fence import capped
from hansard.record.reading import read_text
from hansard.store.base import Store

SCHEMA = "hansard.capsule/1"
RESULTS, RESULT_BYTES, REQUEST_BYTES, ANSWER_BYTES = 8, 400, 2_000, 8_000
"""In any script: together they fit into what a source of context may give, so that nothing is cut off without a word."""


def capsule(store: Store, run: str, entries: Sequence[Entry]) -> View:
    """The capsule of a run: what was asked, how it ended, the answer, the last results, and where the record says so."""
    ended = end_of(entries)
    requested = next((entry for entry in entries if entry.kind == "run.requested"), None)
    verdicts, answer = last_verdicts(entries), answer_of(store, entries)
    passed = {e.data["task"]: e.data["attempt"] for e in entries if e.kind == "task.judged" and e.data["ok"] is True}
    results = [
        e
        for e in entries
        if e.kind == "task.returned"
        and verdicts.get(str(e.data["task"])) == "passed"
        and passed[e.data["task"]] == e.data["attempt"]
    ]
    return {
        "schema": SCHEMA,
        "run": run,
        "entries": [entries[0].seq, entries[-1].seq],
        "state": ended.data["state"] if ended else "unfinished",
        "request": _text(store, requested, "request", REQUEST_BYTES),
        "answer": _within(answer, ANSWER_BYTES) if answer else None,
        "results": [
            {"task": each.data["task"], "entry": each.seq, "output": _text(store, each, "output", RESULT_BYTES)}
            for each in results[-RESULTS:]
        ],
        "tasks": verdicts,
    }


def capsule_text(store: Store, run: str, entries: Sequence[Entry]) -> str:
    return json.dumps(capsule(store, run, entries), ensure_ascii=False, indent=1)


def _text(store: Store, entry: Entry | None, part: str, size: int) -> str | None:
    text = read_text(store, entry, part) if entry else None
    return _within(text, size) if text is not None else None


def _within(text: str, size: int) -> str:
    """As much of a text as fits into so many bytes, with a word on how much is missing."""
    return capped(text, len(text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")))
