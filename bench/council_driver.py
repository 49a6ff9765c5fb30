"""Our side of deliberations: a session through the service, with its ledger sealed and its directory written."""

import asyncio
from pathlib import Path
from typing import Any

from bench.council import configuration, messages, script
from bench.measure import Answer, Asked, serve, timed
from bench.our_driver import settings_for


def session(asked: Asked) -> Answer:
    """One session of so many rounds; what it needs is loaded before."""
    return asyncio.run(_session(asked))


async def _session(asked: Asked) -> Answer:
    from hansard.app.service import Hansard

    folder, rounds = Path(asked["folder"]), asked["rounds"]
    async with Hansard.open(settings=settings_for(str(folder / asked.get("ledger", "ledger.db")))) as hansard:
        _seat(hansard, 1)
        await _held(hansard, folder / "warm", 1)
        _seat(hansard, rounds)
        answer: Answer = {"count": messages(rounds)}
        with timed(answer):
            said = await _held(hansard, folder / "runs", rounds)
        if said != messages(rounds):
            raise SystemExit(f"a session of {rounds} rounds has {said} messages")
        return answer


def _seat(hansard: Any, rounds: int) -> None:
    """A provider that has its answers ready."""
    from hansard.app.wiring import open_script
    from hansard.deliberation.documents import FakeProviderScript
    from hansard.deliberation.documents.scripting import neutral_script

    hansard.pool.given["fake"] = open_script(neutral_script(FakeProviderScript.parse(script(rounds))), "fake")


async def _held(hansard: Any, runs: Path, rounds: int) -> int:
    from hansard.app.setup.convening import Call, convening

    made = convening(hansard.settings, hansard.pool, Call(config=configuration(rounds), runs=runs))
    run = await hansard.deliberations.convene(made)
    sat = await hansard.deliberations.hold(run)
    return len(sat.sitting.artifact["canonical_transcript"])


if __name__ == "__main__":
    from hansard.surfaces.cli.main import collect_seldom

    # As in every process of ours.
    collect_seldom()
    serve({"session": session})
