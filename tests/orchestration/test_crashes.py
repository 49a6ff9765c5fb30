"""The engine ends between any two commits of a run: whoever resumes it finishes it, and does nothing twice that stands."""

import asyncio
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.app.driving.gates import Gates
from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.exchange import Exchange
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.ending import Ended
from hansard.orchestration.gates import read_rules
from hansard.orchestration.seams import Source, Verification
from hansard.store.base import Query
from running import (
    FINE,
    POOR,
    Answers,
    Desk,
    Ledger,
    Said,
    audit,
    blocks,
    completion,
    desk,
    fails,
    obliging,
    one,
    plan,
    reasons,
    roster,
    task,
    user_text,
    who,
)

PLAN = plan(
    task("a"),
    task("b", "a"),
    task("c", "a", {"task": "b", "kind": "order"}),
    task("d"),
    task("e", "c", "d", checks=[{"schema": {"type": "object"}}]),
)
COORDINATED = {
    "tasks": [
        {"id": "x", "lane": "alpha", "instruction": "do x", "needs": [], "done_when": ["it is done"]},
        {
            "id": "y",
            "lane": "beta",
            "instruction": "do y",
            "needs": [{"task": "x", "kind": "data"}],
            "done_when": [],
        },
    ]
}


def eventful(exchange: Exchange) -> Said:
    """One task climbs the ladder, one judge needs a correction, one coordinator too, one call fails in passing."""
    role, task, attempt = who(exchange)
    turn = exchange.metadata["turn"]
    match role:
        case "worker" if task == "b" and exchange.metadata["rung"] == "cheap":
            return "BAD"
        case "worker" if task == "d" and attempt == 1:
            return fails("rate_limit")
        case "worker":
            return '{"result": "GOOD"}'
        case "validator" if task == "c" and turn == 1:
            return "I think that it is fine."
        case "validator":
            return POOR if "BAD" in user_text(exchange) else FINE
        case "coordinator":
            return COORDINATED if turn == 2 else {"tasks": []}
        case "classifier":
            return {"lane": "beta", "confidence": 0.7, "reason": "it is so"}
        case _:
            return "the answer"


TIERS = {"tiers": {"cheap": "told", "capable": "told:better"}}
KINDS: list[dict[str, Any]] = [{"plan": PLAN}, {}, {"mode": "single"}, {"lane": "gamma"}, {"mode": "plan_only"}]
CHECKS = Wishes(judge="checks", answer="join")


def opened(store: Ledger | None = None) -> tuple[Desk, Answers, Ledger]:
    provider, kept = Answers(eventful), store or Ledger()
    return desk(provider, store=kept, settings=TIERS), provider, kept


async def whole(how: dict[str, Any], wishes: Wishes | None = None) -> tuple[Ledger, Ended, str | None]:
    made, _, store = opened()
    ended = await made.run("an odd request, zyx", wishes=wishes, **how)
    await made.recorder.close()
    return store, ended, made.answer(ended.run)


def successful(entries: list[Entry]) -> set[str]:
    return {str(each.data["task"]) for each in entries if each.kind == "task.judged" and each.data["ok"]}


async def resumed(store: Ledger, run: str) -> tuple[Desk, Ended, Answers]:
    made, provider, _ = opened(store)
    ended = await made.runs.drive(run)
    await made.recorder.close()
    return made, ended, provider


@pytest.mark.parametrize("how", KINDS, ids=["plan", "coordinated", "single", "lane", "plan only"])
async def test_a_run_that_was_cut_off_anywhere_ends_as_if_it_had_not_been(how: dict[str, Any]) -> None:
    store, expected, answer = await whole(how)
    assert expected.state == "answered"
    routed = len(list(store.select(Query(run=expected.run, kind="run.routed"))))
    for cut in range(1, len(store.commits) + 1):
        copy = store.until(cut)
        before = successful(list(copy.select(Query(run=expected.run))))
        made, ended, provider = await resumed(copy, expected.run)
        assert ended.state == "answered", f"cut after commit {cut}: {ended}"
        assert made.answer(ended.run) == answer
        again = {who(question)[1] for question in provider.asked("worker")}
        assert not again & before, f"cut after commit {cut}: {again & before} passed before"
        audit(copy, ended.run)
        passes = Counter(str(each.data["task"]) for each in made.entries(ended.run, "task.judged") if each.data["ok"])
        assert set(passes.values()) <= {1}
        one(made.entries(ended.run, "run.ended"))
        assert len(made.entries(ended.run, "plan.made")) == 1
        assert len(made.entries(ended.run, "run.routed")) == routed


async def test_a_run_judged_by_checks_alone_survives_every_cut_too() -> None:
    store, expected, answer = await whole({"plan": PLAN}, CHECKS)
    for cut in range(1, len(store.commits) + 1):
        copy = store.until(cut)
        before = successful(list(copy.select(Query(run=expected.run))))
        made, ended, provider = await resumed(copy, expected.run)
        assert (ended.state, made.answer(ended.run)) == (expected.state, answer)
        assert not {who(question)[1] for question in provider.asked("worker")} & before
        audit(copy, ended.run)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=3))
def test_a_run_that_is_cut_off_again_and_again_still_ends_well(cuts: list[int]) -> None:
    async def through() -> None:
        store, expected, answer = await whole({"plan": PLAN})
        for cut in cuts:
            copy = store.until(1 + cut % len(store.commits))
            made, ended, _ = await resumed(copy, expected.run)
            assert ended.state == "answered"
            assert made.answer(ended.run) == answer
            audit(copy, ended.run)
            store = copy

    asyncio.run(through())


def first_commit(store: Ledger, kind: str, *, after: int = 0, said: bytes = b"") -> int:
    """How many commits there are up to and with the first one that holds such an entry."""
    for at, commit in enumerate(store.commits[after:], after + 1):
        if any(kind.encode() in draft.sketch.middle and said in draft.sketch.middle for draft in commit):
            return at
    raise AssertionError(f"no {kind} after commit {after}")


@pytest.mark.parametrize(("kind", "word"), [("task.judged", b'"ok":false'), ("task.escalated", b"")])
async def test_a_rejection_before_the_cut_still_climbs_after_it(kind: str, word: bytes) -> None:
    store, expected, _ = await whole({"plan": PLAN})
    cut = first_commit(store, kind, said=word)
    made, ended, provider = await resumed(store.until(cut), expected.run)
    assert ended.state == "answered"
    assert [question.metadata["rung"] for question in provider.asked("worker", "b")] == ["capable"]
    climbed = one(made.entries(ended.run, "task.escalated"))
    assert any(climbed.seq in each.causes for each in made.entries(ended.run, "task.attempted"))
    whole_run = desk(Answers(), store=store).entries(expected.run, "task.attempted")
    prompts = [
        desk(Answers(), store=held).text(each, "prompt")
        for held, entries in ((store, whole_run), (made.store, made.entries(ended.run, "task.attempted")))
        for each in entries
        if (each.data["task"], each.data["attempt"]) == ("b", 2)
    ]
    assert len(prompts) == 2
    assert prompts[0] == prompts[1]


async def test_a_task_that_is_cancelled_on_its_way_up_is_skipped_and_says_so() -> None:
    store, expected, _ = await whole({"plan": PLAN})
    made, _, _ = opened(store.until(first_commit(store, "task.escalated")))
    assert (await made.runs.cancel(expected.run)) is not None
    assert "b" in [each.data["task"] for each in made.entries(expected.run, "task.skipped")]
    assert {each["state"] for each in made.runs.show(expected.run)["tasks"]} <= {"passed", "skipped"}


async def test_a_run_that_is_cancelled_after_any_cut_leaves_nothing_open_and_says_what_became_of_each_task() -> None:
    def says(exchange: Exchange) -> Said:
        return "BAD" if who(exchange)[:2] == ("worker", "f") else eventful(exchange)

    store, rows = Ledger(), plan(*PLAN["tasks"], task("f"), task("g", "f"))
    run = (await desk(Answers(says), store=store, settings=TIERS).run(plan=rows)).run
    for cut in range(1, len(store.commits)):
        made = desk(Answers(says), store=store.until(cut), settings=TIERS)
        before = made.entries(run)
        await made.runs.cancel(run)
        for asked, answered in (("role.asked", "role.answered"), ("task.attempted", "task.returned")):
            questions = Counter(each.seq for each in made.entries(run, asked))
            assert Counter(each.causes[0] for each in made.entries(run, answered)) == questions, cut
        newest = {str(each.data["task"]): each.kind for each in before if each.kind.startswith("task.")}
        settled = {id for id, kind in newest.items() if kind in ("task.judged", "task.skipped")}
        left = {each["id"] for each in rows["tasks"]} - settled if made.entries(run, "plan.made") else set()
        skipped = [each for each in made.entries(run, "task.skipped") if each.data["because"] == "cancelled"]
        assert sorted(str(each.data["task"]) for each in skipped) == sorted(left), cut
        audit(made.store, run)


async def test_a_retry_that_is_cancelled_at_once_skips_the_task_and_what_was_built_on_it_and_nothing_else() -> None:
    store = Ledger()
    at = desk(Answers(), store=store)
    run = (await at.run(plan=plan(task("a"), task("b", "a"), task("c")), wishes=CHECKS)).run
    await at.runs.retry(run, "a")
    made = desk(Answers(), store=store.until(first_commit(store, "run.retry_asked")))
    await made.runs.cancel(run)
    assert [each.data["task"] for each in made.entries(run, "task.skipped")] == ["a", "b"]


async def test_what_a_long_rejection_says_is_cut_once_whatever_is_cut_off() -> None:
    def strict(exchange: Exchange) -> Said:
        role, _, attempt = who(exchange)
        return {**POOR, "reasons": "no " * 500} if role == "validator" and attempt == 1 else obliging(exchange)

    def opened_again(store: Ledger) -> Desk:
        return desk(Answers(strict), store=store, settings={**TIERS, "run": {"upstream_chars": 100}})

    def told(made: Desk) -> list[str]:
        attempts = made.entries(run, "task.attempted")
        return [made.text(each, "prompt") for each in attempts if each.data["rung"] == "capable"]

    store = Ledger()
    made = opened_again(store)
    run = (await made.run(plan=plan(task("a")))).run
    [expected] = told(made)
    rejected = first_commit(store, "task.judged")
    again = opened_again(store.until(rejected))
    assert (await again.runs.drive(run)).state == "answered"
    assert told(again) == [expected]


async def test_a_task_that_is_built_on_something_new_has_all_its_tries_whatever_is_cut_off() -> None:
    def stubborn(exchange: Exchange) -> Said:
        role, id, _ = who(exchange)
        return POOR if role == "validator" and id == "b" else obliging(exchange)

    def opened_again(store: Ledger) -> Desk:
        return desk(Answers(stubborn), store=store, settings={"run": {"tries": 2}})

    def prompts(made: Desk, run: str) -> list[list[str]]:
        given_up = [each.causes[0] for each in made.entries(run, "task.restarted")]
        attempts = [each for each in made.entries(run, "task.attempted") if each.data["task"] == "b"]
        words = [made.text(each, "prompt") for each in attempts if each.seq not in given_up]
        return [[name.partition("-")[0] for name, _ in blocks(each)] for each in words]

    store = Ledger()
    made = opened_again(store)
    run = (await made.run(plan=plan(task("a"), task("b", "a")))).run
    before = len(store.commits)
    await made.runs.retry(run, "a")
    told = prompts(made, run)
    assert len(told) == 4
    for cut in range(before + 1, len(store.commits)):
        again = opened_again(store.until(cut))
        assert (await again.runs.drive(run)).state == "partial"
        assert prompts(again, run) == told, f"cut after commit {cut}"


async def test_an_attempt_that_ends_the_engine_each_time_fails_in_the_end() -> None:
    made, _, store = opened()
    run = (await made.run(plan=plan(task("a")), wishes=CHECKS)).run
    await made.recorder.close()
    cut = 0
    for _ in range(4):
        cut = first_commit(store, "task.attempted", after=cut)
        store = store.until(cut)
        made, ended, provider = await resumed(store, run)
    assert ended.state == "failed"
    assert provider.calls == []
    assert [each.data["restarts"] for each in made.entries(run, "task.restarted")] == [1, 2, 3]
    verdict = one(made.entries(run, "task.judged"))
    assert (verdict.data["ok"], verdict.data["by"]) == (False, "engine")
    assert "4 times" in made.text(verdict, "reasons")
    assert [each["ok"] for each in reasons(made, verdict)] == [False]
    audit(store, run)


async def test_a_crash_counts_once_however_often_the_budget_keeps_the_attempt_from_being_made_again() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    lanes = roster(alpha={"budget": Budget(max_calls=1)})
    ended = await at.run(plan=plan(task("a")), wishes=Wishes(judge="checks", answer="join", roster=lanes))
    [attempted] = at.entries(ended.run, "task.attempted")
    ledger = ledger.until(next(n for n in range(len(ledger.commits)) if ledger.until(n).head().size > attempted.seq))
    for _ in range(5):
        at = desk(Answers(), store=ledger)
        await at.runs.drive(ended.run)
        [restarted] = at.entries(ended.run, "task.restarted")
        assert restarted.data["restarts"] == 1
        assert not at.entries(ended.run, "task.judged")
        ledger = ledger.until(first_commit(ledger, "task.restarted"))


async def test_a_call_that_failed_for_good_has_all_its_tries_whatever_is_cut_off() -> None:
    def says(exchange: Exchange) -> Said:
        return fails("auth_failure") if who(exchange)[2] == 1 else "fine"

    def at(store: Ledger) -> Desk:
        return desk(Answers(says), store=store, settings={"run": {"tries": 2}})

    store = Ledger()
    run = (await at(store).run(plan=plan(task("a")), wishes=CHECKS)).run
    for cut in range(1, len(store.commits) + 1):
        made = at(store.until(cut))
        assert (await made.runs.drive(run)).state == "answered", cut
        audit(made.store, run)


async def test_a_task_that_its_lane_had_nothing_left_for_is_not_taken_up_again_after_a_cut() -> None:
    lanes = roster(alpha={"budget": Budget(max_tokens=1_500)})
    wishes = Wishes(judge="checks", answer="join", roster=lanes)
    ledger = Ledger()
    at = desk(Answers(lambda _: completion("done", tokens=(1_000, 480))), store=ledger)
    chain = plan(task("a"), task("b", {"task": "a", "kind": "order"}), task("c", "b"), task("d", "b", lane="beta"))
    whole = await at.run(plan=chain, wishes=wishes)
    for cut in range(1, len(ledger.commits)):
        copy = ledger.until(cut)
        resumed = desk(Answers(lambda _: completion("done", tokens=(1_000, 480))), store=copy)
        ended = await resumed.runs.drive(whole.run)
        assert ended.state == "partial", cut
        one(resumed.entries(whole.run, "budget.breached"))
        skipped = [entry.data["task"] for entry in resumed.entries(whole.run, "task.skipped")]
        assert sorted(skipped) == ["b", "c", "d"], cut
        audit(copy, whole.run)


async def test_a_task_that_was_turned_away_at_a_gate_is_turned_away_once_whatever_is_cut_off() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    config = replace(at.config(CHECKS), gates=read_rules([{"tasks": ["b"]}], "test"))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b", "a"), task("c", "b"), task("d")))
    [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "reject", actor="human:ann")
    decided = len(ledger.commits)
    assert (await at.runs.drive(run)).state == "partial"
    for cut in range(decided, len(ledger.commits)):
        copy = ledger.until(cut)
        resumed = desk(Answers(), store=copy)
        assert (await resumed.runs.drive(run)).state == "partial"
        skipped = [(entry.data["task"], entry.data["because"]) for entry in resumed.entries(run, "task.skipped")]
        assert skipped == [("b", "gate"), ("c", "upstream")], cut
        audit(copy, run)


LONG = "It is worth noting that, all things considered, the login is slow because the index is missing. " * 6
SHORT = "The login is slow because the index is missing."
TWO: dict[str, Any] = {"plan": plan(task("a"), task("b", lane="beta"))}


def longwinded(exchange: Exchange) -> Said:
    return LONG if who(exchange)[0] == "synthesizer" else obliging(exchange)


@pytest.mark.parametrize(
    ("role", "how", "reason"),
    [
        ("coordinator", {}, "coordinator_silent"),
        ("classifier", {"mode": "single"}, "classifier_silent"),
        ("validator", {"plan": plan(task("a"))}, "nothing_passed"),
        ("synthesizer", TWO, "synthesizer_silent"),
        ("intent_judge", TWO, "answered"),
        ("reviser", TWO, "answered"),
    ],
)
async def test_a_role_that_ends_the_engine_each_time_it_is_asked_counts_for_silent_in_the_end(
    role: str, how: dict[str, Any], reason: str
) -> None:
    """Whoever comes next would ask it again, for ever, where nobody sits beside who could give it up."""
    store = Ledger()
    wishes = Wishes(judge_intent=True, revise=True)
    run = (await desk(Answers(longwinded), store=store).run("an odd request, zyx", wishes=wishes, **how)).run
    cut = 0
    for _ in range(4):
        cut = first_commit(store, "role.asked", after=cut, said=f'"role":"{role}"'.encode())
        store, provider = store.until(cut), Answers(longwinded)
        at = desk(provider, store=store)
        ended = await at.runs.drive(run)
    assert (ended.reason, provider.asked(role)) == (reason, [])
    [said] = [each for each in at.entries(run, "role.answered") if each.data["role"] == role]
    assert (said.data["ok"], said.data["error"], said.actor) == (False, "restarts", "engine")
    assert "4 times" in at.text(said, "output")
    [last] = at.entries(run, "run.ended")
    assert last.data["calls"] == len(at.entries(run, "role.asked", "task.attempted"))
    audit(store, run)
    for killed in range(cut + 1, len(store.commits)):
        again = desk(provider, store=store.until(killed))
        assert (await again.runs.drive(run)).reason == reason, killed
        answers = [each.data for each in again.entries(run, "role.answered")]
        assert [each["error"] for each in answers if each["role"] == role] == ["restarts"]
        assert provider.asked(role) == []
        audit(again.store, run)


async def test_a_role_that_was_given_up_is_asked_again_by_whoever_wants_a_task_done_again() -> None:
    store = Ledger()
    run = (await desk(Answers(), store=store).run(**TWO)).run
    cut = 0
    for _ in range(4):
        cut = first_commit(store, "role.asked", after=cut, said=b'"role":"synthesizer"')
        store = store.until(cut)
        at = desk(Answers(), store=store)
        ended = await at.runs.drive(run)
    assert ended.reason == "synthesizer_silent"
    assert (await at.runs.retry(run, "a")).state == "answered"
    audit(store, run)


async def test_a_run_with_which_nobody_can_go_on_here_is_told_as_left_once_and_waits_for_whoever_can() -> None:
    """A daemon without its provider comes by at each start; the record would grow, or call it running for good."""
    store = Ledger()
    run = (await desk(Answers(), store=store).run(**TWO)).run
    store = store.until(first_commit(store, "task.attempted"))
    elsewhere = desk(Answers(id="another"), store=store)
    assert elsewhere.runs.listed()[0]["state"] == "running"
    for _ in range(3):
        with pytest.raises(UsageError, match="'told' was handed in by a Python program"):
            await elsewhere.runs.drive(run)
    assert elsewhere.runs.listed()[0]["state"] == "interrupted"
    assert [each.data.get("by") for each in elsewhere.entries(run)][-2:] == [None, "error"]
    assert len(elsewhere.entries(run, "run.claimed")) == 2
    assert (await desk(Answers(), store=store).runs.drive(run)).state == "answered"
    audit(store, run)


async def test_interruptions_in_good_order_never_count_against_a_role() -> None:
    hangs = True

    async def says(exchange: Exchange) -> Said:
        if hangs:
            await asyncio.sleep(60)
        return obliging(exchange)

    provider = Answers(says)
    made = desk(provider)
    run = await made.submit()
    for asked in range(1, 7):
        driving = asyncio.ensure_future(made.runs.drive(run))
        await asyncio.wait_for(provider.asked_times(asked), 60)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
    hangs = False
    assert (await made.runs.resume(run)).state == "answered"


async def test_interruptions_in_good_order_never_count_against_an_attempt() -> None:
    hangs = True

    async def says(exchange: Exchange) -> Said:
        if hangs:
            await asyncio.sleep(60)
        return "done"

    provider = Answers(says)
    made = desk(provider)
    run = await made.submit(plan=plan(task("a")), wishes=CHECKS)
    for asked in range(1, 7):
        driving = asyncio.ensure_future(made.runs.drive(run))
        await asyncio.wait_for(provider.asked_times(asked), 60)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
    hangs = False
    assert (await made.runs.resume(run)).state == "answered"
    assert {each.data["restarts"] for each in made.entries(run, "task.restarted")} == {0}


async def test_a_long_result_that_was_not_judged_yet_is_judged_whole_after_the_cut() -> None:
    long = '{"text": "' + "x" * 30_000 + '"}'

    def says(exchange: Exchange) -> Said:
        return FINE if who(exchange)[0] == "validator" else long

    store = Ledger()
    made = desk(Answers(says), store=store)
    # Many leaves share what the answer's prompt may hold, so later prompts would see only the beginning of each.
    rows = [task(f"t{each}", checks=[{"schema": {"required": ["text"]}}]) for each in range(20)]
    run = (await made.run(plan=plan(*rows), wishes=Wishes(max_parallel=1))).run
    provider = Answers(says)
    copy = store.until(first_commit(store, "task.returned"))
    ended = await desk(provider, store=copy).runs.drive(run)
    assert ended.state == "answered"
    assert provider.asked("worker", "t0") == []
    assert long in user_text(provider.asked("validator", "t0")[0])


async def test_what_was_skipped_before_the_cut_is_not_skipped_again() -> None:
    store = Ledger()
    made = desk(Answers(lambda exchange: "" if who(exchange)[1] == "a" else "fine"), store=store)
    rows = plan(task("a"), task("b", "a"), task("c", "b"), task("d"))
    run = (await made.run(plan=rows, wishes=CHECKS)).run
    for cut in range(first_commit(store, "task.skipped"), len(store.commits)):
        again = desk(Answers(), store=store.until(cut))
        ended = await again.runs.drive(run)
        assert ended.state == "partial"
        assert sorted(str(each.data["task"]) for each in again.entries(run, "task.skipped")) == ["b", "c"]
        audit(again.store, run)


class Notes:
    """A context source, a reviser and a verifier that keep count of what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def context(self, request: str, task: str | None) -> str:
        self.asked.append(("context", task or ""))
        return f"known about {task or request}"

    async def revise(self, request: str, answer: str) -> str | None:
        self.asked.append(("revise", answer))
        return SHORT

    async def verify(self, request: str, answer: str) -> Verification | None:
        self.asked.append(("verify", answer))
        return Verification(outcome="passed")


async def test_seams_are_asked_once_and_what_they_said_survives_every_cut() -> None:
    def says(exchange: Exchange) -> Said:
        return LONG if who(exchange)[0] == "synthesizer" else eventful(exchange)

    def plugged(store: Ledger) -> tuple[Desk, Notes]:
        notes, made = Notes(), desk(Answers(says), store=store, settings=TIERS)
        made.pool.plugged = {
            "sources": (Source(name="notes", source=notes, when="both"),),
            "reviser": notes,
            "verifier": notes,
        }
        return made, notes

    store = Ledger()
    made, notes = plugged(store)
    wishes = Wishes(judge="checks", answer="synthesize", revise=True)
    run = (await made.run("why is the login slow?", plan=PLAN, wishes=wishes)).run
    answer = made.answer(run)
    assert notes.asked.count(("verify", SHORT)) == 1
    for cut in range(1, len(store.commits) + 1):
        copy = store.until(cut)
        said = [each for each in copy.select(Query(run=run)) if each.kind in ("context.given", "answer.revised")]
        known = {("context", str(each.data.get("task") or "")) for each in said if each.kind == "context.given"}
        again, notes = plugged(copy)
        ended = await again.runs.drive(run)
        assert ended.state == "answered"
        assert again.answer(run) == answer
        assert not known & set(notes.asked)
        assert ("verify", LONG) not in notes.asked
        audit(copy, run)
        checks = Counter(str(each.data["check"]) for each in again.entries(run, "answer.checked"))
        assert set(checks.values()) == {1}


@pytest.mark.parametrize(
    ("what", "behind", "kind", "word"),
    [
        ("check", "task.returned", "task.judged", "reasons"),
        ("context", "run.routed", "context.given", "context"),
        ("revise", "answer.checked", "answer.checked", "detail"),
        ("verify", "answer.revised", "answer.checked", "detail"),
    ],
)
async def test_what_nobody_is_asked_for_and_ends_the_engine_each_time_is_given_up_too(
    what: str, behind: str, kind: str, word: str
) -> None:
    """A program of a check, or somebody else's code that runs in the engine: the record says nothing before it is over."""

    seam = {"entry_point": "notes"}

    instead: dict[str, Said] = {"synthesizer": LONG, "coordinator": COORDINATED}

    def says(exchange: Exchange) -> Said:
        return instead.get(who(exchange)[0]) or obliging(exchange)

    def plugged(store: Ledger) -> tuple[Desk, Notes]:
        notes, made = Notes(), desk(Answers(says), store=store)

        async def programs(argv: tuple[str, ...], stdin: bytes, timeout_s: float) -> Any:
            notes.asked.append(("check", ""))
            return SimpleNamespace(exit_code=0, stdout=b"", stderr=b"", truncated=False)

        made.pool.seams["notes"] = notes
        made.pool.plugged = {"programs": programs}
        return made, notes

    store = Ledger()
    made, notes = plugged(store)
    config = made.config(Wishes(judge="checks", answer="synthesize", revise=True))
    source = {"name": "notes", "max_tokens": 100, "when": "request", **seam}
    config = replace(config, context=(source,), verifier=seam, reviser=seam)
    how: dict[str, Any] = {"plan": plan(task("a", checks=[{"command": ["true"]}]))} if what == "check" else {}
    run = await made.runs.submit("why is the login slow?", config, **how)
    await made.runs.drive(run)
    cut, asked = first_commit(store, behind), [each for each, _ in notes.asked].count(what)
    assert asked == 1
    for _ in range(4):
        assert asked == 1
        store = store.until(cut)
        made, notes = plugged(store)
        ended = await made.runs.drive(run)
        cut, asked = first_commit(store, "run.claimed", after=cut), [each for each, _ in notes.asked].count(what)
    assert asked == 0
    assert any("the engine ended 4 times" in made.text(each, word) for each in made.entries(run, kind))
    assert ended.state == ("failed" if what == "check" else "answered")
    # What comes after that is done.
    assert what in ("check", "verify") or "verify" in [each for each, _ in notes.asked]
    audit(store, run)
    assert (await desk(store=store).runs.rerun(run, {}))["identical"] is True


@pytest.mark.parametrize("where", ["budget", "check"])
async def test_what_came_back_is_on_the_record_while_it_waits_for_the_budget_or_for_its_checks(where: str) -> None:
    async def says(exchange: Exchange) -> Said:
        if who(exchange)[0] == "validator":
            await asyncio.sleep(120)
        return "done"

    at = desk(Answers(says))
    checks: dict[str, Any] = {"checks": [{"command": ["sleep", "120"]}]} if where == "check" else {}
    # The third call is the validator's of whoever comes first: the other result waits for what it leaves.
    wishes = Wishes(max_calls=3 if where == "budget" else None)
    run = await at.submit(plan=plan(task("a"), task("b", **checks)), wishes=wishes)
    driving = asyncio.ensure_future(at.runs.drive(run))
    async with asyncio.timeout(30):
        while len(at.entries(run, "task.returned")) < 2:  # noqa: ASYNC110 - it is the record that tells
            await asyncio.sleep(0.01)
    assert all(entry.data["ok"] for entry in at.entries(run, "task.returned"))
    assert len(at.entries(run, "role.asked")) == 1
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
