"""The peer's side, run by the peer's own interpreter: only what its documentation names, Ledger, storages, Orchestrator.

Its append is synchronous, so 64 writers would be served one after the other; a plain loop is its best case.
"""

import asyncio
import shutil
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from bench.measure import Answer, Asked, attempt, serve, timed

_ledger: Any = import_module("forum.ledger")
_storage: Any = import_module("forum.storage")


def _open(folder: str, *, durable: bool) -> Any:
    return _ledger.Ledger(_storage.FileStorage(folder, fsync_each=durable))


def _append(ledger: Any, payload: dict[str, Any], cause: int | None) -> Any:
    return ledger.append(actor="engine", kind="task.attempted", payload=payload, causal_parent=cause)


def versions(_: Asked) -> Answer:
    return {"forum-engine": metadata.version("forum-engine")}


def append(asked: Asked) -> Answer:
    """Entries one after the other, until they are all written or the time is over."""
    in_memory = asked["store"] == "memory"
    ledger = _ledger.Ledger(_ledger.InMemoryStorage()) if in_memory else _open(asked["folder"], durable=True)
    payloads = [attempt(each) for each in range(asked["count"])]
    _append(ledger, {"request": "the cause of all others"}, None)
    answer: Answer = {"count": 0}
    with timed(answer):
        until = time.perf_counter() + asked["limit_s"]
        for payload in payloads:
            _append(ledger, payload, 0)
            answer["count"] += 1
            if time.perf_counter() > until:
                break
    return answer


def build(asked: Asked) -> Answer:
    """One ledger for each size, each a copy of the one before with more entries behind it."""
    made: Path | None = None
    for size, place in asked["ledgers"]:
        if made:
            shutil.copytree(made, place)
        made = Path(place)
        ledger = _open(place, durable=False)
        for each in range(ledger.count(), size):
            _append(ledger, attempt(each), 0 if each else None)
        ledger.sync()
    return {}


def verify(asked: Asked) -> Answer:
    """Open and verify; chain only, or every payload too."""
    answer: Answer = {"count": 1}
    with timed(answer):
        ledger = _open(asked["folder"], durable=True)
        good = ledger.verify(deep=asked["deep"])
    if not good:
        raise SystemExit("the peer does not verify its own ledger")
    return answer


def open_only(asked: Asked) -> Answer:
    answer: Answer = {"count": 1}
    with timed(answer):
        _open(asked["folder"], durable=True)
    return answer


def checkpoint(asked: Asked) -> Answer:
    """The root over all entries of an open ledger."""
    ledger = _open(asked["folder"], durable=True)
    answer: Answer = {"count": 1}
    with timed(answer):
        ledger.checkpoint()
    return answer


def plan(asked: Asked) -> Answer:
    """A fan of stub tasks through submit_plan, all of them allowed at once."""
    engine: Any = import_module("forum.engine")
    plans: Any = import_module("forum.plan")
    policy: Any = import_module("forum.policy")
    roster = import_module("forum.roster").load_default()
    ledger, echo = _open(asked["folder"], durable=True), import_module("forum.executor").EchoExecutor()
    allowed = policy.Policy(allowed_categories=frozenset({"engineering"}), max_parallel=asked["count"])
    made = plans.Plan(
        tuple(plans.Task(f"task-{number}", "backend", f"do part {number}") for number in range(asked["count"]))
    )
    forum = engine.Orchestrator(roster, ledger, echo, allowed)
    answer: Answer = {"count": asked["count"]}
    with timed(answer):
        results = asyncio.run(forum.submit_plan(made))
    if len(results) != asked["count"] or not all(result.ok for result in results.values()):
        raise SystemExit("the peer did not do all tasks")
    return answer


if __name__ == "__main__":
    serve(
        {
            "versions": versions,
            "append": append,
            "build": build,
            "verify": verify,
            "open": open_only,
            "checkpoint": checkpoint,
            "plan": plan,
        }
    )
