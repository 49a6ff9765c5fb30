"""A process that drives the run of a folder, for tests that kill it: submits what lies there, or goes on from the record."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from hansard.app.service import Hansard
from hansard.app.settings import read_settings


async def drive(folder: Path) -> str:
    """How the run ended. Says `ready` before it touches anything of the run."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    settings = read_settings(environ={"PATH": "/usr/bin:/bin", "HANSARD_STATE": str(folder / "state")}, folder=folder)
    async with Hansard.open(settings=settings) as hansard:
        print("ready", flush=True)
        newest = hansard.runs.listed(limit=1)
        if newest:
            return (await hansard.runs.resume(newest[0]["run"])).state
        plan = folder / "plan.json"
        run = await hansard.submit("do it", plan=json.loads(plan.read_text("utf-8")) if plan.exists() else None)
        return (await run.ended()).state


if __name__ == "__main__":
    print(asyncio.run(drive(Path(sys.argv[1]))), flush=True)
