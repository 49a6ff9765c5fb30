"""Whoever is swapped in is asked live, and the first decision that comes out otherwise is told."""

from dataclasses import replace

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.errors import UsageError
from hansard.orchestration.gates import read_rules
from panels import agreeing
from rerunning import DIAMOND, IN_PANEL, again, before_a_panel, with_provider
from running import (
    POOR,
    Answers,
    Said,
    Says,
    desk,
    obliging,
    plan,
    task,
    who,
)


async def test_a_panel_cannot_be_swapped_in_and_can_be_swapped_out() -> None:
    at = before_a_panel(agreeing)
    ended = await at.run(plan=plan(task("a")), wishes=IN_PANEL)
    with pytest.raises(UsageError, match="panel:bench is a panel, and a re-run holds no sessions"):
        await again(at, ended.run, validator="panel:bench")
    at.pool.given["other"] = Answers(lambda _: "Ten a minute.", id="other")
    report = await again(replace(at, settings=with_provider(at, "other")), ended.run, worker="other")
    assert "validator, task a" in report["miss"]


async def test_a_changed_validator_is_the_first_divergence() -> None:
    at = desk(Answers())
    ended = await at.run(plan=DIAMOND)
    strict = Answers(lambda _: POOR, id="strict")
    at.pool.given["strict"] = strict
    report = await again(replace(at, settings=with_provider(at, "strict")), ended.run, validator="strict")
    assert report["identical"] is False
    assert report["first_divergence"]["decision"] == "verdict a 1"
    assert report["first_divergence"]["recorded"].startswith("passed")
    assert report["first_divergence"]["now"].startswith("rejected")
    assert {who(each)[0] for each in strict.calls} == {"validator"}


@pytest.mark.parametrize("says", [lambda _: POOR, lambda _: "well, yes"], ids=["strict", "without form"])
async def test_a_changed_validator_is_heard_to_its_end_also_where_the_run_waits(says: Says) -> None:
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b"]}], "test")
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=plan(task("a"), task("b", "a")))
    assert (await at.runs.drive(run)).state == "waiting"
    at.pool.given["other"] = Answers(says, id="other")
    report = await again(replace(at, settings=with_provider(at, "other")), run, validator="other")
    assert report["first_divergence"]["decision"] == "verdict a 1"
    assert report["first_divergence"]["now"].startswith("rejected")


async def test_a_changed_worker_ends_at_the_first_prompt_that_the_record_cannot_answer() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a"), task("b", "a")))
    at.pool.given["other"] = Answers(lambda _: "something new", id="other")
    report = await again(replace(at, settings=with_provider(at, "other")), ended.run, worker="other")
    assert report["identical"] is False
    assert "validator, task a" in report["miss"]


async def test_a_changed_reviser_whose_text_is_taken_is_a_divergence() -> None:
    wordy = "The result of a is that it is done, and that it is really very well done indeed, as anybody can see. " * 30

    def says(revised: str) -> Says:
        roles: dict[str, Said] = {"worker": wordy, "reviser": revised}
        return lambda exchange: roles.get(who(exchange)[0]) or obliging(exchange)

    at = desk(Answers(says("The result of a is that it is done.")))
    ended = await at.run("please", plan=plan(task("a")), wishes=Wishes(revise=True))
    assert [entry.data["accepted"] for entry in at.entries(ended.run, "answer.revised")] == [True]
    assert (await again(at, ended.run))["identical"] is True
    at.pool.given["other"] = Answers(says("The result of a is that it failed."), id="other")
    report = await again(replace(at, settings=with_provider(at, "other")), ended.run, reviser="other")
    assert report["identical"] is False, report
    assert report["first_divergence"]["decision"] == "revision 1"


async def test_a_swap_that_names_nobody_is_refused() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a")))
    with pytest.raises(UsageError, match="no role"):
        await again(at, ended.run, barista="told")
    with pytest.raises(UsageError, match="no provider"):
        await again(at, ended.run, validator="ghost")
    with pytest.raises(UsageError, match="no run"):
        await again(at, "0000")
