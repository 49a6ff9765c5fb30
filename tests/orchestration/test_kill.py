"""A run survives whatever becomes of its driver, at any moment: another process goes on from the record."""

import signal
import time
from pathlib import Path
from random import Random

import pytest

from orchestration.killing import Ground, forty_tasks, repeated

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found by /proc")


@pytest.fixture(scope="module")
def usual_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long the run takes here when nobody disturbs it."""
    ground = Ground.laid(tmp_path_factory.mktemp("undisturbed"), plan=forty_tasks())
    with ground.driven() as process:
        start = time.perf_counter()
        told, error = process.communicate(timeout=120)
        took = time.perf_counter() - start
    assert told == "answered\n", error
    kinds = [entry.kind for entry in ground.entries()]
    assert kinds.count("task.escalated") == kinds.count("task.attempted") - 40 > 0
    return took


def finishes(ground: Ground, kills: int) -> None:
    """What has to hold once the run was resumed for the last time; a kill may have come when all was done."""
    assert ground.forsaken() == [], "processes outlived their driver"
    assert ground.ended() or ground.drive() == "answered"
    entries = ground.entries()
    kinds = [entry.kind for entry in entries]
    assert kinds.count("run.answered") == kinds.count("run.ended") == kinds.count("plan.made") == 1
    assert 1 <= kinds.count("run.claimed") <= kills + 1
    assert repeated(entries) == []
    passed = {entry.data["task"] for entry in entries if entry.kind == "task.judged" and entry.data["ok"]}
    planned = next(int(entry.data["tasks"]) for entry in entries if entry.kind == "plan.made")
    assert len(passed) == planned
    report = ground.verified()
    assert report.ok, report.first_bad
    assert ground.forsaken() == []


def killed_at_random(folder: Path, seed: int, usual_s: float) -> None:
    """Every fourth run has a validator; the others are judged by the checks of the plan alone, in about half the time."""
    by_model = seed % 4 == 0
    ground = Ground.laid(folder, plan=forty_tasks(), judge="model" if by_model else "checks")
    usual_s = usual_s if by_model else usual_s / 2
    moments = Random(seed)
    kills = 1 + moments.randrange(2)
    for _ in range(kills):
        ground.strike(moments.uniform(0, usual_s))
    finishes(ground, kills)


@pytest.mark.parametrize("seed", range(20))
def test_a_run_that_is_killed_at_any_moment_is_finished_by_another_process(
    tmp_path: Path, usual_s: float, seed: int
) -> None:
    killed_at_random(tmp_path, seed, usual_s)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20, 220))
def test_a_run_that_is_killed_at_any_of_many_moments_is_finished_by_another_process(
    tmp_path: Path, usual_s: float, seed: int
) -> None:
    killed_at_random(tmp_path, seed, usual_s)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("role", ["planner", "cheap", "judge", "writer"])
def test_a_run_that_is_killed_while_a_role_is_asked_asks_it_again_and_finishes(tmp_path: Path, role: str) -> None:
    ground = Ground.laid(tmp_path)
    ground.let_wait(role)
    ground.strike_when(role)
    ground.let_wait("nobody")
    finishes(ground, kills=1)


def test_a_role_that_kills_its_driver_each_time_is_given_up_and_what_it_took_is_on_the_record(tmp_path: Path) -> None:
    ground = Ground.laid(tmp_path)
    ground.let_kill("judge")
    for _ in range(4):
        with ground.driven() as process:
            assert process.wait(timeout=60) == -signal.SIGKILL
    assert ground.drive() == "failed"
    last = ground.entries()[-1]
    assert ground.asked().count("judge") == 4
    assert (last.data["reason"], last.data["calls"]) == ("nothing_passed", len(ground.asked()))
    assert ground.verified().ok
    assert ground.forsaken() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("role", "number"),
    [("planner", signal.SIGINT), ("cheap", signal.SIGTERM), ("judge", signal.SIGINT), ("writer", signal.SIGTERM)],
)
def test_a_run_that_is_interrupted_says_so_in_the_record_and_can_be_resumed(
    tmp_path: Path, role: str, number: signal.Signals
) -> None:
    ground = Ground.laid(tmp_path)
    ground.let_wait(role)
    told = ground.strike_when(role, number=number)
    newest = ground.entries()[-1]
    assert (newest.kind, newest.data["by"]) == ("run.interrupted", "signal"), told
    ground.let_wait("nobody")
    finishes(ground, kills=1)
