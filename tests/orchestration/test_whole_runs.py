"""Whole runs over random plans, on a store that commits in its own thread: what the record says is what happened."""

import asyncio
import json
import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.ledger.entry import Entry
from hansard.orchestration.config import Judge, RunConfig
from hansard.orchestration.plan import Plan, parse_plan
from hansard.orchestration.progress import progress_of
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
    desk,
    one,
    plan,
    roster,
    task,
    user_text,
    verdicts_behind,
    who,
)

ROSTER = roster(alpha={"max_parallel": 2}, beta={"max_parallel": 1})


@st.composite
def rows(draw: st.DrawFn, most: int = 9) -> list[dict[str, Any]]:
    made = []
    for at in range(draw(st.integers(1, most))):
        needs = sorted(draw(st.sets(st.integers(0, at - 1), max_size=3))) if at else []
        kinds = draw(st.lists(st.sampled_from(["data", "data", "order"]), min_size=3, max_size=3))
        edges = [{"task": f"t{need}", "kind": kind} for need, kind in zip(needs, kinds, strict=False)]
        lane = draw(st.sampled_from(["alpha", "beta", "gamma"]))
        behaviour = draw(st.sampled_from(["skip", "skip", "skip", "run"]))
        made.append(task(f"t{at}", *edges, lane=lane, on_upstream_failure=behaviour))
    return list(draw(st.permutations(made)))


class Moody:
    """Answers by chance, the same chance each time. Bad work says so, and validators and checks find it."""

    def __init__(self, seed: int, bad: float) -> None:
        self._seed, self._bad = seed, bad

    async def __call__(self, exchange: Exchange) -> Said:
        role, task, _ = who(exchange)
        chance = random.Random(f"{self._seed}|{role}|{task}|{exchange.metadata.get('rung')}")
        # Some answers come in the same turn of the loop, some in later ones.
        for _ in range(chance.choice([0, 0, 1, 2, 5])):
            await asyncio.sleep(0)
        if role == "worker":
            return json.dumps({"work": "BAD" if chance.random() < self._bad else "GOOD", "on": task})
        if role == "validator":
            return POOR if "BAD" in user_text(exchange) else FINE
        return "the answer"


TIERS = {"tiers": {"cheap": "told", "capable": "told:better"}}


async def driven(rows: list[dict[str, Any]], seed: int, bad: float, judge: Judge) -> tuple[Desk, str, Answers]:
    provider = Answers(Moody(seed, bad))
    made = desk(provider, settings=TIERS)
    checks = [{"schema": {"properties": {"work": {"const": "GOOD"}}}}] if judge == "checks" else []
    checked = plan(*({**row, "checks": checks} for row in rows))
    ended = await made.run(plan=checked, wishes=Wishes(roster=ROSTER, judge=judge, answer="join", max_parallel=4))
    await made.recorder.close()
    return made, ended.run, provider


def by_task(entries: list[Entry], kind: str) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.kind == kind:
            found[str(entry.data["task"])].append(entry)
    return found


def check_the_record(made: Desk, run: str, the_plan: Plan, provider: Answers) -> None:
    """What a full record has to say, whatever happened."""
    entries = made.entries(run)
    attempted, judged, skipped = (by_task(entries, f"task.{each}") for each in ("attempted", "judged", "skipped"))
    passed = {id: each[-1].seq for id, each in judged.items() if each[-1].data["ok"]}
    for each in the_plan.tasks:
        assert (each.id in attempted) != (each.id in skipped)
        for attempt in attempted.get(each.id, []):
            inputs = {passed[need.task] for need in each.needs if need.task in passed}
            assert verdicts_behind(made.store, attempt.causes) == inputs
            assert all(seq < attempt.seq for seq in inputs)
            if not inputs:
                assert any(made.store.entry(seq).kind == "plan.made" for seq in attempt.causes)
            if each.on_upstream_failure == "skip":
                assert len(inputs) == len(each.needs)
            for need in each.needs:
                settled = [*judged.get(need.task, []), *skipped.get(need.task, [])]
                assert settled[-1].seq < attempt.seq
        for skip in skipped.get(each.id, []):
            upstream = skip.data["upstream"]
            assert any(need.task == upstream for need in each.needs)
            assert upstream in skipped or not judged[upstream][-1].data["ok"]
            assert one([made.store.entry(seq) for seq in skip.causes]).data["task"] == upstream
    for climbed in (entry for entry in entries if entry.kind == "task.escalated"):
        verdict = one([made.store.entry(seq) for seq in climbed.causes])
        assert (verdict.data["task"], verdict.data["ok"]) == (climbed.data["task"], False)
    for question in provider.asked("worker"):
        check_the_prompt(question, the_plan, passed)
    calls = Counter(who(question)[0] for question in provider.calls)
    assert calls["worker"] == sum(len(each) for each in attempted.values())
    ended = one([entry for entry in entries if entry.kind == "run.ended"])
    assert ended.data["calls"] == len(provider.calls)
    check_the_answer(made, run, the_plan, passed, ended)


def check_the_prompt(question: Exchange, the_plan: Plan, passed: dict[str, int]) -> None:
    """Nobody builds on rejected work, and everybody sees each result that it needs."""
    _, id, _ = who(question)
    needs = the_plan.task(id).needs
    seen = dict(blocks(user_text(question)))
    given = {name.removeprefix("result-") for name in seen if name.startswith("result-")}
    assert given == {need.task for need in needs if need.kind == "data" and need.task in passed}
    assert not any("BAD" in text for name, text in seen.items() if name.startswith("result-"))
    missing = {need.task for need in needs if need.task not in passed}
    assert {line.removeprefix("- ") for line in seen.get("missing", "").splitlines()} == missing


def check_the_answer(made: Desk, run: str, the_plan: Plan, passed: dict[str, int], ended: Entry) -> None:
    answers = made.entries(run, "run.answered")
    if not passed:
        assert ended.data["state"] == "failed"
        assert answers == []
        return
    answer = one(answers)
    used = {need.task for id in passed for need in the_plan.task(id).needs if need.kind == "data"}
    leaves = {passed[id] for id in passed if id not in used}
    assert verdicts_behind(made.store, answer.causes) == leaves
    missing = {each.id for each in the_plan.tasks} - set(passed)
    assert set(answer.data.get("missing", [])) == missing
    assert ended.data["state"] == ("partial" if missing else "answered")
    assert list(ended.causes) == [answer.seq]


@settings(max_examples=40)
@given(rows(), st.integers(0, 10**6), st.sampled_from([0.0, 0.5]), st.sampled_from(["model", "checks"]))
def test_causes_prompts_limits_and_endings_are_true_in_every_run(
    made_rows: list[dict[str, Any]], seed: int, bad: float, judge: Judge
) -> None:
    made, run, provider = asyncio.run(driven(made_rows, seed, bad, judge))
    config = RunConfig.from_json(
        made.text(made.entries(run, "run.configured")[0], "config").encode(), "the configuration"
    )
    the_plan = parse_plan(plan(*made_rows), ROSTER, config.policy, commands=True)
    audit(made.store, run)
    check_the_record(made, run, the_plan, provider)
    assert provider.peak["worker"] <= 4
    assert provider.peak["lane:alpha"] <= 2
    assert provider.peak["lane:beta"] <= 1


@settings(max_examples=20)
@given(rows(), st.integers(0, 10**6))
def test_the_fold_of_a_finished_run_says_what_the_run_itself_says(made_rows: list[dict[str, Any]], seed: int) -> None:
    made, run, _ = asyncio.run(driven(made_rows, seed, 0.5, "model"))
    progress = progress_of(run, made.entries(run))
    ended = one(made.entries(run, "run.ended"))
    assert (progress.spent.calls, progress.spent.tokens) == (ended.data["calls"], ended.data["tokens"])
    assert progress.ended == ended
    assert progress.attempting == []
    assert progress.questions.asking == {}
    the_plan = parse_plan(plan(*made_rows), ROSTER, made.config().policy, commands=True)
    judged = by_task(made.entries(run), "task.judged")
    assert {id: each.judged for id, each in progress.passing(the_plan).items()} == {
        id: each[-1].seq for id, each in judged.items() if each[-1].data["ok"]
    }


@settings(max_examples=40)
@given(rows(), st.integers(0, 10**6), st.sampled_from(["model", "checks"]), st.integers(0, 10**6))
def test_a_run_of_any_plan_that_is_cut_off_anywhere_ends_as_if_it_had_not_been(
    made_rows: list[dict[str, Any]], seed: int, judge: Judge, cut: int
) -> None:
    async def through() -> None:
        made, run, _ = await driven(made_rows, seed, 0.5, judge)
        assert isinstance(made.store, Ledger)
        copy = made.store.until(1 + cut % len(made.store.commits))
        stood = {
            id for id, each in by_task(list(copy.select(Query(run=run))), "task.judged").items() if each[-1].data["ok"]
        }
        provider = Answers(Moody(seed, 0.5))
        again = desk(provider, store=copy, settings=TIERS)
        await again.runs.drive(run)
        await again.recorder.close()
        audit(copy, run)
        assert not {who(each)[1] for each in provider.asked("worker")} & stood
        shown, expected = again.runs.show(run), made.runs.show(run)
        assert (shown["state"], shown["answer"], shown["missing"]) == (
            expected["state"],
            expected["answer"],
            expected["missing"],
        )

    asyncio.run(through())


async def test_results_that_pass_in_the_same_moment_all_reach_what_is_built_on_them() -> None:
    """Verdicts of the checks alone are recorded with the attempt that they set free: others must not be forgotten."""
    provider = Answers()
    made = desk(provider)
    fan = [task(f"t{each}") for each in range(30)]
    last = task("last", *(f"t{each}" for each in range(30)))
    ended = await made.run(plan=plan(*fan, last), wishes=Wishes(judge="checks", answer="join", max_parallel=40))
    assert ended.state == "answered"
    names = [name for name, _ in blocks(user_text(one_call(provider, "last")))]
    assert [name for name in names if name.startswith("result-")] == [f"result-t{each}" for each in range(30)]
    assert "missing" not in names
    attempt = one([each for each in made.entries(ended.run, "task.attempted") if each.data["task"] == "last"])
    assert len(verdicts_behind(made.store, attempt.causes)) == 30


@pytest.mark.untraced
async def test_more_inputs_than_an_entry_may_name_stand_behind_entries_that_join_them() -> None:
    made = desk(Answers())
    fan = [task(f"t{each}") for each in range(1_200)]
    last = task("last", *({"task": f"t{each}", "kind": "order"} for each in range(1_200)))
    ended = await made.run(plan=plan(*fan, last), wishes=Wishes(judge="checks", answer="join", max_parallel=100))
    assert ended.state == "answered"
    attempt = one([each for each in made.entries(ended.run, "task.attempted") if each.data["task"] == "last"])
    assert len(verdicts_behind(made.store, attempt.causes)) == 1_200
    assert {made.store.entry(seq).kind for seq in attempt.causes} == {"results.joined"}
    audit(made.store, ended.run)
    passing = progress_of(ended.run, made.entries(ended.run)).passing(
        parse_plan(plan(*fan, last), roster(), made.config().policy, commands=True)
    )
    assert "last" in passing


def one_call(provider: Answers, id: str) -> Exchange:
    [question] = provider.asked("worker", id)
    return question


@pytest.mark.parametrize("leaves", [1, 3, 20])
async def test_a_long_result_is_said_to_go_on_for_as_long_as_it_does(leaves: int) -> None:
    long = 150_000

    def says(exchange: Exchange) -> Said:
        return "x" * long if who(exchange)[0] == "worker" else "the answer"

    provider = Answers(says)
    made = desk(provider)
    rows = [task("a"), *(task(f"leaf-{number}", "a") for number in range(leaves))]
    ended = await made.run(plan=plan(*rows), wishes=Wishes(judge="checks"))
    assert ended.state == "answered"
    [synthesis] = provider.asked("synthesizer")
    for question in (one_call(provider, "leaf-0"), synthesis):
        shown = [text for name, text in blocks(user_text(question)) if name.startswith("result-")]
        for text in shown:
            kept, _, said = text.partition("\n")
            assert said == f"[cut here: {long - len(kept):,} more characters stand in the record]"
