"""The fold over a run's entries: what stands, what was spent, what is still open."""

from hansard.app.setup.wishes import Wishes
from hansard.domain.roster import Policy
from hansard.orchestration.plan import parse_plan
from hansard.orchestration.progress import progress_of
from running import Answers, Desk, Ledger, completion, desk, one, plan, roster, task, who

ROWS = plan(task("a"), task("b", "a"), task("c", "b"))
PLAN = parse_plan(ROWS, roster(), Policy(), commands=True)


async def test_a_result_stands_only_while_what_it_was_built_on_stands() -> None:
    made = desk(Answers())
    run = (await made.run(plan=ROWS)).run
    before = progress_of(run, made.entries(run))
    assert set(before.passing(PLAN)) == {"a", "b", "c"}
    await made.runs.retry(run, "a")
    entries = made.entries(run)
    asked = next(at for at, each in enumerate(entries) if each.kind == "run.retry_asked")
    assert progress_of(run, entries[: asked + 1]).passing(PLAN) == {}
    redone = next(
        at for at, each in enumerate(entries) if at > asked and each.kind == "task.judged" and each.data["task"] == "a"
    )
    # The old results of b and c passed, and are built on a verdict that no longer counts.
    assert set(progress_of(run, entries[: redone + 1]).passing(PLAN)) == {"a"}
    assert set(progress_of(run, entries).passing(PLAN)) == {"a", "b", "c"}


async def test_what_was_spent_is_the_sum_of_every_answer_by_run_and_by_lane() -> None:
    rows = plan(task("a"), task("b", "a", lane="beta"))
    made = desk(Answers(lambda _: completion("x", tokens=(7, 5), cost_usd_nano=11)))
    run = (await made.run(plan=rows, wishes=None, mode="request")).run
    progress = progress_of(run, made.entries(run))
    answers = made.entries(run, "task.returned", "role.answered")
    assert progress.spent.calls == len(answers)
    assert progress.spent.tokens == 12 * len(answers)
    assert progress.spent.cost_usd_nano == 11 * len(answers)
    assert sum(each.calls for each in progress.spending.lanes.values()) <= len(answers)
    assert progress.spending.lanes["alpha"].calls > 0


async def test_a_call_without_a_price_leaves_a_sum_without_one_whatever_is_cut_off() -> None:
    def at(store: Ledger) -> Desk:
        return desk(Answers(lambda _: completion("x", tokens=(7, 5)), unmetered=False), store=store)

    store = Ledger()
    run = (await at(store).run(plan=ROWS, wishes=Wishes(judge="checks", answer="join"))).run
    for cut in range(1, len(store.commits) + 1):
        made = at(store.until(cut))
        await made.runs.drive(run)
        assert one(made.entries(run, "run.ended")).data["priced"] is False, cut


async def test_questions_and_attempts_without_an_answer_are_open() -> None:
    store = Ledger()
    made = desk(Answers(), store=store)
    run = (await made.run(plan=ROWS)).run
    for cut in range(1, len(store.commits) + 1):
        copy = store.until(cut)
        entries = desk(Answers(), store=copy).entries(run)
        progress = progress_of(run, entries)
        kinds = [each.kind for each in entries]
        assert len(progress.questions.asking) == kinds.count("role.asked") - kinds.count("role.answered")
        assert len(progress.attempting) == kinds.count("task.attempted") - kinds.count("task.returned")
        assert progress.seen == entries[-1].seq


async def test_time_counts_only_while_somebody_drives() -> None:
    made = desk(Answers())
    run = await made.submit(plan=ROWS)
    entries = made.entries(run)
    assert progress_of(run, entries).spent.elapsed_us == 0
    await made.runs.drive(run)
    entries = made.entries(run)
    claimed = next(each for each in entries if each.kind == "run.claimed")
    assert progress_of(run, entries).spent.elapsed_us == entries[-1].ts - claimed.ts


async def test_a_retry_starts_at_the_foot_of_the_ladder_with_the_next_number() -> None:
    better = Answers(id="capable")
    worse = Answers(lambda exchange: "" if who(exchange)[0] == "worker" else "fine", id="cheap")
    made = desk(worse, better, settings={"tiers": {"cheap": "cheap", "capable": "capable"}})
    run = (await made.run(plan=plan(task("a")))).run
    await made.runs.retry(run, "a")
    told = [(each.data["attempt"], each.data["rung"]) for each in made.entries(run, "task.attempted")]
    assert told == [(1, "cheap"), (2, "capable"), (3, "cheap"), (4, "capable")]
