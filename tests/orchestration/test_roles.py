"""Coordinator, classifier, validator, synthesizer: what they may say, and what becomes of it when they say something else."""

from pathlib import Path
from typing import Any

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.domain.roster import Policy
from running import FINE, Answers, Said, audit, blocks, desk, fails, obliging, one, plan, roster, task, user_text, who

TWO = plan(task("a"), task("b"))


def row(id: str, *needs: str, lane: str = "alpha") -> dict[str, Any]:
    edges = [{"task": need, "kind": "data"} for need in needs]
    return {"id": id, "lane": lane, "instruction": f"do {id}", "needs": edges, "done_when": []}


def saying(role: str, *turns: Said) -> Answers:
    """Everybody obliges, but one role says these things turn by turn, and the last of them for ever."""
    said = list(turns)

    def says(exchange: Exchange) -> Said:
        if who(exchange)[0] == role:
            return said.pop(0) if len(said) > 1 else said[0]
        found = obliging(exchange)
        assert isinstance(found, str | dict)
        return found

    return Answers(says)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"tasks": [row("a", "c"), row("b", "a"), row("c", "b")]}, "a needs c needs b needs a"),
        ({"tasks": [row("a"), row("a")]}, "'a' stands in the plan twice"),
        ({"tasks": [row("a", "z")]}, "'z', which is not in the plan"),
        ({"tasks": [row("a", "a")]}, "needs itself"),
        ({"tasks": []}, "tasks"),
        ({"tasks": None}, "tasks"),
        ({"tasks": ["a", "b"]}, "tasks"),
        ({"tasks": [{"lane": "alpha"}]}, "id"),
        ({"tasks": [row(f"t{each}") for each in range(51)]}, "50"),
        ({"tasks": [row("a", lane="nowhere")]}, "nowhere"),
        ({"tasks": [row("a", lane="gamma")]}, "gamma"),
        ({"tasks": [{**row("a"), "checks": [{"command": ["rm", "-r", "/"]}]}]}, "checks"),
        ("Here is my plan {this}: first a, then b.", "JSON"),
        ("", "JSON"),
    ],
)
async def test_a_coordinator_is_told_what_is_wrong_with_its_plan_and_corrected(wrong: Said, fault: str) -> None:
    provider = saying("coordinator", wrong, {"tasks": [row("x"), row("y", "x")]})
    made = desk(provider)
    ended = await made.run(wishes=Wishes(policy=Policy(deny_lanes=("gamma",))))
    assert ended.state == "answered"
    first, second = provider.asked("coordinator")
    assert len(first.messages) == 2
    assert fault in second.messages[-1].content
    answers = [each for each in made.entries(ended.run, "role.answered") if each.data["role"] == "coordinator"]
    assert [(each.data["ok"], each.data.get("error")) for each in answers] == [
        (False, "malformed_response"),
        (True, None),
    ]
    made_plan = one(made.entries(ended.run, "plan.made"))
    assert (made_plan.data["by"], made_plan.data["tasks"]) == ("coordinator", 2)
    assert answers[1].seq in made_plan.causes
    audit(made.store, ended.run)


async def test_a_coordinator_that_never_makes_sense_ends_the_run_as_failed() -> None:
    provider = saying("coordinator", {"tasks": []})
    made = desk(provider)
    ended = await made.run()
    assert ended.state == "failed"
    assert len(provider.asked("coordinator")) == 3
    assert made.entries(ended.run, "plan.made", "task.attempted") == []
    assert one(made.entries(ended.run, "run.ended")).causes == (made.entries(ended.run, "role.answered")[-1].seq,)


async def test_lanes_that_policy_forbids_are_not_offered() -> None:
    provider = Answers()
    await desk(provider).run(wishes=Wishes(policy=Policy(deny_lanes=("gamma",))))
    [question] = provider.asked("coordinator")
    offered = dict(blocks(user_text(question)))["lanes"]
    assert "alpha" in offered
    assert "gamma" not in offered


async def test_a_worker_is_told_the_instructions_and_the_permissions_of_its_lane() -> None:
    provider = Answers()
    lanes = roster(alpha={"instructions": "Be brief.", "permissions": ("read the logs", "search")})
    await desk(provider).run(wishes=Wishes(roster=lanes), plan=plan(task("a"), task("b", lane="beta")))
    told = {who(each)[1]: each.messages[0].content for each in provider.asked("worker")}
    assert told["a"].endswith("\nBe brief.\nWhat you may do: read the logs; search. Do nothing beyond that.")
    assert told["b"].endswith("Work of lane beta.")


@pytest.mark.parametrize(
    "verdict",
    [
        "It looks fine to me.",
        '{"ok": true, "score": 1, "reasons": ""} {"ok": false, "score": 0, "reasons": ""}',
        {"ok": True, "score": "high", "reasons": ""},
        {"ok": True, "score": None, "reasons": ""},
        {"ok": "nope", "score": 1, "reasons": ""},
        {"ok": "true", "score": 1, "reasons": ""},
        {"ok": 1, "score": 1, "reasons": ""},
        {"ok": True, "score": 1.5, "reasons": ""},
        {"ok": True, "score": -0.1, "reasons": ""},
        {"ok": True, "score": 1},
        {"ok": True, "score": 1, "reasons": "", "override": True},
        {"verdict": {"ok": True, "score": 1, "reasons": ""}},
        "",
        "null",
        "[]",
    ],
)
async def test_a_validator_that_never_gives_a_verdict_fails_its_task_and_nobody_builds_on_it(verdict: Said) -> None:
    provider = saying("validator", verdict)
    made = desk(provider)
    ended = await made.run(plan=plan(task("a"), task("b", "a")))
    assert ended.state == "failed"
    assert made.answer(ended.run) is None
    assert len(provider.asked("validator", "a")) == 3
    assert provider.asked("worker", "b") == []
    judged = one(made.entries(ended.run, "task.judged"))
    assert (judged.data["ok"], judged.data["by"]) == (False, "engine")
    assert one(made.entries(ended.run, "task.skipped")).data["upstream"] == "a"
    audit(made.store, ended.run)


async def test_a_validator_that_is_silent_does_not_send_the_work_up_the_ladder() -> None:
    silent = saying("validator", fails("auth_failure"))
    made = desk(silent, settings={"tiers": {"cheap": "told", "capable": "told:more"}})
    ended = await made.run(plan=plan(task("a")))
    assert ended.state == "failed"
    assert made.entries(ended.run, "task.escalated") == []
    again = await made.runs.retry(ended.run, "a")
    assert again.state == "failed"


async def test_a_validator_that_is_corrected_judges_all_the_same() -> None:
    provider = saying("validator", "fine, I suppose", FINE)
    made = desk(provider)
    ended = await made.run(plan=plan(task("a")))
    assert ended.state == "answered"
    judged = one(made.entries(ended.run, "task.judged"))
    assert (judged.data["by"], judged.data["score_ppm"]) == ("model", 900_000)
    assert [each.data["turn"] for each in made.entries(ended.run, "role.asked")] == [1, 2]


@pytest.mark.parametrize("said", ["", " \n ", fails("rate_limit"), fails("content_filter", "rate limited, try later")])
async def test_a_synthesizer_that_fails_leaves_the_run_failed_and_never_an_error_text_as_its_answer(said: Said) -> None:
    provider = saying("synthesizer", said)
    made = desk(provider)
    ended = await made.run(plan=TWO)
    assert ended.state == "failed"
    assert made.entries(ended.run, "run.answered") == []
    assert made.runs.show(ended.run)["answer"] is None
    assert len(made.entries(ended.run, "task.judged")) == 2


async def test_a_classifier_that_fits_no_lane_ends_the_run_and_says_what_to_do() -> None:
    provider = saying("classifier", {"lane": None, "confidence": 0.9, "reason": "it is about cats"})
    made = desk(provider)
    ended = await made.run("zyx wvu tsr", mode="single")
    assert ended.state == "failed"
    assert provider.asked("worker") == []


async def test_a_classifier_may_not_name_a_lane_that_does_not_exist() -> None:
    provider = saying("classifier", {"lane": "root", "confidence": 1, "reason": "because"})
    made = desk(provider)
    ended = await made.run("zyx wvu tsr", mode="single")
    assert ended.state == "failed"
    assert len(provider.asked("classifier")) == 3


async def test_every_question_is_bounded_as_the_run_says() -> None:
    provider = Answers()
    made = desk(provider, settings={"run": {"timeout_s": 77, "max_output_tokens": 4_000}})
    await made.run(plan=plan(task("a"), task("b")))
    assert {who(each)[0] for each in provider.calls} == {"worker", "validator", "synthesizer"}
    assert {(each.limits.timeout_s, each.limits.max_output_tokens) for each in provider.calls} == {(77, 4_000)}


async def test_a_judge_of_the_same_model_as_the_worker_is_recorded_as_such() -> None:
    worker, judge = Answers(id="worker", model="m1"), Answers(id="judge", model="m2")
    for roles, same in (({}, True), ({"validator": "judge"}, False)):
        made = desk(worker, judge, settings={"roles": {"default": "worker", **roles}})
        ended = await made.run(plan=plan(task("a")))
        assert one(made.entries(ended.run, "task.judged")).data["same_model"] is same


@pytest.mark.parametrize(
    ("worker", "judge", "same"),
    [
        ({"argv": ["A"]}, {"argv": ["A"], "timeout_s": 9}, True),
        ({"argv": ["A", "--model", "x"]}, {"argv": ["A", "--model", "y"]}, False),
        ({"argv": ["A"], "set_env": {"MODEL": "x"}}, {"argv": ["A"], "set_env": {"MODEL": "y"}}, False),
        ({"argv": ["A"], "model": "x"}, {"argv": ["A"], "model": "y"}, False),
        ({"argv": ["A"], "model": "x"}, {"argv": ["A", "again"], "model": "x"}, True),
        ({"argv": ["A"]}, {"argv": ["B"], "model": "A"}, False),
    ],
)
async def test_programs_are_one_model_where_the_same_is_asked(
    tmp_path: Path, worker: dict[str, Any], judge: dict[str, Any], same: bool
) -> None:
    """Programs of one name, as `python3`, say nothing of the model behind them."""

    def table(how: dict[str, Any]) -> dict[str, Any]:
        program, *words = how["argv"]
        return {**how, "kind": "command", "argv": [str(tmp_path / program), *words]}

    for name in "AB":
        (tmp_path / name).write_text('#!/bin/sh\ncat >/dev/null\necho \'{"ok": true, "score": 1, "reasons": ""}\'\n')
        (tmp_path / name).chmod(0o755)
    roles = {"default": "worker", "validator": "judge"}
    made = desk(settings={"providers": {"worker": table(worker), "judge": table(judge)}, "roles": roles})
    ended = await made.run(plan=plan(task("a")))
    assert one(made.entries(ended.run, "task.judged")).data["same_model"] is same
    await made.pool.close()


async def test_every_call_of_every_role_is_on_the_record_with_its_exact_prompt_and_template() -> None:
    from hansard.orchestration.templates import TEMPLATES
    from hansard.providers.prompt import prompt_of

    provider = saying("coordinator", {"tasks": [row("x"), row("y")]})
    made = desk(provider)
    ended = await made.run()
    asked = made.entries(ended.run, "task.attempted", "role.asked")
    assert sorted(made.text(each, "prompt") for each in asked) == sorted(prompt_of(each) for each in provider.calls)
    known = {template.id for template in TEMPLATES.values()}
    assert {each.data["template"] for each in asked} <= known
    assert len({each.data["template"] for each in asked}) == 4


async def test_an_empty_plan_of_a_user_is_refused_before_anything_is_recorded() -> None:
    from hansard.errors import UsageError

    made = desk(Answers())
    nothing: list[dict[str, Any]] = [{"tasks": []}, {}]
    for empty in nothing:
        with pytest.raises(UsageError):
            await made.submit(plan=empty)
    assert made.store.head().size == 1
