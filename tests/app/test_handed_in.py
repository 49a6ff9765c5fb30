"""Providers that a Python program hands in, the names that they and others have, and how it comes to an end."""

import asyncio
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hansard import Ended, Hansard, Run, Settings
from hansard.app.driving.runs import MAX_REQUEST
from hansard.app.settings import read_settings
from hansard.app.setup.wishes import Wishes
from hansard.errors import ProviderError, UsageError
from hansard.providers.base import Provider
from running import Answers, desk, plan, task

CHECKS = Wishes(judge="checks", answer="join")
LONG = "n" * 257


async def test_a_provider_whose_name_reads_like_a_model_of_another_is_refused_and_the_next_is_not() -> None:
    async with Hansard.open("memory:") as hansard:
        with pytest.raises(UsageError, match="a provider cannot be called 'a:b': behind a colon stands a model"):
            await hansard.submit("please", lane="backend", provider=Answers(id="a:b"), wishes=CHECKS)
        run = await hansard.submit("please", lane="backend", provider=Answers(id="a"), wishes=CHECKS)
        assert await run.answer()


async def test_the_ledger_that_is_named_is_the_one_that_is_opened_also_beside_settings(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "another.db"), state=tmp_path / "state")
    for named in (tmp_path / "this.db", str(tmp_path / "this.db")):
        async with Hansard.open(named, settings=settings) as hansard:
            assert hansard.store.place == hansard.settings.ledger == str(tmp_path / "this.db")
    assert not (tmp_path / "another.db").exists()


async def test_what_is_no_provider_is_refused_in_words_and_leaves_no_ledger_open(tmp_path: Path) -> None:
    said, nobody = "is no provider: it has no id, unmetered, complete, close, describe", cast(Provider, object())
    with pytest.raises(UsageError, match=said):
        Hansard.open(tmp_path / "log.jsonl", providers={"nobody": nobody})
    # A ledger in JSON lines has one writer, who would still be the one before.
    async with Hansard.open(tmp_path / "log.jsonl") as hansard:
        with pytest.raises(UsageError, match=said):
            await hansard.submit("please", lane="backend", provider=nobody)


async def test_a_provider_that_is_handed_in_for_a_run_is_asked_for_that_one_and_its_retries_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "hansard.toml").write_text('[providers.cloud]\nkind = "command"\nargv = ["echo", "configured"]\n')
    settings = read_settings("memory:", environ={"PATH": os.defpath}, folder=tmp_path)
    own = Answers(lambda _: "handed in", id="cloud")
    async with Hansard.open(settings=settings) as hansard:
        lent = await hansard.submit("please", lane="backend", provider=own, wishes=CHECKS)
        assert await lent.answer() == "handed in"
        for named in ("cloud", None):
            run = await hansard.submit("please", lane="backend", provider=named, wishes=CHECKS)
            assert (await run.answer()).strip() == "configured"
        await hansard.runs.retry(lent.id, "task")
        assert len(own.calls) == 2
    async with Hansard.open("memory:") as hansard:
        await hansard.submit("please", lane="backend", provider=own, wishes=CHECKS)
        with pytest.raises(UsageError, match="nobody can be asked yet"):
            await hansard.submit("please", lane="backend", wishes=CHECKS)


class Mute(Answers):
    """Cannot say what it is."""

    def describe(self) -> Mapping[str, str]:
        raise RuntimeError("I forgot")


class Vague(Answers):
    """Does not say what it is, or not in texts."""

    def __init__(self, said: object) -> None:
        super().__init__()
        self._said = said

    def describe(self) -> Mapping[str, str]:
        return cast(Mapping[str, str], self._said)


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        (Mute(), r"it cannot say what it is \(RuntimeError: I forgot\)"),
        *(
            (Vague(said), "describe.. gives a mapping of texts")
            for said in (None, {"model": ["a"]}, {"x": float("nan")})
        ),
        (Answers(id=cast(str, 5)), "its id is a text, and describe.. gives a mapping of texts"),
        (cast(Provider, Answers), "is no provider"),
    ],
)
async def test_a_provider_that_does_not_say_what_it_is_is_none(provider: Provider, said: str) -> None:
    async with Hansard.open("memory:") as hansard:
        with pytest.raises(UsageError, match=said):
            await hansard.submit("please", lane="backend", provider=provider, wishes=CHECKS)
        assert not hansard.runs.listed()


async def test_an_object_that_was_given_its_methods_is_a_provider_like_any_other() -> None:
    whole = Answers(lambda _: "said by its parts")
    parts = {name: getattr(whole, name) for name in ("id", "unmetered", "complete", "close", "describe")}
    async with Hansard.open("memory:") as hansard:
        provider = cast(Provider, SimpleNamespace(**parts))
        run = await hansard.submit("please", lane="backend", provider=provider, wishes=CHECKS)
        assert await run.answer() == "said by its parts"


@pytest.mark.parametrize("request_", [None, 5, b"please", ["please"]])
async def test_a_request_that_is_no_text_is_refused_in_words(request_: object) -> None:
    async with Hansard.open("memory:") as hansard:
        with pytest.raises(UsageError, match=f"must be text, and is of type {type(request_).__name__}"):
            await hansard.submit(cast(str, request_), provider=Answers())
        with pytest.raises(UsageError, match="wishes must be made with Wishes"):
            await hansard.submit("please", provider=Answers(), wishes=cast(Wishes, {"judge": "checks"}))
        assert not hansard.runs.listed()


async def test_a_request_may_be_so_long_and_no_longer() -> None:
    at = desk(Answers())
    assert await at.submit("x" * MAX_REQUEST)
    with pytest.raises(UsageError, match="the request has 10,000,001 characters; at most 10,000,000 are taken"):
        await at.submit("x" * (MAX_REQUEST + 1))


async def test_a_run_that_is_not_there_is_told_to_whoever_asks_for_its_state_or_its_events() -> None:
    at = desk(Answers())
    with pytest.raises(UsageError, match="there is no run 'nobody'"):
        at.runs.state("nobody")
    with pytest.raises(UsageError, match="there is no run 'nobody'"):
        await anext(at.runs.follow("nobody"))


@pytest.mark.parametrize(
    ("provider", "settings"),
    [
        (Answers(id=LONG), {}),
        (Answers(model=LONG), {}),
        (Answers(), {"roles": {"validator": f"told:{LONG}"}}),
        (Answers(), {"tiers": {LONG: "told"}, "run": {"ladder": [LONG]}}),
        (Answers(), {"gates": [{"name": LONG, "before": "plan"}]}),
    ],
)
async def test_a_name_that_no_entry_holds_is_refused_before_there_is_a_run(
    provider: Answers, settings: dict[str, object]
) -> None:
    at = desk(provider, settings=settings)
    with pytest.raises(UsageError, match="the record takes 256 at most"):
        await at.run(plan=plan(task("a")), wishes=CHECKS)
    assert not at.runs.listed()


async def test_each_run_asks_the_provider_that_was_handed_in_for_it_also_behind_a_gate() -> None:
    first, second = Answers(lambda _: "said by the first"), Answers(lambda _: "said by the second")
    gated = Wishes(judge="checks", answer="join", gates=("plan",))
    async with Hansard.open("memory:") as hansard:
        waits = await hansard.submit("please", lane="backend", provider=first, wishes=gated)
        runs = [
            await hansard.submit("please", lane="backend", provider=each, wishes=CHECKS) for each in (first, second)
        ]
        assert [await run.answer() for run in runs] == ["said by the first", "said by the second"]
        [gate] = (await waits.ended()).gates
        await hansard.gates.decide(gate, "approve")
        assert (await hansard.runs.drive(waits.id)).state == "answered"
        assert await waits.answer() == "said by the first"
    assert (len(first.calls), len(second.calls)) == (2, 1)


async def test_what_was_handed_in_for_a_run_outlasts_an_interruption_and_is_let_go_when_it_has_ended() -> None:
    async def silent_at_first(_: object) -> str:
        if len(own.calls) == 1:
            await asyncio.sleep(600)
        return "handed in"

    own = Answers(silent_at_first)
    async with Hansard.open("memory:") as hansard:
        run = await hansard.submit("please", lane="backend", provider=own, wishes=CHECKS)
        driving = hansard.runs.begin(run.id)
        await own.asked_times(1)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        another = Answers(lambda _: "of the same name")
        other = await hansard.submit("please", lane="backend", provider=another, wishes=CHECKS)
        assert await other.answer() == "of the same name"
        assert (await hansard.runs.resume(run.id)).state == "answered"
        assert hansard.runs.answer(run.id) == b"handed in"
        # A service that stays would keep the objects of all its callers for ever.
        assert not hansard.pool._kept


async def test_a_run_that_waits_for_people_is_told_to_whoever_wants_its_answer_with_what_goes_on_from_there() -> None:
    gated = Wishes(judge="checks", answer="join", gates=("plan",))
    async with Hansard.open("memory:") as hansard:
        run: Run = await hansard.submit("please", lane="backend", provider=Answers(), wishes=gated)
        [gate] = (await run.ended()).gates
        with pytest.raises(UsageError, match=f"has no answer yet: it waited for people at {gate}"):
            await run.answer()
        await hansard.gates.decide(gate, "approve")
        ended: Ended = await hansard.runs.resume(run.id)
        assert ended.state == "answered"
        assert await run.answer()


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"gates": "plan"}, "gates must be a tuple of texts, not 'plan'"),
        ({"ladder": "cheap"}, "ladder must be a tuple of texts"),
        ({"roster": "roster.toml"}, r"roster must be made with Roster\(…\), not 'roster.toml'"),
        ({"policy": {"deny_lanes": ["backend"]}}, r"policy must be made with Policy\(…\)"),
        ({"verifier": object()}, "verifier must be text"),
    ],
)
def test_a_wish_of_another_type_is_refused_where_it_is_made(wish: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Wishes(**wish)


async def test_whoever_waits_for_a_run_whose_hansard_is_closed_hears_that_it_was_interrupted() -> None:
    async with Hansard.open("memory:") as hansard:
        run = await hansard.submit("please", lane="backend", provider=Answers(pause_s=3600.0), wishes=CHECKS)
        waiting = [asyncio.ensure_future(each) for each in (run.ended(), run.answer())]
        await asyncio.sleep(0)
    ended, refused = await asyncio.gather(*waiting, return_exceptions=True)
    assert getattr(ended, "state", ended) == "interrupted"
    assert isinstance(refused, ProviderError)
    assert "ended without an answer: interrupted" in str(refused)


@pytest.mark.parametrize("turns", [1, 2, 4, 8])
async def test_closing_that_is_cancelled_closes_all_the_same(tmp_path: Path, turns: int) -> None:
    before = set(threading.enumerate())
    hansard = Hansard.open(tmp_path / "log.db")
    run = await hansard.submit("please", lane="backend", provider=Answers(pause_s=3600.0), wishes=CHECKS)
    closing = asyncio.ensure_future(hansard.__aexit__())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert (await run.ended()).state == "interrupted"
    assert "hansard-writer" not in {each.get_name() for each in asyncio.all_tasks()}
    assert not [each.name for each in set(threading.enumerate()) - before if each.name.startswith("hansard-writer")]


async def test_closing_comes_to_an_end_in_the_moment_in_which_a_run_has_ended() -> None:
    here = desk(Answers())
    task_of_run = here.runs.begin(await here.submit(plan=plan(task("a"))))
    while not task_of_run.done():  # noqa: ASYNC110 - in each turn of the loop, and not behind what is called back
        await asyncio.sleep(0)
    # The loop has not come yet to what is called back at its end. No timeout of a loop ends what never lets go of it.
    before = signal.signal(signal.SIGALRM, never_ends)
    signal.alarm(60)
    try:
        await here.runs.close()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert task_of_run.result().state == "answered"


def never_ends(*_: object) -> None:
    raise AssertionError("closing never ends")
