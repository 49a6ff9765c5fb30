"""A run is routed by the whole roster of whoever submits it, as `hansard route` would route its request."""

from dataclasses import replace
from pathlib import Path

from hansard import Hansard
from hansard.app.lanes.routing import route
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.domain.roster import Lane, Roster
from roster_files import roster_as_toml
from running import Answers

HOTEL = Roster(
    name="hotel",
    lanes=(
        Lane(name="desk", category="house", domain="Guests", vocabulary=("reservation", "late arrival", "room key")),
        Lane(name="kitchen", category="house", domain="Food", vocabulary=("breakfast buffet", "allergies", "menu")),
    ),
)
REQUEST = "a late arrival has lost the room key of the reservation"


def settings(folder: Path, roster: Roster | None = None) -> Settings:
    file = folder / "roster.toml"
    if roster:
        file.write_text(roster_as_toml(roster), "utf-8")
    return Settings(ledger=str(folder / "x.db"), state=folder / "state", roster_file=file if roster else None)


async def routed(hansard: Hansard, run: str) -> object:
    await hansard.runs.drive(run)
    entry = next(each for each in hansard.runs.entries(run) if each.kind == "run.routed")
    return entry.data.get("lane")


async def test_a_run_with_a_roster_of_ones_own_is_routed_by_its_words(tmp_path: Path) -> None:
    assert route(REQUEST, HOTEL)["lane"] == "desk"
    wishes = Wishes(roster=HOTEL, judge="checks", answer="join")
    async with Hansard.open(settings=settings(tmp_path), providers={"told": Answers()}) as hansard:
        config = run_config(hansard.settings, hansard.pool, wishes)
        run = await hansard.runs.submit(REQUEST, config, mode="single")
        assert await routed(hansard, run) == "desk"


async def test_whoever_drives_it_elsewhere_has_the_words_from_his_own_file(tmp_path: Path) -> None:
    found = settings(tmp_path, HOTEL)
    async with Hansard.open(settings=found, providers={"told": Answers()}) as hansard:
        config = run_config(found, hansard.pool, Wishes(judge="checks", answer="join"))
        first, second = [await hansard.runs.submit(REQUEST, config, mode="single") for _ in range(2)]
    async with Hansard.open(settings=found, providers={"told": Answers()}) as elsewhere:
        assert await routed(elsewhere, first) == "desk"
    gone = replace(found, roster_file=tmp_path / "gone.toml")
    async with Hansard.open(settings=gone, providers={"told": Answers()}) as elsewhere:
        assert await routed(elsewhere, second) is None


async def test_a_provider_that_is_named_for_a_run_is_asked_instead_of_those_that_lanes_name(tmp_path: Path) -> None:
    own = replace(HOTEL, lanes=tuple(replace(lane, provider="own") for lane in HOTEL.lanes))
    found, told, spared = settings(tmp_path, own), Answers(id="told"), Answers(id="own")
    wishes = Wishes(provider="told", judge="checks", answer="join")
    async with Hansard.open(settings=found, providers={"told": told, "own": spared}) as hansard:
        config = run_config(found, hansard.pool, wishes)
        assert config.targets == ("told",)
        run, later = [await hansard.runs.submit(REQUEST, config, mode="single") for _ in range(2)]
        assert await routed(hansard, run) == "desk"
    assert (len(told.asked("worker")), spared.asked("worker")) == (1, [])
    async with Hansard.open(settings=found, providers={"told": told, "own": spared}) as elsewhere:
        assert await routed(elsewhere, later) == "desk"
