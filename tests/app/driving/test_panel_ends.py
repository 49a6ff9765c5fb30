"""Panels in runs that crash or end: no session is left open, none takes more than its limits, and every call counts once."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.exchange import Completion, Cost, Exchange
from hansard.orchestration.progress import progress_of
from hansard.providers.base import failure
from hansard.record.history import fold
from hansard.store.base import Query
from panels import PANELS, Voice, Voices, agreeing, synthesis, turn, verdict
from running import FINE, Answers, Desk, Ledger, audit, desk, fails, obliging, one, plan, roster, task, who

LANES = Wishes(roster=roster(alpha={"provider": "panel:bench"}, beta={"provider": "told"}))


def bench(**more: Any) -> dict[str, Any]:
    return {"panels": {"bench": {**PANELS["bench"], **more}}}


def tireless(exchange: Exchange) -> Any:
    """A panel that never comes to an end by itself."""
    match exchange.schema_name:
        case "verdict":
            return verdict("continue")
        case "turn_structured_output":
            return turn()
    return synthesis()


def cut(d: Desk, run: str, answers: Voice, settings: dict[str, Any], **how: Any) -> Iterator[tuple[Desk, Voices]]:
    """The same ledger as a crash behind each commit would have left it, until the run ended."""
    store: Any = d.store
    for commits in range(2, len(store.commits)):
        voices = Voices(answers, **how)
        again = desk(Answers(), voices, store=store.until(commits), settings=settings)
        if not again.entries(run, "run.ended"):
            yield again, voices


def open_sessions(d: Desk, run: str) -> set[object]:
    over = {entry.data["session"] for entry in d.entries(run, "session.ended")}
    return {entry.data["session"] for entry in d.entries(run, "session.convened")} - over


def answered_calls(d: Desk, run: str) -> int:
    return sum("result" in entry.body and entry.data.get("calls") != 0 for entry in d.entries(run, "turn.taken"))


def check_sums(d: Desk, run: str) -> None:
    """The run's last word, the driver's fold and what everybody is shown say the same."""
    last, shown = one(d.entries(run, "run.ended")).data, fold(d.entries(run)).runs[run]
    folded = progress_of(run, d.entries(run)).spent
    assert (last["calls"], last["tokens"], last["cost_usd_nano"]) == (folded.calls, folded.tokens, folded.cost_usd_nano)
    assert (shown.calls, shown.tokens, shown.cost_usd_nano) == (folded.calls, folded.tokens, folded.cost_usd_nano)
    assert last["priced"] == shown.priced == folded.priced


@pytest.mark.parametrize(
    ("limits", "most_calls", "most_tokens"),
    [({"max_calls": 6}, 6, 10**9), ({"max_tokens": 9_000, "max_calls": 40}, 40, 9_000)],
)
async def test_the_limits_of_a_panel_hold_for_a_session_however_often_its_driver_dies(
    limits: dict[str, int], most_calls: int, most_tokens: int
) -> None:
    settings = bench(max_rounds=20, **limits)
    d = desk(Answers(), Voices(tireless, tokens=(1_000, 500)), settings=settings)
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    for again, _ in cut(d, run, tireless, settings, tokens=(1_000, 500)):
        await again.runs.resume(run)
        taken = [entry for entry in again.entries(run, "turn.taken") if "result" in entry.body]
        assert len(taken) <= most_calls
        assert sum(each.data["prompt_tokens"] + each.data["completion_tokens"] for each in taken) <= most_tokens
        assert not open_sessions(again, run)
        check_sums(again, run)


async def test_a_call_that_was_under_way_in_a_session_when_the_driver_died_counts() -> None:
    settings = {**bench(max_rounds=20), "budget": {"max_calls": 8}}
    d = desk(Answers(), Voices(tireless), settings=settings)
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    for again, voices in cut(d, run, tireless, settings):
        refused = {seq for entry in again.entries(run, "turn.failed") for seq in entry.causes}
        before = [entry for entry in again.entries(run, "turn.asked") if entry.seq not in refused]
        await again.runs.resume(run)
        last = one(again.entries(run, "run.ended")).data["calls"]
        assert last == 8
        assert len(voices.calls) <= 8 - len(before)
        check_sums(again, run)


async def test_a_question_that_a_limit_refuses_is_no_call_wherever_the_driver_dies() -> None:
    settings = {**bench(max_rounds=20, max_calls=3), "budget": {"max_calls": 6}}
    d = desk(Answers(), Voices(tireless), settings=settings)
    run = (await d.run("x", plan=plan(task("a"), task("b")), wishes=LANES)).run
    refused = {entry.causes[0] for entry in d.entries(run, "turn.failed") if entry.data.get("calls") == 0}
    assert refused
    for again, _ in cut(d, run, tireless, settings):
        assert refused.isdisjoint([again.entries(run)[-1].seq])
        await again.runs.resume(run)
        assert one(again.entries(run, "run.ended")).data["calls"] <= 6
        check_sums(again, run)


async def test_a_run_whose_providers_cannot_be_opened_is_cancelled_with_its_sessions() -> None:
    d = desk(Answers(), Voices(), settings=bench())
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    for again, _ in cut(d, run, agreeing, bench()):
        made = len(again.entries(run, "turn.asked", "role.asked"))
        nobody = desk(store=again.store, settings=bench())
        ended = await nobody.runs.cancel(run)
        assert (ended and ended.state) == "cancelled"
        assert not open_sessions(nobody, run)
        assert {entry.data.get("reason") for entry in again.entries(run, "session.ended")} <= {None, "user_cancel"}
        assert one(nobody.entries(run, "run.ended")).data["calls"] == made
        check_sums(nobody, run)
        audit(nobody.store, run)


async def test_a_run_with_a_session_that_cannot_be_read_any_more_is_cancelled_all_the_same() -> None:
    """What cannot be read, nobody can end; another session beside it is ended."""
    settings = bench()
    d = desk(Answers(), Voices(), settings=settings)
    run = (await d.run("x", plan=plan(task("a"), task("b")), wishes=LANES)).run
    [again, *_] = [each for each, _ in cut(d, run, agreeing, settings) if len(open_sessions(each, run)) == 2]
    unread, other = again.entries(run, "session.convened")
    again.store.erase((unread.seq, "config"))
    ended = await again.runs.cancel(run)
    assert (ended and ended.state) == "cancelled"
    assert one(again.entries(run, "session.ended")).data["session"] == other.data["session"]
    check_sums(again, run)
    audit(again.store, run)


async def test_cancelling_after_a_crash_asks_nobody_and_counts_nothing_that_was_not_asked() -> None:
    d = desk(Answers(), Voices(), settings=bench())
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    for again, voices in cut(d, run, agreeing, bench()):
        made = len(again.entries(run, "turn.asked", "role.asked"))
        await again.runs.cancel(run)
        assert not voices.calls
        assert not open_sessions(again, run)
        assert one(again.entries(run, "run.ended")).data["calls"] == made
        check_sums(again, run)


async def test_an_attempt_that_goes_on_with_its_session_is_served_before_a_new_task() -> None:
    settings = {**bench(max_rounds=20), "budget": {"max_calls": 8}}
    d = desk(Answers(), Voices(tireless), settings=settings)
    run = (await d.run("x", plan=plan(task("a"), task("b")), wishes=LANES)).run
    for again, _ in cut(d, run, tireless, settings):
        await again.runs.resume(run)
        assert {entry.data["task"] for entry in again.entries(run, "task.attempted")} == {"a"}
        assert not open_sessions(again, run)
        check_sums(again, run)
        audit(again.store, run)


async def crashed_again(store: Ledger, run: str, settings: dict[str, Any], last: str, claims: int) -> Ledger:
    """A crash of the driver with this number, behind the first commit of its own that ends with an entry of this kind."""
    for commits in range(2, len(store.commits) + 1):
        twin = store.until(commits)
        kinds = [entry.kind for entry in twin.select(Query(run=run))]
        if kinds.count("run.claimed") == claims and kinds[-1] == last:
            again = desk(Answers(), Voices(), store=twin, settings=settings)
            await again.runs.resume(run)
            return twin
    raise AssertionError(f"no driver {claims} with {last}")


async def test_a_crash_counts_against_a_task_only_where_its_session_got_no_further() -> None:
    settings = bench()
    d = desk(Answers(), Voices(), settings=settings)
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    store: Any = d.store
    for answers in range(1, 5):
        for commits in range(2, len(store.commits)):
            again = desk(Answers(), Voices(), store=store.until(commits), settings=settings)
            if answered_calls(again, run) == answers:
                break
        assert (await again.runs.resume(run)).state == "answered"
        assert not any(entry.data["restarts"] for entry in again.entries(run, "task.restarted"))
        store = again.store
    assert len(again.entries(run, "session.convened")) == len(again.entries(run, "session.ended")) == 1


async def test_a_crash_behind_the_end_of_a_session_loses_no_answer_however_many_were_before() -> None:
    settings = bench()
    d = desk(Answers(), Voices(), settings=settings)
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    store: Any = d.store
    for claims in range(1, 4):
        store = await crashed_again(store, run, settings, "turn.asked", claims)
    store = await crashed_again(store, run, settings, "session.ended", 4)
    last = desk(Answers(), Voices(), store=store, settings=settings)
    assert one(last.entries(run, "run.ended")).data["state"] == "answered"


JUDGING = {"validator": "panel:bench", "default": "told"}


@pytest.mark.parametrize(
    ("settings", "wishes"),
    [
        ({"run": {"judge": "checks", "answer": "join"}, "budget": {"max_calls": 4}}, LANES),
        ({"run": {"answer": "join"}, "roles": JUDGING, "budget": {"max_calls": 5}}, None),
    ],
    ids=["worker", "validator"],
)
async def test_a_crash_behind_a_session_that_took_the_last_of_the_budget_loses_no_answer(
    settings: dict[str, Any], wishes: Wishes | None
) -> None:
    def fine(exchange: Exchange) -> Any:
        return agreeing(exchange) if exchange.schema_name != "synthesis_content" else synthesis(json.dumps(FINE))

    given = {**bench(), **settings}
    d = desk(Answers(), Voices(fine), settings=given)
    run = (await d.run("x", plan=plan(task("a")), wishes=wishes)).run
    [(again, voices)] = [each for each in cut(d, run, fine, given) if each[0].entries(run)[-1].kind == "session.ended"]
    assert (await again.runs.resume(run)).state == "answered"
    assert voices.calls == []
    assert (await again.runs.rerun(run))["identical"] is True
    check_sums(again, run)
    audit(again.store, run)


async def test_a_rerun_refuses_whom_the_record_refused_beside_a_session_that_went_on() -> None:
    settings = {**bench(), "budget": {"max_calls": 4}, "run": {"judge": "checks", "answer": "join", "tries": 2}}
    d = desk(Answers(lambda _: fails("auth_failure")), Voices(), settings=settings)
    run = (await d.run("x", plan=plan(task("b", lane="beta"), task("a")), wishes=LANES)).run
    store: Any = d.store
    for commits in range(2, len(store.commits)):
        answers = Answers(lambda _: fails("auth_failure"))
        again = desk(answers, Voices(), store=store.until(commits), settings=settings)
        if not again.entries(run, "run.ended"):
            await again.runs.resume(run)
            report = await again.runs.rerun(run)
            assert report["identical"] is True, report
            check_sums(again, run)


async def test_a_rerun_refuses_the_one_for_whom_the_budget_was_too_little_and_nobody_who_came_before_him() -> None:
    """For a panel anything that is left will do; `b` needs more, and ends the run before `a` tries again."""
    settings = {**bench(), "budget": {"max_tokens": 100}, "run": {"judge": "checks", "answer": "join", "tries": 2}}
    d = desk(Answers(), Voices(), settings=settings)
    ended = await d.run("x", plan=plan(task("a"), task("b", lane="beta")), wishes=LANES)
    assert (ended.state, ended.reason) == ("stopped", "budget")
    assert [entry.data["task"] for entry in d.entries(ended.run, "task.attempted")] == ["a"]
    report = await d.runs.rerun(ended.run)
    assert report["identical"] is True, report


async def test_a_task_whose_driver_died_too_often_fails_and_its_session_ends_with_the_run() -> None:
    settings = bench()
    d = desk(Answers(), Voices(), settings=settings)
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    store: Any = d.store
    for claims in range(1, 5):
        store = await crashed_again(store, run, settings, "turn.asked", claims)
    last = desk(Answers(), Voices(), store=store, settings=settings)
    assert one(last.entries(run, "run.ended")).data["state"] == "failed"
    session = one(last.entries(run, "session.ended"))
    assert session.data["reason"] == "provider_unrecoverable"
    [shown] = last.runs.show(run)["tasks"]
    assert shown["state"] == "rejected"
    check_sums(last, run)
    audit(last.store, run)


async def test_a_panel_that_was_given_up_before_anybody_was_asked_takes_no_call_from_a_rerun() -> None:
    settings = {**bench(), "budget": {"max_calls": 1}, "run": {"judge": "checks", "answer": "join", "restarts": 0}}
    d = desk(Answers(), Voices(), settings=settings)
    run = await d.submit("x", plan=plan(task("a"), task("b", lane="beta")), wishes=replace(LANES, max_parallel=1))
    await d.runs.drive(run)
    [(again, _)] = [each for each in cut(d, run, agreeing, settings) if len(each[0].entries(run)) == 5]
    assert [entry.kind for entry in again.entries(run)][-2:] == ["plan.made", "task.attempted"]
    assert (await again.runs.resume(run)).state == "partial"
    report = await again.runs.rerun(run)
    assert report["identical"] is True, report


async def test_a_question_to_a_panel_that_was_given_up_takes_nothing_of_the_budget_in_a_rerun() -> None:
    settings = {**bench(), "budget": {"max_calls": 5}, "roles": JUDGING, "run": {"answer": "join", "restarts": 1}}
    d = desk(Answers(), Voices(), settings=settings)
    run = (await d.run("x", plan=plan(task("b", lane="beta"), task("a")), wishes=LANES)).run
    store: Any = d.store
    for claims, last in enumerate(("turn.asked", "role.asked", "role.asked"), 1):
        store = await crashed_again(store, run, settings, last, claims)
    again = desk(Answers(), Voices(), store=store, settings=settings)
    assert [each.data["error"] for each in again.entries(run, "role.answered")] == ["restarts"]
    assert one(again.entries(run, "run.ended")).data["calls"] == 5
    report = await again.runs.rerun(run)
    assert report["identical"] is True, report


async def test_a_correction_of_a_panel_that_was_cut_short_counts_before_the_budget_refuses_others() -> None:
    settings = {**bench(), "budget": {"max_calls": 10}, "roles": JUDGING, "run": {"answer": "join", "restarts": 0}}
    d = desk(Answers(), Voices(), settings=settings)
    run = (await d.run("x", plan=plan(task("a"), task("b", lane="beta")), wishes=LANES)).run
    refused = 0
    for again, _ in cut(d, run, agreeing, settings):
        await again.runs.resume(run)
        corrected = any(entry.data["turn"] == 2 for entry in again.entries(run, "role.asked"))
        refused += corrected and len(again.entries(run, "budget.breached"))
        report = await again.runs.rerun(run)
        assert report["identical"] is True, report
    assert refused


async def test_a_crash_in_the_correction_of_a_panels_answer_asks_nobody_twice() -> None:
    def out_of_shape_first(exchange: Exchange) -> Any:
        if exchange.schema_name != "synthesis_content":
            return agreeing(exchange)
        corrected = any("It is fine." in message.content for message in exchange.messages)
        return synthesis(json.dumps(FINE) if corrected else "It is fine.")

    settings = {"panels": PANELS, "roles": {"validator": "panel:bench", "default": "told"}, "run": {"corrections": 1}}
    d = desk(Answers(), Voices(out_of_shape_first), settings=settings)
    run = (await d.run("x", plan=plan(task("a")))).run
    assert answered_calls(d, run) == 8
    for again, _ in cut(d, run, out_of_shape_first, settings):
        assert (await again.runs.resume(run)).state == "answered"
        assert len(again.entries(run, "session.convened")) == 2
        assert not open_sessions(again, run)
        assert answered_calls(again, run) == 8
        assert one(again.entries(run, "task.judged")).data["ok"] is True
        check_sums(again, run)
        audit(again.store, run)


async def test_a_session_for_which_less_than_a_second_is_left_ends_with_its_run() -> None:
    def takes_its_time(exchange: Exchange) -> Any:
        return asyncio.sleep(1.1 if who(exchange)[0] == "worker" else 0, obliging(exchange))

    settings = {**bench(), "budget": {"max_seconds": 2}, "run": {"judge": "checks"}}
    d = desk(Answers(takes_its_time), Voices(lambda _: asyncio.sleep(30, {})), settings=settings)
    ended = await d.run("x", plan=plan(task("b", lane="beta"), task("a", "b")), wishes=LANES)
    assert (ended.state, ended.reason) == ("stopped", "deadline")
    assert one(d.entries(ended.run, "session.ended")).data["reason"] == "timeout"
    assert one(d.entries(ended.run, "run.ended")).data["calls"] == 2
    check_sums(d, ended.run)
    audit(d.store, ended.run)


async def test_a_session_in_a_lane_with_much_time_may_take_longer_than_one_call() -> None:
    lanes = roster(alpha={"provider": "panel:bench", "budget": Budget(max_seconds=36_000)})
    d = desk(Answers(), Voices(), settings={**bench(max_seconds=1_800), "run": {"timeout_s": 20}})
    run = (await d.run("x", plan=plan(task("a")), wishes=Wishes(roster=lanes))).run
    config = json.loads(d.text(one(d.entries(run, "session.convened")), "config"))
    assert config["budget"]["max_wallclock_seconds"] == 1_800


async def test_a_session_that_goes_on_has_no_more_time_than_its_run() -> None:
    async def late(exchange: Exchange) -> Any:
        await asyncio.sleep(1)
        return obliging(exchange)

    settings = {**bench(), "budget": {"max_seconds": 6}, "run": {"judge": "checks"}}
    answers = Answers(lambda exchange: late(exchange) if exchange.metadata["task"] == "b" else obliging(exchange))
    d = desk(answers, Voices(lambda _: asyncio.sleep(30, {})), settings=settings)
    run = await d.submit("x", plan=plan(task("b", lane="beta"), task("a")), wishes=LANES)
    driving = asyncio.ensure_future(d.runs.drive(run))
    while not d.entries(run, "task.judged"):  # noqa: ASYNC110 - the record tells
        await asyncio.sleep(0.05)
    await d.runs.close()
    assert driving.cancelled()
    await d.runs.resume(run)
    session = one(d.entries(run, "session.ended"))
    assert session.data["reason"] == "timeout"
    # By itself, and so early that its task could still climb.
    assert session.seq < one(d.entries(run, "task.escalated")).seq
    assert one(d.entries(run, "run.ended")).data["calls"] == progress_of(run, d.entries(run)).spent.calls


async def test_an_attempt_repeats_what_its_session_took_also_where_that_had_ended_before_a_crash() -> None:
    def lame(exchange: Exchange) -> Any:
        return failure("auth_failure", "no key") if exchange.metadata["agent_id"] == "engineer" else agreeing(exchange)

    d = desk(Answers(), Voices(lame), settings=bench())
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    sums = ("input_tokens", "output_tokens", "cost_usd_nano")
    told = [one(d.entries(run, "task.returned")).data[name] for name in sums]
    assert told == [45, 15, 4_000]
    for again, _ in cut(d, run, lame, bench()):
        await again.runs.resume(run)
        assert [one(again.entries(run, "task.returned")).data[name] for name in sums] == told


class Unpriced(Voices):
    """Says nothing of what it costs, as somebody whose model has no price here."""

    async def complete(self, exchange: Exchange) -> Completion:
        return replace(await super().complete(exchange), cost=Cost())


async def test_a_limit_of_money_holds_for_a_panel_where_nobody_knows_the_price_any_more() -> None:
    settings = {**bench(max_rounds=20), "budget": {"max_usd": 0.01}, "prices": {"voice": {"input": 1, "output": 1}}}
    d = desk(Answers(), Unpriced(tireless, tokens=(1_000, 1_000), unmetered=False), settings=settings)
    run = await d.submit("x", plan=plan(task("a")), wishes=LANES)
    voices = Unpriced(tireless, tokens=(1_000, 1_000), unmetered=False)
    elsewhere = desk(Answers(), voices, store=d.store)
    await elsewhere.runs.drive(run)
    assert one(d.entries(run, "session.ended")).data["reason"] == "budget_exceeded"
    # Two thousandths of a dollar each: the sixth went beyond.
    assert len(voices.calls) == 6
    assert one(d.entries(run, "run.ended")).data["cost_usd_nano"] == 12_000_000
    check_sums(d, run)


async def test_that_nobody_knows_the_price_of_a_panel_is_said_at_the_end_of_its_run_whenever_its_driver_dies() -> None:
    unpriced = Unpriced(agreeing, unmetered=False)
    d = desk(Answers(), unpriced, settings=bench())
    run = (await d.run("x", plan=plan(task("a")), wishes=LANES)).run
    assert one(d.entries(run, "run.ended")).data["priced"] is False
    assert d.runs.figures(run)["calls_without_price"] == len(unpriced.calls)
    told = set()
    for again, voices in cut(d, run, agreeing, bench(), unmetered=False):
        await again.runs.resume(run)
        check_sums(again, run)
        priced = one(again.entries(run, "run.ended")).data["priced"]
        # So the panel's own answer says.
        assert one(again.entries(run, "task.returned")).data["cost_basis"] == ("estimate" if priced else "unknown")
        told.add((bool(voices.calls), priced))
    # Of what the first driver asked nobody knows the price, also where everything else has one.
    assert {(True, True), (True, False), (False, False)} <= told
