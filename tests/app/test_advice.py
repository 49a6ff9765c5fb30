"""What errors advise to type: it names the ledger that they speak of, which need not be the one of hansard.toml."""

from pathlib import Path

import pytest

from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.errors import UsageError


async def test_whoever_does_a_task_again_before_there_is_a_plan_is_told_where_to_go_on(tmp_path: Path) -> None:
    place = tmp_path / "the other.db"
    async with Hansard.open(settings=Settings(ledger=str(place), state=tmp_path / "state")) as hansard:
        config = run_config(hansard.settings, hansard.pool, Wishes(provider="rehearsal"))
        run = await hansard.runs.submit("please", config)
        with pytest.raises(UsageError, match=f"`hansard runs resume {run} --ledger '{place}'` goes on with it"):
            await hansard.runs.retry(run, "schema")
        with pytest.raises(UsageError, match=f"`hansard runs --ledger '{place}'` lists what there is"):
            await hansard.deliberations.resume(run)
