"""What context sources, revisers and verifiers said is said again, and they are not asked."""

from dataclasses import replace

from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.orchestration.seams import Verification
from rerunning import Library, comes_out_the_same, comes_out_the_same_wherever_it_ends
from running import (
    FINE,
    Answers,
    Desk,
    Ledger,
    desk,
    plan,
    roster,
    task,
    who,
)


async def test_what_seams_said_is_said_again_and_they_are_not_asked() -> None:
    library = Library()
    at = desk(Answers())
    at.pool.seams["library"] = library
    context = {"name": "library", "entry_point": "library", "max_tokens": 100, "when": "both"}
    config = replace(at.config(), context=(context,), verifier={"entry_point": "library"})
    run = await at.runs.submit("please", config)
    assert (await at.runs.drive(run)).state == "answered"
    asked = library.asked
    assert asked == 3
    await comes_out_the_same(at, run)
    assert library.asked == asked
    elsewhere = desk(store=at.store)
    await comes_out_the_same(elsewhere, run)


class Clumsy:
    """A reviser that breaks, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def revise(self, request: str, answer: str) -> str | None:
        self.asked += 1
        raise RuntimeError("it broke")


async def test_a_reviser_that_broke_breaks_again_and_whoever_goes_on_does_not_ask_it_once_more() -> None:
    long = "It is worth noting that, all things considered, the login is slow because the index is missing. " * 6

    def opened(store: Ledger) -> tuple[Desk, Clumsy]:
        clumsy, at = Clumsy(), desk(Answers(lambda each: long if who(each)[0] == "worker" else FINE), store=store)
        at.pool.seams["clumsy"] = clumsy
        return at, clumsy

    ledger = Ledger()
    at, _ = opened(ledger)
    config = replace(at.config(Wishes(revise=True)), reviser={"entry_point": "clumsy"})
    run = await at.runs.submit("why is the login slow?", config, plan=plan(task("a")))
    assert (await at.runs.drive(run)).state == "answered"
    await comes_out_the_same(at, run)
    [crashed] = [each.seq for each in at.entries(run, "answer.checked") if each.data["outcome"] == "crashed"]
    cut = next(commits for commits in range(len(ledger.commits)) if ledger.until(commits).head().size > crashed)
    later, clumsy = opened(ledger.until(cut))
    assert (await later.runs.drive(run)).state == "answered"
    assert clumsy.asked == 0
    await comes_out_the_same(later, run)


async def test_what_a_source_knows_of_a_task_that_the_budget_ended_before_decides_nothing() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    at.pool.seams["library"] = Library()
    wishes = Wishes(max_calls=1, max_parallel=1)
    source = {"name": "library", "entry_point": "library", "max_tokens": 100, "when": "task"}
    run = await at.runs.submit(
        "please", replace(at.config(wishes), context=(source,)), plan=plan(task("a"), task("b", lane="beta"))
    )
    assert (await at.runs.drive(run)).state == "stopped"
    assert [entry.data["task"] for entry in at.entries(run, "context.given")] == ["a"]
    await comes_out_the_same_wherever_it_ends(ledger, run)
    await at.runs.retry(run, "b")
    await comes_out_the_same(at, run)


async def test_what_a_source_knows_of_a_task_whose_attempt_a_crash_cut_short_for_good_decides_nothing() -> None:
    lanes = roster(alpha={"budget": Budget(max_calls=1)})
    wishes = Wishes(judge="checks", answer="join", roster=lanes)
    source = {"name": "library", "entry_point": "library", "max_tokens": 100, "when": "task"}
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    at.pool.seams["library"] = Library()
    run = await at.runs.submit("please", replace(at.config(wishes), context=(source,)), plan=plan(task("a"), task("b")))
    await at.runs.drive(run)
    attempted = at.entries(run, "task.attempted")[0].seq
    cut = next(commits for commits in range(len(ledger.commits)) if ledger.until(commits).head().size > attempted)
    later = desk(Answers(), store=ledger.until(cut))
    later.pool.seams["library"] = Library()
    assert (await later.runs.drive(run)).state == "failed"
    await comes_out_the_same(later, run)


class Moody(Library):
    """A verifier that says something else each time."""

    async def verify(self, request: str, answer: str) -> Verification | None:
        self.asked += 1
        return Verification(outcome="refused" if self.asked == 1 else "passed", detail=f"look {self.asked}")


async def test_a_verifier_says_of_each_answer_what_it_said_then() -> None:
    at = desk(Answers())
    at.pool.seams["library"] = Moody()
    run = await at.runs.submit(
        "please", replace(at.config(), verifier={"entry_point": "library"}), plan=plan(task("a"), task("b"))
    )
    await at.runs.drive(run)
    await at.runs.retry(run, "b")
    outcomes = [e.data["outcome"] for e in at.entries(run, "answer.checked") if e.data["check"] == "verifier"]
    assert outcomes == ["refused", "passed"]
    await comes_out_the_same(at, run)
