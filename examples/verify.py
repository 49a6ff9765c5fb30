"""Verify a ledger with the standard-library verifier, change one word in it, and verify it again."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from hansard import Hansard, Settings, Wishes
from hansard.ledger.verify import Options, verify


async def record(folder: Path) -> Path:
    ledger = folder / "ledger.db"
    async with Hansard.open(settings=Settings(ledger=str(ledger), state=folder / "state")) as hansard:
        run = await hansard.submit("compare three queues", wishes=Wishes(provider="rehearsal"))
        await run.ended()
    return ledger


with tempfile.TemporaryDirectory() as name:
    ledger = asyncio.run(record(Path(name)))
    report = verify(ledger, Options(deep=True))
    print("ok:", report.ok, "entries:", report.size)
    with closing(sqlite3.connect(ledger)) as database:
        database.execute("UPDATE entries SET line = replace(line, 'answered', 'failed') WHERE kind = 'run.ended'")
        database.commit()
    report = verify(ledger, Options(deep=True))
    print("ok:", report.ok, "because:", report.first_bad.message if report.first_bad else "")
