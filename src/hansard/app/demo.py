"""The demonstration: a small run on the record, its verification, and copies that somebody tampered with.

It works on a real ledger with the real recorder and verifier; only the models' answers are written down here.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.verifying import tools
from hansard.app.wiring import open_store, restorer
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
from hansard.ledger.entry import parse
from hansard.ledger.layout import body_id
from hansard.ledger.verify import Options, Report, verify
from hansard.store.base import Part, Store

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


def tamper(ledger: Path, folder: Path, *, signed: bool) -> Iterator[Tampering]:
    """Tamper with copies, one way each, and verify every copy at both grades.

    An end that was cut off with everything else put right shows only by a signature, so an unsigned log is spared that one.
    """
    ways = _WAYS if signed else _WAYS[:-1]
    for number, (name, change) in enumerate(ways, 1):
        copy = folder / f"tampered-{number}.db"
        shutil.copyfile(ledger, copy)
        change(copy)
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


def _edit(copy: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(copy)) as database:
        database.execute(statement, values)
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _turn_verdict(copy: Path) -> None:
    _edit(copy, "UPDATE entries SET line = replace(line, '\"ok\":true', '\"ok\":false') WHERE kind = 'task.judged'")


def _drop_entry(copy: Path) -> None:
    _edit(copy, "DELETE FROM entries WHERE seq = 6")


def _hide_by_index(copy: Path) -> None:
    _edit(copy, "UPDATE causes SET cause = 0 WHERE seq = 7")


def _swap_body(copy: Path) -> None:
    _edit(copy, "UPDATE bodies SET body = ? WHERE id = ?", b"Unlimited attempts are fine.", body_id(9, 0))


def _lose_body(copy: Path) -> None:
    _edit(copy, "DELETE FROM bodies WHERE id = ?", body_id(1, 0))


def _cut_end(copy: Path) -> None:
    """Rebuild the whole file from its first ten entries with the checkpoints left in place, every index right."""
    store = open_store(str(copy), reading=True)
    try:
        rows = [(line, _parts(store, seq, line)) for seq, line in enumerate(store.lines(0, 10))]
        checkpoints = list(store.checkpoints())
    finally:
        store.close()
    copy.unlink()
    restorer(str(copy))(rows, checkpoints)


def _parts(store: Store, seq: int, line: bytes) -> list[Part]:
    found = [store.body(seq, part) for part in sorted(parse(line).body)]
    return [Part(each.part, each.media, each.salt, each.body) for each in found if each]


_WAYS: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("turned a verdict round", _turn_verdict),
    ("dropped an entry", _drop_entry),
    ("edited an index to hide an effect", _hide_by_index),
    ("swapped a body", _swap_body),
    ("deleted a body silently", _lose_body),
    ("cut off the end and put every index right", _cut_end),
)
