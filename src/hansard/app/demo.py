"""The demonstration: a small run on the record, its verification, and copies that somebody tampered with.

It works on a real ledger with the real recorder and verifier; only the models' answers are written down here.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.verifying import tools
from hansard.domain.fact import Body
from hansard.domain.work import (
    PlanMade,
    RunAnswered,
    RunClaimed,
    RunConfigured,
    RunEnded,
    RunRequested,
    TaskAttempted,
    TaskJudged,
    TaskReturned,
)
from hansard.ledger.verify import Options, Report, verify

RUN = "demo-1"

_TASKS = (
    (
        "schema",
        "lane:backend",
        "Design the table for accounts.",
        "accounts(id, email_hash, password_hash, created_at), unique on email_hash.",
    ),
    (
        "limits",
        "lane:sre-ops",
        "Propose rate limits for sign-in.",
        "Five attempts per account and minute, fifty per address and hour, then a delay.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """One way to tamper, and what the two grades of verification say."""

    name: str
    chain: Report
    deep: Report


async def record_run(ledger: Path, state: Path) -> int:
    """Record the small run; gives the number of entries."""
    async with Hansard.open(settings=Settings(ledger=str(ledger), state=state)) as hansard:
        recorder = hansard.recorder
        asked = await recorder.record(
            RunRequested(
                mode="request", surface="cli", request=Body.text("Plan a sign-in service: storage and abuse limits.")
            ),
            actor="human:demo",
            run=RUN,
        )
        config = await recorder.record(
            RunConfigured(nonce="0" * 32, software="demo", max_calls=10, config=Body.json(b'{"provider":"scripted"}')),
            actor="engine",
            run=RUN,
            causes=[asked],
        )
        claim = hansard.claim(RUN)
        await recorder.record(
            RunClaimed(epoch=claim.epoch, because="new"), actor="engine", run=RUN, causes=[asked], claim=claim
        )
        plan = await recorder.record(
            PlanMade(
                by="user", tasks=len(_TASKS), edges=0, waves=1, plan=Body.text("\n".join(task[2] for task in _TASKS))
            ),
            actor="coordinator",
            run=RUN,
            causes=[config],
            claim=claim,
        )
        verdicts = []
        for task, lane, instruction, output in _TASKS:
            attempt = await recorder.record(
                TaskAttempted(
                    task=task,
                    lane=lane.removeprefix("lane:"),
                    attempt=1,
                    rung="cheap",
                    provider="scripted",
                    model="script",
                    template="demo",
                    prompt=Body.text(instruction),
                ),
                actor=lane,
                run=RUN,
                causes=[plan],
                claim=claim,
            )
            result = await recorder.record(_returned(task, output), actor=lane, run=RUN, causes=[attempt], claim=claim)
            verdicts.append(
                await recorder.record(
                    TaskJudged(
                        task=task, attempt=1, ok=True, by="checks", same_model=False, reasons=Body.text("not empty")
                    ),
                    actor="validator",
                    run=RUN,
                    causes=[result],
                    claim=claim,
                )
            )
        answer = await recorder.record(
            RunAnswered(complete=True, answer=Body.text("\n".join(task[3] for task in _TASKS))),
            actor="synthesizer",
            run=RUN,
            causes=verdicts,
            claim=claim,
        )
        await recorder.record(
            RunEnded(state="answered", reason="done", calls=2, tokens=80, cost_usd_nano=0, elapsed_us=1000),
            actor="engine",
            run=RUN,
            causes=[answer],
            claim=claim,
        )
        hansard.store.release(claim)
        return hansard.store.head().size


def check(ledger: Path, *, deep: bool = False, pin: str | None = None) -> Report:
    return verify(ledger, Options(deep=deep, pin=pin), tools())


def tamper(ledger: Path, folder: Path) -> Iterator[Tampering]:
    """Tamper with copies, one way each, and verify every copy at both grades."""
    for number, (name, change) in enumerate(_WAYS, 1):
        copy = folder / f"tampered-{number}.db"
        shutil.copyfile(ledger, copy)
        with closing(sqlite3.connect(copy)) as database, database:
            change(database)
        with closing(sqlite3.connect(copy)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield Tampering(name=name, chain=check(copy), deep=check(copy, deep=True))


def _returned(task: str, output: str) -> TaskReturned:
    return TaskReturned(
        task=task,
        attempt=1,
        ok=True,
        finish="stop",
        model="script",
        input_tokens=20,
        output_tokens=20,
        cached_tokens=0,
        tokens_estimated=True,
        cost_usd_nano=0,
        cost_basis="unmetered",
        latency_us=500,
        output=Body.text(output),
    )


def _edit_verdict(database: sqlite3.Connection) -> None:
    database.execute(
        "UPDATE entries SET line = replace(line, '\"ok\":true', '\"ok\":false') WHERE kind = 'task.judged'"
    )


def _drop_entry(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM entries WHERE seq = 6")


def _swap_body(database: sqlite3.Connection) -> None:
    row = database.execute("SELECT max(id) FROM bodies WHERE id < ?", (7 << 8,)).fetchone()
    database.execute("UPDATE bodies SET body = ? WHERE id = ?", (b"Unlimited attempts are fine.", row[0]))


def _lose_body(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM bodies WHERE id = (SELECT min(id) FROM bodies)")


def _hide_by_index(database: sqlite3.Connection) -> None:
    """Point the causal index elsewhere, so that a query would miss an effect."""
    database.execute("UPDATE causes SET cause = 0 WHERE seq = 7")


def _rebuild_tail(database: sqlite3.Connection) -> None:
    """Change the last entry and put the head right: only a signature over the end can tell."""
    seq, line = database.execute("SELECT seq, line FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    changed = line.replace('"calls":2', '"calls":9')
    database.execute("UPDATE entries SET line = ? WHERE seq = ?", (changed, seq))
    database.execute("UPDATE head SET leaf = ?", (sha256(b"\x00" + changed.encode()).digest(),))


_WAYS: tuple[tuple[str, Callable[[sqlite3.Connection], None]], ...] = (
    ("turned a verdict round", _edit_verdict),
    ("dropped an entry", _drop_entry),
    ("rewrote the last entry and the head", _rebuild_tail),
    ("edited an index to hide an effect", _hide_by_index),
    ("swapped a body", _swap_body),
    ("deleted a body silently", _lose_body),
)
