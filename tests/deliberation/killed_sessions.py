"""A program that holds a session and is killed at a moment that nobody chose, then resumes it, again and again.

The kernel ends the process at any instruction: SIGALRM has its default disposition, so no code of ours runs. Prints one
JSON line per seed: when it was killed, how many entries were on the record then, and whether the resumed artifact is the right one.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from deliberating import Heard, Room, config, fails, play, scripted, synthesis, turn, verdict
from hansard.deliberation.inventory import seal_breaches
from hansard.deliberation.protocol.moves import Ask
from hansard.deliberation.protocol.rules import Rules
from hansard.deliberation.session import Sitting
from hansard.deliberation.story import read_story
from hansard.domain.council import SessionArchived
from hansard.errors import UsageError
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft

AGENTS = ("ada", "ben", "cyd", "dan", "eve")
ROUNDS = 6


SETTING = config(
    AGENTS,
    budget={"max_rounds": ROUNDS},
    on_agent_failure="continue_without",
    max_deferred_queue_length=2,
    per_agent_retry_budget=3,
)


def answers() -> list[Heard]:
    """Six rounds of five agents with forks, drains, drops and retries."""
    chance = random.Random(6)

    def answer(ask: Ask) -> Heard:
        if ask.expect == "verdict":
            return verdict("continue" if ask.round < ROUNDS else "finalize")
        if ask.expect == "synthesis_content":
            return synthesis()
        if chance.random() < 0.15:
            return fails("network", tokens=1)
        return turn(*chance.sample((*AGENTS, "nobody"), chance.randrange(4)))

    return play(Rules.of(SETTING), answer, panel=AGENTS).heard


async def live(folder: Path, heard: list[Heard]) -> Sitting:
    """Hold the session, or what is left of it."""
    path = folder / "log.db"
    store = SqliteStore.open(path) if path.exists() else SqliteStore.create(path, genesis_draft())
    room = Room(store)
    try:
        try:
            read_story(store, room.run)
        except UsageError:
            # Killed before the session was convened: its directory may be there, and nothing was said in it.
            shutil.rmtree(folder / "runs", ignore_errors=True)
            return await room.hold(SETTING, scripted(heard), runs=folder / "runs")
        return await room.resume(heard, runs=folder / "runs")
    finally:
        store.close()


def child(folder: Path, heard: list[Heard], after_s: float) -> None:
    """Live in a process of its own, which ends after so many seconds if it has not ended by then."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    asyncio.run(live(folder, heard))
    os._exit(0)


def judge(folder: Path, heard: list[Heard], wanted: dict[str, Any]) -> dict[str, Any]:
    store = SqliteStore.open(folder / "log.db") if (folder / "log.db").exists() else None
    size = store.head().size if store else 0
    if store:
        store.close()
    sitting = asyncio.run(live(folder, heard))
    store = SqliteStore.open(folder / "log.db")
    archived = read_story(store, "r1").archived
    ended = sum(entry.kind == "session.ended" for entry in map(store.entry, range(store.head().size)))
    store.close()
    assert archived is not None
    assert isinstance(archived.fact, SessionArchived)
    broken = seal_breaches(folder / "runs" / "s-1", archived.fact.manifest.data)
    same = sitting.artifact == wanted and sitting.fault is None and ended == 1
    return {"entries": size, "same": same, "broken": [str(each) for each in broken]}


def main(folder: Path, seeds: range) -> None:
    heard, took, wanted = answers(), 0.0, dict[str, Any]()
    for name in ("cold", "warm"):
        (folder / name).mkdir()
        began = time.perf_counter()
        wanted = asyncio.run(live(folder / name, heard)).artifact
        took = time.perf_counter() - began
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        after_s = random.Random(seed).uniform(0.001, took)
        child(place, heard, after_s)
        print(json.dumps({"seed": seed, "after_s": after_s, **judge(place, heard, wanted)}), flush=True)
        shutil.rmtree(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3])))
