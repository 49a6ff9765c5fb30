"""What a recorded run was answered, in the form in which it can stand in for models and programs. Refuses what was tampered with.

Every entry and every body that is read is checked against the log first: a re-run of a changed record would prove nothing.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from hansard.domain.exchange import Completion, Cost, Failure, Usage
from hansard.domain.fact import Body
from hansard.domain.value import replace
from hansard.errors import StoreError
from hansard.ledger.entry import Entry
from hansard.providers.recording import Call, RecordedCall, RecordedProgram, Recording
from hansard.record.reading import came_of, read_body, read_entries, strange
from hansard.record.tree import check_held
from hansard.store.base import Query, Store

CUT_SHORT = frozenset({"cancelled", "deadline"})
"""Errors of answers that never came, because the run was stopped while they were waited for."""
SWALLOWED = "restarts"
"""The error of an answer in place of one that never came, because the engine had ended too often while it was waited for."""
NEVER_CAME = CUT_SHORT | {SWALLOWED}
WORKER = "worker"
UNMISSED = frozenset({"intent_judge", "reviser"})
"""Roles whose silence nothing on the record is built on."""


class Gone(StoreError):
    """A body that a re-run needs was redacted, or is missing: nothing can be said of the decisions behind it."""


class Reader:
    """Reads a run's entries and bodies, and checks each against the log."""

    def __init__(self, store: Store) -> None:
        self._store, self.place = store, store.place

    def entries(self, run: str) -> list[Entry]:
        """The entries of a run, if the log's own tree holds each of them as it was read."""
        found = list(read_entries(self._store, Query(run=run)))
        check_held(self._store, found)
        return found

    def body(self, entry: Entry, part: str) -> Body | None:
        """A body, if it opens its commitment; None where the entry has no such part."""
        if part not in entry.body:
            return None
        stored = read_body(self._store, entry, part)
        if stored is None:
            raise Gone(f"the {part} of entry {entry.seq} is not in the ledger any more: the run cannot be re-run")
        return Body(stored.media, stored.body)

    def data(self, entry: Entry, part: str) -> bytes:
        """The bytes of a body that the entry must have."""
        found = self.body(entry, part)
        if found is None or found.data is None:
            raise StoreError(f"entry {entry.seq} ({entry.kind}) has no {part}")
        return found.data

    def findings(self, verdict: Entry) -> list[dict[str, Any]]:
        """What the checks behind a verdict said."""
        try:
            rows = json.loads(self.data(verdict, "reasons"))
        except (ValueError, RecursionError) as error:
            raise strange(verdict, "reasons", error) from error
        if not isinstance(rows, list) or not rows or not all(map(_is_finding, rows)):
            raise strange(verdict, "reasons", "it is no list of what checks said")
        return rows


def _is_finding(row: object) -> bool:
    """Whether this is what a check said, and what of the program that it ran."""
    if not isinstance(row, dict) or not isinstance(row.get("detail"), str):
        return False
    ran = row.get("program")
    if ran is None:
        return True
    if not isinstance(ran, dict) or not isinstance(ran.get("argv"), list) or not isinstance(ran.get("said", ""), str):
        return False
    ended = ran.get("failed") is True or isinstance(ran.get("exit_code", ""), int | None)
    return ended and all(isinstance(each, str) for each in (*ran["argv"], ran.get("stdin_sha256")))


def recording_of(reader: Reader, entries: Sequence[Entry]) -> Recording:
    """Everything that a run was answered. Questions that were never answered are left out."""
    asked, calls, programs = dict[int, Entry](), list[RecordedCall](), list[RecordedProgram]()
    built_on = _built_on(entries)
    for entry in entries:
        match entry.kind:
            case "task.attempted" | "role.asked":
                asked[entry.seq] = entry
            case "task.returned" | "role.answered" if entry.data.get("error") not in NEVER_CAME:
                calls.append(_call(reader, came_of(asked, entry), entry, built_on.get(entry.seq, ())))
            case "task.judged" if "reasons" in entry.body:
                programs += _programs(reader.findings(entry))
    return Recording(calls=tuple(calls), programs=tuple(programs))


def _built_on(entries: Sequence[Entry]) -> dict[int, list[Entry]]:
    """By answer: what the engine made of it, another try or the end of trying."""
    found: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.kind in ("task.attempted", "role.asked", "task.judged", "run.ended"):
            for cause in entry.causes:
                found.setdefault(cause, []).append(entry)
    return found


def _call(reader: Reader, question: Entry, answer: Entry, built_on: Sequence[Entry]) -> RecordedCall:
    return RecordedCall(
        call=call_asked(question),
        prompt_sha256=sha256(reader.data(question, "prompt")).hexdigest(),
        completion=completion_of(reader, question, answer, built_on),
    )


def call_asked(question: Entry) -> Call:
    """Which call of its run a question is."""
    data: Any = question.data
    role, turn = (WORKER, 1) if question.kind == "task.attempted" else (data["role"], data["turn"])
    return Call(role, data.get("task") or "", data["attempt"], turn)


def completion_of(reader: Reader, question: Entry, answer: Entry, built_on: Sequence[Entry] = ()) -> Completion:
    """An answer as it came. `built_on` is what the engine made of it."""
    completion = _said(reader, question, answer)
    return _failed(reader, question, answer, built_on, completion)


def _said(reader: Reader, question: Entry, answer: Entry) -> Completion:
    data: Any = answer.data
    output = reader.body(answer, "output")
    text = output.as_text() if output else ""
    stderr = reader.body(answer, "stderr")
    printed = output.data if output and data.get("exit_code") is not None else None
    misshapen = data.get("error") == "malformed_response"
    return Completion(
        provider=str(question.data["provider"]),
        requested_model=str(question.data["model"]),
        returned_model=data["model"],
        text=text.rstrip("\r\n") if printed is not None else text,
        finish="stop" if misshapen and data["finish"] == "error" else data["finish"],
        usage=Usage(
            input_tokens=data["input_tokens"],
            output_tokens=data["output_tokens"],
            cached_tokens=data["cached_tokens"],
            estimated=data["tokens_estimated"],
        ),
        cost=Cost(usd_nano=data["cost_usd_nano"], basis=data["cost_basis"]),
        latency_us=data["latency_us"],
        exit_code=data.get("exit_code"),
        output=printed,
        stderr=stderr.data if stderr else None,
    )


def _failed(
    reader: Reader, question: Entry, answer: Entry, built_on: Sequence[Entry], completion: Completion
) -> Completion:
    """The completion with its failure, where it has one. An answer that was corrected for its shape is given out again as it
    came, and misses it again.
    """
    kind: Any = answer.data.get("error")
    if kind is None:
        return completion
    text, label, passing = completion.text, f"[{kind}] ", _was_passing(question, built_on)
    # Where there was no output, the reason stands in its place.
    if kind == "malformed_response" and question.kind == "role.asked" and passing:
        return replace(completion, text="") if text.startswith(label) else completion
    message, text = (text.removeprefix(label), "") if text.startswith(label) else (text or kind, text)
    verdict = next((entry for entry in built_on if entry.kind == "task.judged" and "reasons" in entry.body), None)
    if verdict is not None and question.kind == "task.attempted":
        told = reader.findings(verdict)[0]["detail"]
        message = told.removeprefix(f"{kind}: ")
    failure = Failure(kind=kind, message=message, retryable=passing)
    return replace(completion, text=text, failure=failure)


def _was_passing(question: Entry, built_on: Sequence[Entry]) -> bool:
    """Whether a failure was one after which the run tried again, or would have."""
    kinds = {entry.kind for entry in built_on}
    if question.data.get("role") in UNMISSED:
        return "role.asked" in kinds
    return kinds.isdisjoint(("task.judged", "run.ended"))


def _programs(findings: list[dict[str, Any]]) -> list[RecordedProgram]:
    return [
        RecordedProgram(
            argv=tuple(found["argv"]),
            stdin_sha256=found["stdin_sha256"],
            stdout=b"",
            stderr=found.get("said", each["detail"]).encode("utf-8", "surrogatepass"),
            exit_code=found["exit_code"],
        )
        for each in findings
        if (found := each.get("program")) and found.get("exit_code") is not None
    ]
