"""A panel at work in a run: as the last rung, as a validator, within the run's budget, cancelled, cut short and resumed."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hansard.app.driving.panel_provider import dissent
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.runviews import run_view
from hansard.deliberation.afterwards.validate import artifact_breaches
from hansard.deliberation.story import read_artifact
from hansard.domain.exchange import Exchange
from hansard.domain.roster import Roster
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.progress import progress_of
from hansard.providers.base import failure
from hansard.store.base import Group, Outcome, Seal
from panels import PANELS, SPLIT, Voices, agreeing, synthesis, turn, verdict
from running import (
    FINE,
    Answers,
    Desk,
    Ledger,
    audit,
    desk,
    hard_to_please,
    obliging,
    one,
    plan,
    reasons,
    roster,
    task,
    who,
)

LADDER = {"panels": PANELS, "tiers": {"cheap": "told", "capable": "told:large"}}
CLIMBING: dict[str, Any] = {**LADDER, "run": {"ladder": ["cheap", "capable", "panel:bench"]}}


def set_up(voices: Voices, answers: Answers | None = None, **settings: Any) -> Desk:
    return desk(answers or Answers(hard_to_please), voices, settings={**CLIMBING, **settings})


async def climbed(d: Desk, **how: Any) -> tuple[str, str]:
    ended = await d.run("rate limits", plan=plan(task("limits")), **how)
    return ended.run, ended.state


async def test_a_task_that_fails_two_rungs_ends_in_a_panel_that_settles_it() -> None:
    voices = Voices()
    d = set_up(voices)
    run, state = await climbed(d)
    assert state == "answered"
    assert [entry.data["rung"] for entry in d.entries(run, "task.attempted")] == ["cheap", "capable", "panel:bench"]
    assert [entry.data["ok"] for entry in d.entries(run, "task.judged")] == [False, False, True]
    convened = one(d.entries(run, "session.convened"))
    assert d.store.entry(convened.causes[0]).data["provider"] == "panel:bench"
    audit(d.store, run)


async def test_the_panels_word_and_its_dissent_stand_in_the_run_and_its_artifact_beside_them() -> None:
    d = set_up(Voices())
    run, _ = await climbed(d)
    returned = d.entries(run, "task.returned")[-1]
    assert d.text(returned, "output") == "Ten a minute." + dissent([SPLIT])
    assert "critic: ten is too many" in d.text(returned, "output")
    artifact = json.loads(d.text(returned, "raw"))
    assert artifact == read_artifact(d.store, one(d.entries(run, "session.ended")))
    assert not artifact_breaches(artifact)
    assert "do limits" in artifact["config"]["problem_statement"]
    assert artifact["session_id"].startswith(run)


async def test_what_a_panel_takes_is_the_runs_and_counted_once_everywhere() -> None:
    voices = Voices()
    d = set_up(voices)
    run, _ = await climbed(d)
    ended = one(d.entries(run, "run.ended"))
    returned = d.entries(run, "task.returned")[-1]
    made = len(voices.calls)
    assert made == 4
    assert returned.data["input_tokens"] + returned.data["output_tokens"] == 15 * made
    told = [entry for entry in d.entries(run, "task.returned", "role.answered") if entry != returned]
    others = len(told)
    assert ended.data["calls"] == made + others
    folded = progress_of(run, d.entries(run)).spent
    assert (ended.data["calls"], ended.data["tokens"]) == (folded.calls, folded.tokens)
    assert ended.data["cost_usd_nano"] == folded.cost_usd_nano == 1_000 * made
    shown = d.runs.show(run)["spent"]
    assert (shown["calls"], shown["tokens"]) == (folded.calls, folded.tokens)
    figures = d.runs.figures(run)
    assert figures["calls"] == sum(figures["calls_by_model"].values()) == folded.calls


class Entries(list[Entry]):
    """Counts how often somebody goes through them."""

    passes = 0

    def __iter__(self) -> Iterator[Entry]:
        self.passes += 1
        return super().__iter__()


async def test_a_run_with_a_panel_in_it_is_shown_without_going_through_it_for_each_task() -> None:
    passes = []
    for others in (2, 20):
        d = set_up(Voices(), Answers(lambda asked: (hard_to_please if who(asked)[1] == "limits" else obliging)(asked)))
        work = plan(task("limits"), *(task(f"t{number}") for number in range(others)))
        run = (await d.run("rate limits", plan=work)).run
        entries = Entries(d.entries(run))
        [shown] = [each for each in run_view(d.store, run, entries)["tasks"] if each["task"] == "limits"]
        assert "panel" in shown["attempts"][-1]
        passes.append(entries.passes)
    assert passes[0] == passes[1]


class SlowToAsk(Ledger):
    """A ledger that is slow throughout, and takes longer than the run has for a question inside of a session."""

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        asks = any(b'"turn.asked"' in draft.sketch.middle for group in groups for draft in group)
        time.sleep(1.0 if asks else 0.002)
        return super().append(groups, seal)


async def test_a_question_that_was_recorded_when_the_time_was_over_is_in_the_runs_last_word_too() -> None:
    settings = {**LADDER, "run": {"ladder": ["panel:bench"]}, "budget": {"max_seconds": 0.8}}
    voices = Voices()
    d = desk(Answers(hard_to_please), voices, store=SlowToAsk(), settings=settings)
    run, state = await climbed(d)
    assert state == "stopped"
    assert voices.calls == []
    assert d.entries(run, "turn.asked")
    ended = one(d.entries(run, "run.ended"))
    assert ended.data["calls"] == d.runs.show(run)["spent"]["calls"] == progress_of(run, d.entries(run)).spent.calls


async def test_a_session_gets_no_more_than_is_left_of_the_run() -> None:
    d = set_up(Voices(tokens=(1_000, 500)), budget={"max_tokens": 9_000, "max_seconds": 100})
    run, state = await climbed(d)
    budget = json.loads(d.text(one(d.entries(run, "session.convened")), "config"))["budget"]
    assert budget["max_total_tokens"] < 9_000
    assert budget["max_wallclock_seconds"] <= 100
    assert state == "answered"


async def test_a_secret_that_a_panel_says_stands_nowhere_on_the_record_of_its_run() -> None:
    def leaks(exchange: Exchange) -> Any:
        match exchange.schema_name:
            case "turn_structured_output":
                return turn("It is sk-0123456789.")
            case "synthesis_content":
                return synthesis("Ten a minute. sk-0123456789", SPLIT)
        return agreeing(exchange)

    d = set_up(Voices(leaks))
    d.pool.secrets.add("KEY", "sk-0123456789")
    run, state = await climbed(d)
    said = [d.text(entry, part) for entry in d.entries(run) for part in entry.body]
    assert state == "answered"
    assert not [each for each in said if "sk-0123456789" in each]
    assert "[secret KEY]" in str(read_artifact(d.store, one(d.entries(run, "session.ended"))))


async def test_a_panel_that_runs_into_its_share_of_tokens_fails_like_any_rung() -> None:
    d = set_up(Voices(tokens=(3_000, 500)), budget={"max_tokens": 9_000})
    run, state = await climbed(d)
    assert state == "failed"
    assert one(d.entries(run, "session.ended")).data["outcome"] == "termination"
    assert one(d.entries(run, "run.ended")).data["tokens"] < 9_000
    assert d.entries(run, "task.returned")[-1].data["error"] == "quota_exhausted"
    audit(d.store, run)


async def test_calls_inside_of_a_session_count_against_the_runs_limit_of_calls() -> None:
    voices = Voices()
    d = set_up(voices, budget={"max_calls": 6})
    run, state = await climbed(d)
    assert len(voices.calls) == 2
    assert state == "failed"
    assert one(d.entries(run, "run.ended")).data["calls"] == d.runs.show(run)["spent"]["calls"] == 6
    assert "used up" in d.text(d.entries(run, "task.returned")[-1], "output")


async def test_a_lane_can_be_a_panels() -> None:
    lanes = roster(alpha={"provider": "panel:bench"})
    voices = Voices()
    d = desk(Answers(), voices, settings={"panels": PANELS})
    ended = await d.run("x", plan=plan(task("a")), wishes=Wishes(roster=lanes))
    assert ended.state == "answered"
    assert len(voices.calls) == 4


def judging(answer: str) -> Any:
    def says(exchange: Exchange) -> Any:
        return agreeing(exchange) if exchange.schema_name != "synthesis_content" else synthesis(answer)

    return says


@pytest.mark.parametrize("ok", [True, False])
async def test_a_panel_can_be_the_validator_and_the_verdict_says_that_a_panel_judged(ok: bool) -> None:
    said = json.dumps({"ok": ok, "score": 0.7, "reasons": "critic dissents: too short"})
    voices = Voices(judging(said))
    d = desk(Answers(), voices, settings={"panels": PANELS, "roles": {"validator": "panel:bench", "default": "told"}})
    ended = await d.run("x", plan=plan(task("a")), wishes=None)
    judged = one(d.entries(ended.run, "task.judged"))
    assert (judged.data["by"], judged.data["ok"], judged.data["score_ppm"]) == ("panel", ok, 700_000)
    assert "critic dissents" in reasons(d, judged)[-1]["detail"]
    convened = one(d.entries(ended.run, "session.convened"))
    assert d.store.entry(convened.causes[0]).kind == "role.asked"
    audit(d.store, ended.run)


async def test_a_panel_of_judges_that_gives_no_verdict_in_shape_is_asked_again_and_then_counts_as_silent() -> None:
    voices = Voices(judging("It is fine."))
    settings = {"panels": PANELS, "roles": {"validator": "panel:bench", "default": "told"}, "run": {"corrections": 1}}
    d = desk(Answers(), voices, settings=settings)
    ended = await d.run("x", plan=plan(task("a")))
    assert len(d.entries(ended.run, "session.convened")) == 2
    assert one(d.entries(ended.run, "task.judged")).data["by"] == "engine"


async def test_a_panel_can_judge_whether_the_answer_serves_what_was_asked_for() -> None:
    voices = Voices(judging(json.dumps({"drifted": True, "reason": "It speaks of something else."})))
    roles = {"intent_judge": "panel:bench", "default": "told"}
    d = desk(Answers(), voices, settings={"panels": PANELS, "roles": roles})
    wishes = Wishes(judge_intent=True)
    ended = await d.run("compare three message queues for Python", plan=plan(task("a")), wishes=wishes)
    assert ended.state == "answered"
    said = [(entry.data["check"], entry.data["outcome"]) for entry in d.entries(ended.run, "answer.checked")]
    assert ("intent_judge", "flagged") in said
    assert len(d.entries(ended.run, "session.convened")) == 1
    audit(d.store, ended.run)


@pytest.mark.parametrize("role", ["intent_judge", "reviser"])
def test_a_role_that_looks_at_the_answer_names_no_panel_that_is_not_there(role: str) -> None:
    d = desk(Answers(), Voices(), settings={"panels": {}, "roles": {role: "panel:bench", "default": "told"}})
    with pytest.raises(UsageError, match="no panel 'bench'"):
        d.config(Wishes(judge_intent=True, revise=True))


async def test_cancelling_the_run_cancels_the_session_with_user_cancel() -> None:
    asked = asyncio.Event()

    def slow(exchange: Exchange) -> Any:
        if exchange.metadata["agent_id"] == "engineer":
            asked.set()
            return asyncio.sleep(60, turn())
        return agreeing(exchange)

    d = set_up(Voices(slow))
    run = await d.submit("x", plan=plan(task("limits")))
    driving = asyncio.ensure_future(d.runs.drive(run))
    await asked.wait()
    ended = await d.runs.cancel(run)
    assert ended is not None
    assert (ended.state, (await driving).state) == ("cancelled", "cancelled")
    session = one(d.entries(run, "session.ended"))
    assert (session.data["outcome"], session.data["reason"]) == ("termination", "user_cancel")
    assert not artifact_breaches(read_artifact(d.store, session))
    last = one(d.entries(run, "run.ended"))
    assert last.data["calls"] == progress_of(run, d.entries(run)).spent.calls
    audit(d.store, run)


async def test_a_run_that_is_interrupted_in_a_session_goes_on_with_that_session() -> None:
    asked, patient = asyncio.Event(), [True]

    def slow(exchange: Exchange) -> Any:
        if exchange.metadata["agent_id"] == "engineer" and patient[0]:
            asked.set()
            return asyncio.sleep(60, turn())
        return agreeing(exchange)

    voices = Voices(slow)
    d = set_up(voices)
    run = await d.submit("x", plan=plan(task("limits")))
    driving = asyncio.ensure_future(d.runs.drive(run))
    await asked.wait()
    await d.runs.close()
    assert driving.cancelled()
    assert not d.entries(run, "session.ended")
    patient[0] = False
    ended = await d.runs.resume(run)
    assert ended.state == "answered"
    assert len(d.entries(run, "session.convened")) == len(d.entries(run, "session.ended")) == 1
    assert len(voices.asked("critic")) == 1
    last, folded = one(d.entries(run, "run.ended")), progress_of(run, d.entries(run)).spent
    assert (last.data["calls"], last.data["tokens"]) == (folded.calls, folded.tokens)
    audit(d.store, run)


async def test_a_run_that_was_cancelled_and_retried_is_interrupted_like_any_other() -> None:
    asked, patient = asyncio.Event(), [True]

    def slow(exchange: Exchange) -> Any:
        if exchange.metadata["agent_id"] == "engineer" and patient[0]:
            asked.set()
            return asyncio.sleep(60, turn())
        return agreeing(exchange)

    d = set_up(Voices(slow))
    run = await d.submit("x", plan=plan(task("limits")))
    driving = d.runs.begin(run)
    await asked.wait()
    await d.runs.cancel(run)
    assert (await driving).state == "cancelled"
    asked.clear()
    retrying = asyncio.ensure_future(d.runs.retry(run, "limits"))
    await asked.wait()
    await d.runs.close()
    assert retrying.cancelled()
    assert [entry.data.get("reason") for entry in d.entries(run, "session.ended")] == ["user_cancel"]
    patient[0] = False
    assert (await d.runs.resume(run)).state == "answered"
    assert len(d.entries(run, "session.convened")) == len(d.entries(run, "session.ended")) == 2
    audit(d.store, run)


async def test_a_crash_after_any_commit_of_a_run_with_a_panel_loses_and_repeats_nothing() -> None:
    d = set_up(Voices())
    run, _ = await climbed(d)
    store: Any = d.store
    for commits in range(2, len(store.commits)):
        voices = Voices()
        again = desk(Answers(hard_to_please), voices, store=store.until(commits), settings=CLIMBING)
        ended = await again.runs.resume(run)
        assert ended.state == "answered", commits
        assert len(again.entries(run, "session.convened")) == 1
        assert len(again.entries(run, "session.ended")) == 1
        answered = [e for e in again.entries(run, "turn.taken") if "result" in e.body]
        assert len(answered) == 4
        folded = progress_of(run, again.entries(run)).spent
        last = one(again.entries(run, "run.ended"))
        assert (last.data["calls"], last.data["tokens"]) == (folded.calls, folded.tokens)
        audit(again.store, run)


async def test_a_rerun_of_a_run_with_a_panel_asks_nobody_and_comes_out_the_same() -> None:
    voices = Voices()
    d = set_up(voices)
    run, _ = await climbed(d)
    before = len(voices.calls)
    assert (await d.runs.rerun(run))["identical"] is True
    assert len(voices.calls) == before


async def test_a_panel_that_asks_its_user_something_is_a_rung_that_failed_and_says_what_it_asks() -> None:
    def asks(exchange: Exchange) -> Any:
        if exchange.schema_name == "verdict":
            return verdict("request_user_input", user_input_request={"question": "which year?"})
        return agreeing(exchange)

    d = set_up(Voices(asks))
    run, state = await climbed(d)
    assert state == "failed"
    assert "which year?" in d.text(d.entries(run, "task.returned")[-1], "output")


async def test_an_agent_whose_provider_fails_leaves_the_panel_and_the_rest_settles_it() -> None:
    def lame(exchange: Exchange) -> Any:
        if exchange.metadata["agent_id"] == "critic":
            return failure("auth_failure", "no key")
        return agreeing(exchange)

    d = set_up(Voices(lame))
    run, state = await climbed(d)
    assert state == "answered"
    assert [e.data["type"] for e in d.entries(run, "turn.taken")].count("panel_contraction") == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"panels": {}}, "no panel 'bench'"),
        ({"panels": {"bench": {"agents": ["nobody"]}}}, "no persona 'nobody'"),
        ({"panels": {"bench": {"agents": ["critic", "critic"]}}}, "twice"),
        ({"panels": {"bench": {"agents": "critic"}}}, "list of personas"),
        ({"panels": {"bench": {"provider": "panel:other"}}}, "not answered by another"),
        ({"panels": {"bench": {"provider": "nowhere"}}}, "panel:bench asks 'nowhere'"),
        ({"panels": {"bench": {"rounds": 2}}}, "unknown key rounds"),
        ({"panels": {"bench": {"max_rounds": 0}}}, "max_rounds"),
        ({"panels": {"bench": 3}}, "must be a table"),
    ],
)
def test_a_panel_that_cannot_meet_is_refused_before_anything_is_recorded(settings: Any, said: str) -> None:
    d = set_up(Voices(), **settings)
    with pytest.raises(UsageError, match=said):
        d.config()


def test_under_a_limit_of_money_the_models_of_a_panel_have_a_price() -> None:
    d = set_up(Voices(unmetered=False), budget={"max_usd": "1"})
    with pytest.raises(UsageError, match="'voice'"):
        d.config()
    priced = {"voice": {"input": 1, "output": 1}}
    assert set_up(Voices(unmetered=False), budget={"max_usd": "1"}, prices=priced).config()


def test_a_panel_that_may_spend_nothing_asks_nobody_who_costs_some() -> None:
    broke: dict[str, Any] = {"panels": {"bench": {**PANELS["bench"], "max_usd": 0}}}
    priced = {"voice": {"input": 0, "output": 1}}
    with pytest.raises(UsageError, match=r"panel:bench may spend no money .* 'voice' \(voices\) costs some"):
        set_up(Voices(unmetered=False), **broke, prices=priced).config()
    assert set_up(Voices(), **broke, prices=priced).config()
    assert set_up(Voices(unmetered=False), **broke, prices={"voice": {"input": 0, "output": 0}}).config()


def test_lanes_and_their_snapshots_keep_a_panel_whole() -> None:
    d = set_up(Voices())
    config = d.config(replace(Wishes(), roster=Roster.default()))
    again = type(config).from_json(config.to_json(), "there")
    assert again.providers["panel:bench"] == config.providers["panel:bench"]
    assert again.providers["panel:bench"]["config"]["agents"][0]["persona_ref"]["id"] == "critic"


async def test_a_session_ends_by_itself_before_the_time_of_its_run_is_over() -> None:
    def slow(exchange: Exchange) -> Any:
        return asyncio.sleep(30, agreeing(exchange))

    d = set_up(Voices(slow), budget={"max_seconds": 2})
    run, state = await climbed(d)
    session = one(d.entries(run, "session.ended"))
    assert session.data["reason"] == "timeout"
    assert state in ("failed", "stopped")
    audit(d.store, run)


def test_a_panel_that_gathers_first_answers_is_refused_inside_of_a_run() -> None:
    d = set_up(Voices(), panels={"bench": {**PANELS["bench"], "ensemble": True}})
    with pytest.raises(UsageError, match="first answers"):
        d.config()


async def test_a_run_shows_its_panel_with_how_it_ended_and_who_dissents() -> None:
    d = set_up(Voices())
    run, _ = await climbed(d)
    [shown] = d.runs.show(run)["tasks"]
    panel = shown["attempts"][-1]["panel"]
    assert (panel["outcome"], panel["rounds"], panel["unresolved"]) == ("synthesis", 1, [SPLIT])


async def test_two_tasks_may_sit_before_panels_at_once() -> None:
    d = desk(
        Answers(hard_to_please),
        Voices(),
        settings={**CLIMBING, "budget": {"max_calls": 60}},
    )
    ended = await d.run("x", plan=plan(task("a"), task("b")))
    assert ended.state == "answered"
    assert len(d.entries(ended.run, "session.ended")) == 2
    folded = progress_of(ended.run, d.entries(ended.run)).spent
    assert one(d.entries(ended.run, "run.ended")).data["calls"] == folded.calls
    audit(d.store, ended.run)


async def test_cancelling_a_run_whose_driver_died_in_a_session_ends_the_session_and_asks_nobody() -> None:
    d = set_up(Voices())
    run, _ = await climbed(d)
    store: Any = d.store
    kinds = [entry.kind for entry in d.entries(run)]
    assert kinds.count("session.convened") == 1
    for commits in range(2, len(store.commits)):
        voices = Voices()
        twin = store.until(commits)
        again = desk(Answers(hard_to_please), voices, store=twin, settings=CLIMBING)
        if again.entries(run, "run.ended"):
            continue
        ended = await again.runs.cancel(run)
        assert ended is not None
        assert ended.state == "cancelled"
        assert voices.calls == []
        convened = again.entries(run, "session.convened")
        over = again.entries(run, "session.ended")
        assert len(convened) == len(over)
        assert all(each.data.get("reason") in (None, "user_cancel") for each in over)
        audit(again.store, run)


async def test_a_crash_while_a_panel_judges_goes_on_with_the_same_session() -> None:
    said = json.dumps({"ok": True, "score": 0.7, "reasons": "fine"})
    settings = {"panels": PANELS, "roles": {"validator": "panel:bench", "default": "told"}}
    d = desk(Answers(), Voices(judging(said)), settings=settings)
    ended = await d.run("x", plan=plan(task("a")))
    store: Any = d.store
    for commits in range(2, len(store.commits)):
        again = desk(Answers(), Voices(judging(said)), store=store.until(commits), settings=settings)
        if again.entries(ended.run, "run.ended"):
            continue
        assert (await again.runs.resume(ended.run)).state == "answered"
        assert len(again.entries(ended.run, "session.convened")) == 1
        assert one(again.entries(ended.run, "task.judged")).data["by"] == "panel"
        answered = [each for each in again.entries(ended.run, "turn.taken") if "result" in each.body]
        assert len(answered) == 4
        audit(again.store, ended.run)


async def test_a_run_shows_the_panel_that_judged_beside_its_verdict() -> None:
    voices = Voices(judging(json.dumps({"ok": True, "score": 0.7, "reasons": "fine"})))
    d = desk(Answers(), voices, settings={"panels": PANELS, "roles": {"validator": "panel:bench", "default": "told"}})
    ended = await d.run("x", plan=plan(task("a")))
    [shown] = d.runs.show(ended.run)["tasks"]
    assert shown["attempts"][0]["verdict"]["panel"]["outcome"] == "synthesis"
    assert "panel" not in shown["attempts"][0]


async def test_figures_are_those_that_the_run_shows_wherever_it_was_cut() -> None:
    d = set_up(Voices())
    run, _ = await climbed(d)
    store: Any = d.store
    for commits in range(3, len(store.commits)):
        again = desk(Answers(hard_to_please), Voices(), store=store.until(commits), settings=CLIMBING)
        if again.entries(run, "run.ended"):
            continue
        await again.runs.cancel(run)
        figures, spent = again.runs.figures(run), again.runs.show(run)["spent"]
        tokens = figures["input_tokens"] + figures["output_tokens"]
        assert (figures["calls"], tokens, figures["cost_usd_nano"]) == (
            spent["calls"],
            spent["tokens"],
            spent["cost_usd_nano"],
        )


async def test_after_a_crash_a_panel_is_shown_where_its_answer_is() -> None:
    def both(exchange: Exchange) -> Any:
        judges = any('"ok"' in message.content for message in exchange.messages)
        return judging(json.dumps(FINE))(exchange) if judges else agreeing(exchange)

    settings = {"panels": PANELS, "roles": {"validator": "panel:bench", "default": "told"}}
    wishes = Wishes(roster=roster(alpha={"provider": "panel:bench"}))
    d = desk(Answers(), Voices(both), settings=settings)
    run = (await d.run("x", plan=plan(task("a")), wishes=wishes)).run
    store: Any = d.store
    for commits in range(2, len(store.commits)):
        again = desk(Answers(), Voices(both), store=store.until(commits), settings=settings)
        if again.entries(run, "run.ended"):
            continue
        assert (await again.runs.resume(run)).state == "answered"
        [*given_up, last] = again.runs.show(run)["tasks"][0]["attempts"]
        assert last["returned"]["ok"]
        assert last["panel"]["unresolved"] == [SPLIT]
        assert last["verdict"]["panel"]["outcome"] == "synthesis"
        assert last["verdict"]["panel"]["session"] != last["panel"]["session"]
        assert not any("panel" in each for each in given_up), commits


@pytest.mark.parametrize("most", [None, 50_000])
async def test_no_answer_of_a_panel_may_have_more_tokens_than_are_left_for_it(most: int | None) -> None:
    voices = Voices(tokens=(1_000, 3_000))
    run = {"ladder": ["panel:bench"], **({"max_output_tokens": most} if most else {})}
    d = set_up(voices, budget={"max_tokens": 12_000}, run=run)
    await d.run("rate limits", plan=plan(task("limits")))
    for asked, exchange in enumerate(voices.calls):
        bound = exchange.limits.max_output_tokens
        assert bound is not None
        assert bound <= 12_000 - asked * 4_000
    assert len(voices.calls) >= 2
