"""Records that nobody can have recorded, in a log whose chain and tree hold: a re-run names the entry, and calls nothing the same."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.setup.wishes import Wishes
from hansard.domain.custody import BodyRedacted
from hansard.domain.exchange import Exchange
from hansard.errors import Tampered
from hansard.ledger.body import commitment
from hansard.ledger.entry import checked_sketch
from hansard.orchestration.gates import read_rules
from hansard.store.base import Draft, Part
from panels import PANELS, Voices
from running import POOR, Answers, Desk, Ledger, Said, desk, obliging, plan, roster, task, who


@dataclass(slots=True)
class Row:
    """An entry as a forger writes it. Causes are other rows, wherever they stand by then."""

    kind: str
    actor: str
    run: str
    data: dict[str, Any]
    causes: list["Row"]
    parts: tuple[Part, ...]

    def holds(self, part: str, body: bytes) -> None:
        self.parts = tuple(each._replace(body=body, digest=None) if each.name == part else each for each in self.parts)

    def lacks(self, part: str) -> None:
        self.parts = tuple(each for each in self.parts if each.name != part)

    def again(self) -> "Row":
        return replace(self)


Rows = list[Row]
Change = Callable[[Rows], object]


def forged(ledger: Ledger, change: Change) -> Ledger:
    """Another ledger with these entries changed, and everything else put right."""
    rows: Rows = []
    for draft in (draft for group in ledger.commits for draft in group):
        entry = ledger.entry(len(rows) + 1)
        causes = [rows[seq - 1] for seq in entry.causes]
        rows.append(Row(entry.kind, entry.actor, entry.run, dict(entry.data), causes, draft.parts))
    change(rows)
    made = Ledger()
    for row in rows:
        body = {each.name: commitment(each.salt, each.media, each.body).hex() for each in row.parts}
        sketch = checked_sketch(kind=row.kind, actor=row.actor, run=row.run, data=row.data, body=body)
        places = [at for at, each in enumerate(rows, 1) if any(each is cause for cause in row.causes)]
        [told] = made.append([[Draft(row.run, sketch, tuple(places), row.parts, None)]])
        assert not isinstance(told, Exception), told
    return made


def first(rows: Rows, kind: str, **data: object) -> Row:
    return next(row for row in rows if row.kind == kind and data.items() <= row.data.items())


def says(kind: str, name: str, value: object, **data: object) -> Change:
    return lambda rows: first(rows, kind, **data).data.update({name: value})


def twice(kind: str, **data: object) -> Change:
    def change(rows: Rows) -> None:
        row = first(rows, kind, **data)
        rows.insert(rows.index(row) + 1, row.again())

    return change


def gone(kind: str, **data: object) -> Change:
    return lambda rows: rows.remove(first(rows, kind, **data))


def behind(kind: str, other: str) -> Change:
    def change(rows: Rows) -> None:
        row = first(rows, kind)
        rows.remove(row)
        rows.insert(rows.index(first(rows, other)) + 1, row)

    return change


def comes_of(kind: str, other: str, **data: object) -> Change:
    return lambda rows: setattr(first(rows, kind, **data), "causes", [first(rows, other)])


def holds(kind: str, part: str, body: bytes) -> Change:
    return lambda rows: first(rows, kind).holds(part, body)


def lacks(kind: str, part: str, **data: object) -> Change:
    return lambda rows: first(rows, kind, **data).lacks(part)


def strict(exchange: Exchange) -> Said:
    """Rejects the first attempt at b."""
    return POOR if who(exchange) == ("validator", "b", 1) else obliging(exchange)


async def recorded(**how: Any) -> tuple[Ledger, str]:
    """A run past a gate before a, with a task that climbs; or another one."""
    ledger = Ledger()
    at = desk(Answers(strict), store=ledger)
    config = at.config(Wishes(ladder=("told", "told:better")))
    if not how:
        how = {"plan": plan(task("a"), task("b", "a", lane="beta"))}
        config = replace(config, gates=read_rules([{"tasks": ["a"]}], "test"))
    run = await at.runs.submit("please", config, **how)
    while (ended := await at.runs.drive(run)).state == "waiting":
        await Gates(at.recorder, ledger).decide(ended.gates[0], "approve", actor="human:ann")
    assert ended.state == "answered"
    return ledger, run


async def refused(at: Desk, run: str) -> str:
    with pytest.raises(Tampered) as told:
        await at.runs.rerun(run)
    return str(told.value)


CONTRADICTIONS: list[tuple[Change, str]] = [
    (twice("run.requested"), "(run.requested) contradicts the entries before it: that was said before"),
    (twice("run.configured"), "that was said before"),
    (behind("run.configured", "run.claimed"), "the run has no configuration yet"),
    (says("run.configured", "max_calls", 9), "its max_calls is 9, and None in its configuration"),
    (gone("run.claimed"), "nobody has claimed the run yet"),
    (twice("plan.made"), "that was said before"),
    (twice("task.attempted"), "(task.attempted) contradicts the entries before it: that was said before"),
    (gone("task.attempted", task="b", attempt=1), "it names no cause"),
    (says("task.attempted", "attempt", 7, task="b"), "the next attempt at task 'b' is 1"),
    (says("task.attempted", "task", "zz"), "no plan of this run has a task 'zz'"),
    (twice("task.returned"), "(task.returned) contradicts the entries before it: that was said before"),
    (says("task.returned", "task", "b"), "of which it comes, is another attempt"),
    (says("task.returned", "error", "rate_limit"), "it says that all went well, and an error"),
    (says("task.returned", "ok", False), "it says that it failed, and no error"),
    (comes_of("task.returned", "plan.made"), "(plan.made)"),
    (twice("role.answered"), "(role.answered) contradicts the entries before it: that was said before"),
    (says("role.answered", "role", "synthesizer"), "of which it comes, asks another role"),
    (gone("role.asked", task="a"), "it names no cause"),
    (twice("task.judged"), "(task.judged) contradicts the entries before it: that was said before"),
    (says("task.judged", "attempt", 7), "task 'a' has had no attempt 7"),
    (comes_of("task.judged", "role.answered", task="b"), "is about another attempt"),
    (lacks("task.judged", "reasons", ok=False), "it was rejected, and has no reasons"),
    (says("task.escalated", "task", "a"), "is about another task"),
    (twice("gate.opened"), "was opened before"),
    (says("gate.opened", "rule", "another"), "the configuration has no gate 'another'"),
    (says("gate.opened", "needed", 2), "the configuration has another gate 'gate-1'"),
    (says("gate.opened", "on_expiry", "approve"), "the configuration has another gate 'gate-1'"),
    (says("gate.opened", "shown", []), "it shows what this run does not have"),
    (says("gate.opened", "shown", ["00" * 32]), "it shows what this run does not have"),
    (twice("gate.closed"), "that was said before"),
    (gone("gate.opened"), "(gate.decided) contradicts the entries before it: it names no cause"),
    (says("gate.decided", "decision", "edit"), "it edits, and has no edit"),
    (says("gate.decided", "decision", "reject"), "it was approved, and nobody had decided that"),
    (says("gate.closed", "outcome", "edited"), "it was edited, and nobody had decided that"),
    (says("gate.closed", "expired", True), "it has expired, and comes of what people decided"),
    (gone("gate.decided"), "it was approved, and nobody had decided that"),
    (says("gate.decided", "gate", "g-000000000000"), "no gate g-000000000000 was opened"),
    (twice("run.answered"), "that was said before"),
    (twice("run.ended"), "the run has ended, and nobody has asked for a task of it to be done again"),
    (behind("answer.checked", "run.ended"), "the run has ended"),
    (says("run.ended", "reason", "cancelled"), "a run that ended with cancelled is not answered"),
    (says("run.requested", "mode", "request"), "a run whose mode is request brings no plan"),
    (lacks("run.requested", "request"), "(run.requested) contradicts the entries before it: it has no request"),
    (lacks("run.requested", "plan"), "it brings no plan, and its mode says that it does"),
    (says("task.attempted", "provider", "panel:nobody"), "asked panel:nobody, and its configuration has no such panel"),
    *(
        (holds("task.judged", "reasons", body), "the reasons of entry")
        for body in (b"", b"null", b"[]", b"5", b'"x"', b"[5]", b'[{"check":"x"}]', b"[" * 100_000, b"\xff")
    ),
    (
        holds("task.judged", "reasons", b'[{"detail":"","program":{"argv":5,"stdin_sha256":"x"}}]'),
        "is not as this version writes it",
    ),
    (holds("plan.made", "plan", b'{"tasks":5}'), "the plan of entry"),
]


@pytest.mark.parametrize(("change", "words"), CONTRADICTIONS)
async def test_what_nobody_can_have_recorded_is_named_and_not_run_again(change: Change, words: str) -> None:
    ledger, run = await recorded()
    said = await refused(desk(store=forged(ledger, change)), run)
    assert words in said
    assert "hansard " in said


@pytest.mark.parametrize("body", [b"", b"5", b"{}", b'{"evidence":[5],"scores":[]}', b"[" * 100_000])
async def test_what_a_router_never_said_is_named(body: bytes) -> None:
    ledger, run = await recorded(mode="single")
    said = await refused(desk(store=forged(ledger, holds("run.routed", "evidence", body))), run)
    assert "the evidence of entry 4 is not as this version writes it" in said


async def test_a_record_that_is_written_anew_as_it_was_is_the_same() -> None:
    for how in ({}, {"mode": "single"}, {"mode": "request"}):
        ledger, run = await recorded(**how)
        report = await desk(store=forged(ledger, lambda _: None)).runs.rerun(run)
        assert report["identical"] is True, report


async def test_a_task_that_was_skipped_for_something_else_than_it_comes_of_is_named() -> None:
    ledger = Ledger()
    at = desk(Answers(lambda _: POOR), store=ledger)
    ended = await at.run(plan=plan(task("a"), task("b", "a")))
    assert (await at.runs.rerun(ended.run))["identical"] is True
    for because in ("gate", "budget", "cancelled"):
        said = await refused(desk(store=forged(ledger, says("task.skipped", "because", because))), ended.run)
        assert f"and was skipped because of {because}" in said


async def test_a_session_that_nobody_asked_for_is_named() -> None:
    ledger = Ledger()
    lanes = roster(alpha={"provider": "panel:bench"})
    at = desk(Answers(), Voices(), store=ledger, settings={"panels": PANELS})
    ended = await at.run(plan=plan(task("a")), wishes=Wishes(roster=lanes))
    assert (await at.runs.rerun(ended.run))["identical"] is True
    said = await refused(desk(store=forged(ledger, comes_of("session.convened", "run.configured"))), ended.run)
    assert "(session.convened) contradicts the entries before it: entry 2, of which it comes, asks no panel" in said


async def test_what_was_redacted_and_is_not_needed_contradicts_nothing() -> None:
    ledger, run = await recorded()
    at = desk(store=ledger)
    [opened] = at.entries(run, "gate.opened")
    stone = BodyRedacted(seq=opened.seq, part="question", commitment=opened.body["question"], reason="personal_data")
    await at.recorder.record(stone, actor="human:ann", run=run, causes=[opened.seq])
    ledger.erase((opened.seq, "question"))
    report = await at.runs.rerun(run)
    assert report["identical"] is True, report


@pytest.mark.parametrize(("name", "value"), [("lane", "gamma"), ("provider", "told:better"), ("rung", "told:better")])
async def test_whom_an_attempt_asked_is_compared(name: str, value: str) -> None:
    ledger, run = await recorded()
    report = await desk(Answers(), store=forged(ledger, says("task.attempted", name, value))).runs.rerun(run)
    assert report["identical"] is False
    assert report["first_divergence"]["decision"] == "attempt a 1"
