"""A small run put on the record by hand: thirteen entries whose places are known, for tests of what reads a ledger."""

from pathlib import Path

from hansard.app.service import Hansard
from hansard.app.settings import Settings
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
