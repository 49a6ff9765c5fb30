"""How runs end: what is said of an ending, and what is closed when a run is stopped in flight. Pure."""

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Literal

from hansard.domain.fact import Body, Fact
from hansard.domain.value import value
from hansard.domain.work import EndState, RoleAnswered, RunInterrupted, TaskReturned
from hansard.errors import HansardError, told_of
from hansard.finishing import SHUTDOWN
from hansard.ledger.entry import Entry
from hansard.orchestration.execute import cut_short
from hansard.orchestration.plan import Plan
from hansard.orchestration.progress import Progress
from hansard.record.recorder import Step

if TYPE_CHECKING:
    from hansard.orchestration.answering import Answer

MOST_SAID = 2_000


@value
class Ending:
    """How a run is to end. The reason is a closed word, for the record; the detail is for whoever asked."""

    state: EndState
    reason: str
    causes: tuple[int, ...]
    detail: str = ""


@value
class Waiting:
    """The run cannot go on before people decide at these gates."""

    gates: tuple[str, ...]


@value
class Ended:
    """How a run ended, and where the record says so; or that it waits, at which gates."""

    run: str
    state: EndState | Literal["waiting", "interrupted"]
    reason: str
    detail: str = ""
    gates: tuple[str, ...] = ()


def ended_before(entry: Entry) -> Ended:
    """How a run has ended, by the entry that says so."""
    data: Any = entry.data
    return Ended(run=entry.run, state=data["state"], reason=data["reason"])


def interrupted(error: BaseException) -> RunInterrupted:
    """The last word of a driver that this has ended."""
    if isinstance(error, CancelledError):
        return RunInterrupted(by="shutdown" if SHUTDOWN in error.args else "signal")
    said = str(error) if isinstance(error, HansardError) else told_of(error)
    return RunInterrupted(by="error", why=Body.text(said[:MOST_SAID]))


def with_answer(answer: "Answer") -> Ending:
    """How a run with an answer ends."""
    if not answer.missing:
        return Ending(state="answered", reason="answered", causes=(answer.seq,))
    said = f"without {', '.join(answer.missing[:10])}"
    return Ending(state="partial", reason="parts_missing", causes=(answer.seq,), detail=said)


def closed(progress: Progress, why: str) -> list[Step]:
    """Answers in place of those that will not come any more."""
    steps: list[Step] = []
    for id, attempt in progress.attempting:
        fact: Fact = TaskReturned(task=id, attempt=attempt.number, **cut_short(why, attempt.model))
        steps.append(Step(fact, "engine", [attempt.seq]))
    for seq, entry in progress.questions.asking.items():
        fact = RoleAnswered(role=entry.data["role"], **cut_short(why, str(entry.data["model"])))
        steps.append(Step(fact, "engine", [seq]))
    return steps


def _settled(progress: Progress, id: str) -> bool:
    """Whether the record already says that a task will not be done."""
    task = progress.tasks.get(id)
    if task is None or task.skipped is not None:
        return task is not None
    last = task.last
    if last is None or last.judged is None or last.passed:
        return False
    # Whoever climbs is still to be tried on the rung above.
    return task.escalated is None or task.escalated < last.judged


def undone(progress: Progress, plan: Plan) -> list[str]:
    """The tasks of a plan of which the record says neither that they passed nor that they will not be done."""
    passing = progress.passing(plan)
    return [task.id for task in plan.tasks if task.id not in passing and not _settled(progress, task.id)]
