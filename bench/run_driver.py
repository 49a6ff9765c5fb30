"""Our side of whole runs: plans of stub tasks through the service, with sealing, in a fresh process."""

import asyncio
from typing import Any

from bench.measure import Answer, Asked, serve, timed
from bench.our_driver import count_commits, settings_for

MODEL = "model"
LANE = "backend"


class Stub:
    """A provider that says the same at once, as the peer's echo does: what is measured is the engine."""

    id, unmetered = "stub", True

    def __init__(self) -> None:
        from hansard.domain.exchange import Completion

        self._said = Completion(provider=self.id, requested_model=self.id, returned_model=self.id, text="done")

    async def complete(self, _: Any) -> Any:
        return self._said

    def describe(self) -> dict[str, str]:
        return {"id": self.id, "kind": "stub", "model": self.id}

    async def close(self) -> None:
        """There is nothing to let go of."""


def plan(asked: Asked) -> Answer:
    """One plan of so many tasks, a fan or a chain, from its request to its end; the programs are loaded before."""
    return asyncio.run(_plan(asked))


async def _plan(asked: Asked) -> Answer:
    from hansard.app.service import Hansard

    async with Hansard.open(settings=settings_for(asked["ledger"])) as hansard:
        await _run(hansard, tasks("fan", 1))
        made, commits = tasks(asked["shape"], asked["count"]), count_commits(hansard.store)
        before = hansard.store.head().size
        answer: Answer = {"count": asked["count"]}
        with timed(answer):
            await _run(hansard, made)
        return answer | {"commits": len(commits), "entries": hansard.store.head().size - before}


async def _run(hansard: Any, made: Any) -> None:
    from hansard.app.setup.wishes import Wishes

    count = len(made.tasks)
    wishes = Wishes(judge="checks", answer="join", max_parallel=max(count, 1))
    run = await hansard.submit("do all of it", plan=made, wishes=wishes, provider=Stub())
    ended = await run.ended()
    if ended.state != "answered":
        raise SystemExit(f"a run of {count} tasks ended {ended.state}: {ended.reason}")


def tasks(shape: str, count: int) -> Any:
    """A plan in which every task waits for the one before it, or none for any; made before, as the peer's is."""
    from hansard.orchestration.plan import Need, Plan, Task

    def needs(number: int) -> tuple[Any, ...]:
        return (Need(task=f"task-{number - 1}"),) if shape == "chain" and number else ()

    return Plan(
        tasks=tuple(
            Task(id=f"task-{number}", lane=LANE, instruction=f"do part {number}", needs=needs(number))
            for number in range(count)
        )
    )


def at_once(asked: Asked) -> Answer:
    """Many runs in one process: each planned, its tasks worked on, judged and answered by a model that takes a while."""
    return asyncio.run(_at_once(asked))


async def _at_once(asked: Asked) -> Answer:
    from hansard.app.service import Hansard

    table = _slow_model(asked["latency_s"], asked["limit"])
    async with Hansard.open(settings=settings_for(asked["ledger"], providers=table)) as hansard:
        answer: Answer = {"count": asked["runs"]}
        with timed(answer):
            runs = [await hansard.submit(f"request {number}") for number in range(asked["runs"])]
            ended = [await run.ended() for run in runs]
        if any(each.state != "answered" for each in ended):
            raise SystemExit(f"runs ended {sorted({each.state for each in ended})}")
        shown = [run.show() for run in runs]
        return answer | {"calls": sum(each["spent"]["calls"] for each in shown)}


def _slow_model(latency_s: float, limit: int) -> dict[str, Any]:
    """A model that takes its time in every role: the plan is two tasks, and a third that needs both."""
    parts = [{"id": name, "lane": LANE, "instruction": f"do {name}", "needs": [], "done_when": []} for name in "ab"]
    last = {**parts[0], "id": "c", "needs": [{"task": name, "kind": "data"} for name in "ab"]}
    says: dict[str, dict[str, Any]] = {
        "coordinator": {"structured": {"tasks": [*parts, last]}},
        "worker": {"text": "done"},
        "validator": {"structured": {"ok": True, "score": 1, "reasons": "fine"}},
        "synthesizer": {"text": "the answer"},
    }
    entries = [{"match": {"role": role}, "latency_s": latency_s, **said} for role, said in says.items()]
    table = {"kind": "scripted", "on_exhaustion": "loop", "entries": entries, "max_concurrent": limit}
    return {MODEL: table}


if __name__ == "__main__":
    from hansard.surfaces.cli.main import collect_seldom

    # As in every process of ours.
    collect_seldom()
    serve({"plan": plan, "at_once": at_once})
