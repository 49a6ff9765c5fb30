"""What a session is convened with: refused before anything is recorded, and cut to what the host allows."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deliberating import config as plain_config
from deliberating import script, synthesis, turn, verdict
from hansard.app.pool import Pool
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.allowance import Allowance, Charged
from hansard.app.setup.convening import Call, Convening, convening, default_config
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Completion, Cost, Exchange, Message
from hansard.errors import UsageError
from panels import PANELS, Voices, agreeing
from shell import Shell

ANSWERS = script([turn(), turn(), turn(), verdict("finalize"), synthesis()]).as_data()


def settings(folder: Path, **more: Any) -> Settings:
    return Settings(ledger=str(folder / "log.db"), state=folder / "state", **more)


def made(folder: Path, given: Settings | None = None, voices: Voices | None = None, **call: Any) -> Convening:
    found = given or settings(folder)
    pool = Pool(found, {"fake": voices or Voices(id="fake")})
    return convening(found, pool, Call(**{"config": plain_config(), "runs": folder / "runs", **call}))


def data(budget: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {**plain_config(budget=dict(budget or {})).as_data(), **members}


@pytest.mark.parametrize("id", ["a/b", "../../etc", "/etc", "abc\n", "x" * 65, "x" * 300, "", "a b"])
def test_an_id_that_cannot_name_a_directory_is_refused(tmp_path: Path, id: str) -> None:
    for runs in (tmp_path / "runs", None):
        with pytest.raises(UsageError, match="session"):
            made(tmp_path, config=data(session_id=id), runs=runs)
    assert not (tmp_path / "runs").exists()


def test_a_folder_in_which_no_directory_can_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place, why in ((tmp_path / "file", "it is no directory"), (tmp_path / "file" / "x", "Not a directory")):
        with pytest.raises(UsageError, match=f"cannot have their directories in {place}: {why}"):
            made(tmp_path, runs=place)
    if os.getuid() != 0:
        (tmp_path / "shut").mkdir(mode=0o500)
        with pytest.raises(UsageError, match="not writable"):
            made(tmp_path, runs=tmp_path / "shut")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"producer": ("", "1.0.0")}, "Producer/name"),
        ({"producer": ("x", "")}, "Producer/version"),
        ({"config": data({"max_total_cost_usd": 1e300})}, "max_total_cost_usd is 1e"),
        ({"config": data({"max_total_cost_usd": 1e8})}, "at most 9,007,199"),
        ({"config": data(problem_statement="a\ud800")}, "half of a surrogate pair"),
        ({"config": data(originator="a\ud800"), "script": ANSWERS}, "half of a surrogate pair"),
        ({"script": {**ANSWERS, "entries": [{**ANSWERS["entries"][0], "comment": "\ud800"}]}}, "surrogate"),
        ({"script": {}}, "FakeProviderScript"),
        ({"experts": ["a\ud800"]}, "surrogate"),
    ],
)
def test_what_cannot_be_recorded_or_held_is_refused_first(tmp_path: Path, call: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(tmp_path, **call)
    assert not (tmp_path / "log.db").exists()


async def test_nothing_is_recorded_of_a_convening_that_was_put_together_otherwise(tmp_path: Path) -> None:
    good = made(tmp_path)
    async with Hansard.open(settings=settings(tmp_path)) as hansard:
        before = hansard.store.head().size
        for bad in (replace(good, runs="/proc/x"), replace(good, producer={"name": "", "version": "1.0.0"})):
            with pytest.raises(UsageError):
                await hansard.deliberations.convene(bad)
        assert hansard.store.head().size == before


async def test_a_run_whose_directory_cannot_be_made_any_more_has_failed_and_says_why(tmp_path: Path) -> None:
    async with Hansard.open(settings=settings(tmp_path), providers={"fake": Voices(id="fake")}) as hansard:
        run = await hansard.deliberations.convene(made(tmp_path))
        (tmp_path / "runs").rmdir()
        (tmp_path / "runs").write_text("a file now")
        with pytest.raises(UsageError, match="it is no directory"):
            await hansard.deliberations.hold(run)
        view = hansard.runs.show(run)
        assert (view["state"], "it is no directory" in view["reason"]) == ("failed", True)


def test_a_budget_is_the_smaller_of_what_is_asked_for_and_what_is_allowed(tmp_path: Path) -> None:
    flags = Wishes(max_tokens=500, max_usd="0.50", max_seconds=9.5, max_calls=3)
    held = made(tmp_path, wishes=flags)
    budget = held.config.budget
    assert (budget.max_total_tokens, budget.max_total_cost_usd, budget.max_wallclock_seconds) == (500, 0.5, 9)
    assert held.max_calls == 3
    assert [each.split()[0] for each in held.cut] == ["max_total_tokens", "max_total_cost_usd", "max_wallclock_seconds"]
    assert set(held.cut) <= set(held.warnings)
    assert Convening.from_json(held.as_json()) == held
    written = made(tmp_path, settings(tmp_path, budget={"max_tokens": 20, "max_usd": 0.000001, "max_calls": 1}))
    assert (written.config.budget.max_total_tokens, written.max_calls, len(written.cut)) == (20, 1, 2)
    small = made(tmp_path, config=data({"max_total_tokens": 400}), wishes=Wishes(max_tokens=500))
    assert (small.config.budget.max_total_tokens, small.cut) == (400, ())


@pytest.mark.parametrize("price", [None, 0, 1])
def test_where_no_money_is_allowed_nobody_is_convened_who_costs_some(tmp_path: Path, price: int | None) -> None:
    prices = {"prices": {"": {"input": 0, "output": price}}} if price is not None else {}
    given = settings(tmp_path, budget={"max_usd": 0}, **prices)
    pool = Pool(given, {"voices": Voices(unmetered=price is None)})
    call = Call(config=default_config("Keep it?", "voices", "voice"))
    if not price:
        assert convening(given, pool, call).config.budget.max_total_cost_usd == 0
        return
    with pytest.raises(
        UsageError, match=r"no session can be held here: .* no money, and 'voice' \(voices\) costs some"
    ):
        convening(given, pool, call)


@pytest.mark.parametrize("price", [None, 0, 1])
def test_nor_where_the_session_itself_may_spend_none(tmp_path: Path, price: int | None) -> None:
    prices = {"prices": {"": {"input": 0, "output": price}}} if price is not None else {}
    given = settings(tmp_path, panels={"bench": {**PANELS["bench"], "max_usd": 0}}, **prices)
    pool = Pool(given, {"voices": Voices(unmetered=False)})
    free = {**default_config("Keep it?", "voices", "voice").as_data()}
    free["budget"] |= {"max_total_cost_usd": 0.0}
    for call in (Call(config=free), Call(problem="Keep it?", panel=["panel:bench"])):
        if not price:
            assert convening(given, pool, call).config.budget.max_total_cost_usd == 0
            continue
        with pytest.raises(
            UsageError, match=r"max_total_cost_usd leaves it no money, and 'voice' \(voices\) costs some"
        ):
            convening(given, pool, call)


async def held_with(folder: Path, voices: Voices, most: int, **more: Any) -> tuple[Hansard, str]:
    """A session under a cap of calls, and its run."""
    hansard = Hansard.open(settings=settings(folder, budget={"max_calls": most}), providers={"fake": voices})
    config = convening(hansard.settings, hansard.pool, Call(**{"config": plain_config(), **more}))
    run = await hansard.deliberations.convene(config)
    await hansard.deliberations.hold(run)
    return hansard, run


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_no_more_calls_are_made_than_are_allowed(tmp_path: Path, most: int) -> None:
    voices = Voices(id="fake")
    hansard, run = await held_with(tmp_path, voices, most)
    async with hansard:
        view = hansard.deliberations.show(run)
        assert (len(voices.calls), view["outcome"]) == (most, "termination")
        assert "calls that this session may make are used up" in view["last_provider_failure"]["message"]
        assert hansard.runs.show(run)["budget"]["max_calls"] == most
        # What was refused is on the record, and is no call.
        *_, ended = hansard.runs.views(run)
        assert ended["data"]["calls"] == hansard.runs.show(run)["spent"]["calls"] == most
        assert [each["data"].get("calls") for each in hansard.runs.views(run) if each["kind"] == "turn.failed"] == [0]


async def test_as_many_calls_as_are_needed_are_enough(tmp_path: Path) -> None:
    voices = Voices(id="fake")
    hansard, run = await held_with(tmp_path, voices, 5)
    async with hansard:
        assert hansard.deliberations.show(run)["outcome"] == "synthesis"


async def test_first_answers_count_among_the_calls(tmp_path: Path) -> None:
    def says(exchange: Exchange) -> Any:
        first = exchange.schema_name not in ("turn_structured_output", "verdict", "synthesis_content")
        return {"text": "alone", "confidence": 0.5} if first else agreeing(exchange)

    voices = Voices(says, id="fake")
    hansard, _ = await held_with(tmp_path, voices, 4, ensemble=True)
    async with hansard:
        # Three first answers, and one turn.
        assert len(voices.calls) == 4
    fewer = Voices(says, id="fake")
    hansard, run = await held_with(tmp_path, fewer, 2, ensemble=True)
    async with hansard:
        assert len(fewer.calls) == hansard.runs.show(run)["spent"]["calls"] == 2
        assert hansard.runs.views(run)[-1]["data"]["calls"] == 2


async def test_calls_before_an_interruption_count_when_the_session_goes_on(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def never() -> Any:
        asked.set()
        await asyncio.sleep(600)

    voices = Voices(lambda exchange: agreeing(exchange) if len(voices.calls) == 1 else never(), id="fake")
    found = settings(tmp_path, budget={"max_calls": 3})
    async with Hansard.open(settings=found, providers={"fake": voices}) as hansard:
        call = Call(config=plain_config())
        run = await hansard.deliberations.convene(convening(found, hansard.pool, call))
        holding = asyncio.ensure_future(hansard.deliberations.hold(run))
        await asked.wait()
        holding.cancel()
        await asyncio.wait([holding])
        willing = hansard.pool.given["fake"] = Voices(id="fake")
        await hansard.deliberations.hold(run)
        # One was answered, one was under way, and the third is left.
        assert len(willing.calls) == 1
        assert hansard.runs.show(run)["spent"]["calls"] == hansard.runs.views(run)[-1]["data"]["calls"] == 3


async def test_a_panel_of_hansard_toml_keeps_its_own_cap_of_calls(tmp_path: Path) -> None:
    panels = {"bench": {**PANELS["bench"], "max_calls": 1}}
    voices = Voices()
    async with Hansard.open(settings=settings(tmp_path, panels=panels), providers={"voices": voices}) as hansard:
        call = Call(problem="Keep it?", panel=["panel:bench"])
        run = await hansard.deliberations.convene(convening(hansard.settings, hansard.pool, call))
        await hansard.deliberations.hold(run)
    assert len(voices.calls) == 1


def test_a_limit_of_money_needs_a_price_for_every_model(tmp_path: Path) -> None:
    billed = Voices(id="fake", unmetered=False)
    with pytest.raises(UsageError, match=r"the price of 'm' .fake. is not known"):
        made(tmp_path, voices=billed, wishes=Wishes(max_usd="1"))
    priced = settings(tmp_path, prices={"m": {"input": 1, "output": 1}})
    assert made(tmp_path, priced, billed, wishes=Wishes(max_usd="1")).cut
    # A session's own cap asks for none.
    assert not made(tmp_path, voices=billed).cut


@pytest.mark.parametrize("strategy", ["fixed", "rules"])
def test_whoever_has_an_expert_made_is_told_that_a_selector_may_leave_him_out(strategy: str, tmp_path: Path) -> None:
    chosen = {**data()["selector"], "strategy": strategy}
    warned = made(tmp_path, config=data(selector=chosen), experts=["law"]).warnings
    assert ["may leave out an expert" in each for each in warned] == [True] * (strategy == "rules")


@pytest.mark.parametrize(
    ("left", "said"), [(0, "are used up"), (20, "are used up but for 20, too few for the next question and its answer")]
)
async def test_whoever_has_too_few_tokens_left_to_be_asked_is_told_how_many(left: int, said: str) -> None:
    voices = Voices()
    question = Exchange(messages=(Message(role="user", content="Keep it? " * 50),), model="voice")
    answer = await Charged(voices, Allowance(calls=None, tokens=left)).complete(question)
    assert answer.failure is not None
    assert answer.failure.message == f"the tokens that this session may make {said}"
    assert not voices.calls


class Silent(Voices):
    """Says what it has used, and not what that costs."""

    async def complete(self, exchange: Exchange) -> Completion:
        return replace(await super().complete(exchange), cost=Cost())


@pytest.mark.parametrize("calls", [None, 100])
async def test_what_a_provider_does_not_price_costs_in_a_session_what_the_prices_say(
    tmp_path: Path, calls: int | None
) -> None:
    given = settings(tmp_path, prices={"voice": {"input": 100_000, "output": 0}}, budget={"max_usd": 1.5})
    silent = Silent(unmetered=False)
    async with Hansard.open(settings=given, providers={"voices": silent}) as hansard:
        call = Call(config=default_config("Keep it?", "voices", "voice"), max_calls=calls)
        run = await hansard.deliberations.convene(convening(given, hansard.pool, call))
        sitting = (await hansard.deliberations.hold(run)).sitting
    # A dollar for each answer of ten tokens.
    assert (sitting.reason, len(silent.calls)) == ("budget_exceeded", 2)
    assert sitting.artifact["cumulative_usage"]["cost_usd"] == 2


def test_a_session_that_no_panel_can_hold_says_why_wherever_it_is_shown(shell: Shell) -> None:
    wrong = data()
    wrong["agents"][0]["persona_ref"] = "zork"
    config, answers = shell.write("c.json", wrong), shell.write("s.json", ANSWERS)
    code, out = shell.type("deliberate", "--config", config, "--script", answers)
    assert code == 11
    assert "why      Config agent ada: names the persona 'zork', which nobody knows [R-9.4.1-2]" in out
    view = shell.asks("deliberate", "--config", config, "--script", answers)
    assert "'zork'" in view["why"]
    assert "'zork'" in (Path(view["run_dir"]) / "manifest.json").read_text()
    repeated = data()
    repeated["selector"]["default_deliberation_panel"] = ["ada", "ada"]
    twice = shell.asks("deliberate", "--config", shell.write("d.json", repeated), "--script", answers)
    assert "names 'ada' twice" in twice["why"]
    code, out = shell.type("session", "validate", config)
    assert (code, "names the persona 'zork'" in out) == (1, True)


def test_a_command_that_is_refused_leaves_no_run_behind(shell: Shell) -> None:
    (shell.folder / "file").write_text("mine")
    config, answers = shell.write("c.json", data()), shell.write("s.json", ANSWERS)
    for words in (("--output", "file"), ("--output", "/proc/x"), ("--producer", "", "1.0.0"), ("--panel", "ada,ada")):
        assert shell.type("deliberate", "--config", config, "--script", answers, *words)[0] == 2
    bad = shell.write("bad.json", data(session_id="../../etc"))
    assert shell.type("deliberate", "--config", bad, "--script", answers)[0] == 2
    assert not list(shell.folder.rglob("*.db"))
    assert (shell.folder / "file").read_text() == "mine"


def test_a_session_is_not_held_again_under_other_limits(shell: Shell) -> None:
    config, answers = shell.write("c.json", data()), shell.write("s.json", ANSWERS)
    shell.type("deliberate", "--config", config, "--script", answers)
    (shell.folder / "hansard.toml").write_text("[budget]\nmax_tokens = 20\n")
    code, _ = shell.type("session", "execution-replay", "runs/s-1", "--script", answers)
    assert (code, "only with the limits that it had: max_total_tokens is 20" in shell.err) == (1, True)
