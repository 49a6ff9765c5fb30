"""What a worker is asked, and what its answer is on the record. Pure.

Upstream results enter the prompt capped and fenced; their whole text stays in the record.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hansard.domain.exchange import Completion, Exchange, Limits, Message
from hansard.domain.fact import TEXT, Body
from hansard.domain.roster import Lane
from hansard.domain.value import value
from hansard.domain.work import Role as RoleName
from hansard.domain.work import RoleAnswered, TaskReturned
from hansard.orchestration.config import Tuning
from hansard.orchestration.fence import Fences
from hansard.orchestration.plan import Task
from hansard.orchestration.roles import Result, context_block, result_block
from hansard.orchestration.templates import WORKER

WORKER_ROLE = "worker"


@value
class Rejection:
    """Why an earlier attempt did not pass."""

    attempt: int
    reasons: str


class Assignment(NamedTuple):
    """Everything that one attempt at a task is made of."""

    task: Task
    lane: Lane
    attempt: int
    rung: str
    inputs: tuple[Result, ...] = ()
    missing: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    context: tuple[tuple[str, str], ...] = ()
    """What sources gave, each with its source's name."""


def actor(task: Task) -> str:
    """Who speaks for a task on the record."""
    return f"lane:{task.lane}"


def worker_exchange(assignment: Assignment, run_nonce: str, tuning: Tuning, model: str | None) -> Exchange:
    """The question to a worker."""
    task, lane = assignment.task, assignment.lane
    fences = Fences(run_nonce, task.id, assignment.attempt)
    return Exchange(
        messages=(
            _told(lane.name, lane.domain, lane.instructions, lane.permissions),
            Message(role="user", content="\n\n".join(_sections(assignment, fences))),
        ),
        model=model,
        limits=_limits(lane.timeout_s or tuning.timeout_s, tuning.max_output_tokens),
        metadata={
            "role": WORKER_ROLE,
            "task": task.id,
            "attempt": assignment.attempt,
            "turn": 1,
            "lane": lane.name,
            "agent": lane.name,
            "rung": assignment.rung,
        },
    )


@lru_cache(maxsize=256)
def _told(lane: str, domain: str, instructions: str, permissions: tuple[str, ...]) -> Message:
    """What every worker of a lane is told; the same for each task, so it is written once."""
    allowed = f"What you may do: {'; '.join(permissions)}. Do nothing beyond that." if permissions else ""
    words = f"{WORKER.words}\n\nYour lane: {lane}. {domain}."
    return Message(role="system", content="\n".join(filter(None, (words, instructions, allowed))))


@lru_cache(maxsize=256)
def _limits(timeout_s: float, max_output_tokens: int | None) -> Limits:
    return Limits(timeout_s=timeout_s, max_output_tokens=max_output_tokens)


def _sections(assignment: Assignment, fences: Fences) -> Sequence[str]:
    task = assignment.task
    sections = [context_block(number, each, fences) for number, each in enumerate(assignment.context, 1)]
    sections += [result_block(result, fences) for result in assignment.inputs]
    if assignment.missing:
        sections.append(fences.block("missing", "\n".join(f"- {each}" for each in assignment.missing)))
    for earlier in assignment.rejections:
        sections.append(fences.block(f"rejected-{earlier.attempt}", earlier.reasons, {"attempt": earlier.attempt}))
    sections.append(fences.block("task", task.instruction, {"task": task.id}))
    if task.done_when:
        sections.append(fences.block("done_when", "\n".join(f"- {each}" for each in task.done_when)))
    if assignment.rejections:
        sections.append("An earlier result of this task was rejected for the reasons given. Do the task better.")
    sections.append("Do the task.")
    return sections


def returned(task: str, attempt: int, completion: Completion, pause_s: float | None = None) -> TaskReturned:
    """What came back for an attempt, as a fact, and how long is waited before the next one."""
    said = _said(completion, pause_s)
    return TaskReturned(task=task, attempt=attempt, ok=completion.ok, diff=_raw(completion.diff), **said)


def answered(role: RoleName, completion: Completion, pause_s: float | None = None) -> RoleAnswered:
    """What a control role said, as a fact, and how long is waited before it is asked again."""
    return RoleAnswered(role=role, ok=completion.ok, **_said(completion, pause_s))


def cut_short(why: str, model: str, said: str = "the run was stopped before the answer came") -> dict[str, Any]:
    """The fields of an answer that never came: in a word why, and what is said of it."""
    nobody = Completion(provider="", requested_model=model, returned_model=model, finish="error")
    return {
        **_said(nobody),
        "ok": False,
        "error": why,
        "output": Body.text(f"[{why}] {said}"),
    }


def _said(completion: Completion, pause_s: float | None = None) -> dict[str, Any]:
    usage, cost = completion.usage, completion.cost
    return {
        "finish": completion.finish,
        "error": completion.failure.kind if completion.failure else None,
        "model": completion.returned_model,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "tokens_estimated": usage.estimated,
        "cost_usd_nano": cost.usd_nano,
        "cost_basis": cost.basis,
        "latency_us": completion.latency_us,
        "exit_code": completion.exit_code,
        "pause_us": round(pause_s * 1_000_000) if pause_s else None,
        "output": _output(completion),
        "stderr": _raw(completion.stderr),
        "raw": _raw_of(completion),
    }


def _output(completion: Completion) -> Body:
    """The whole output: a program's bytes as they came, a model's text; on failure at least the reason."""
    printed = completion.output
    if printed is not None and (not completion.ok or _is_its_text(printed, completion.text)):
        try:
            printed.decode()
        except UnicodeDecodeError:
            return Body.raw(printed)
        return Body(TEXT, printed)
    if not completion.text and completion.failure is not None:
        return Body.text(f"[{completion.failure.kind}] {completion.failure.message}")
    return Body.text(completion.text)


def _is_its_text(printed: bytes, text: str) -> bool:
    """Whether the text is what the program printed, and not something that was taken out of it."""
    return printed[: 4 * len(text)].decode("utf-8", "replace").startswith(text)


def _raw_of(completion: Completion) -> Body | None:
    """What came over the wire, or what a program printed where its answer was taken out of that."""
    printed = completion.output
    if printed is not None and completion.ok and not _is_its_text(printed, completion.text):
        return Body.raw(printed)
    return _raw(completion.raw)


def seen(text: str) -> str:
    """An output as others see it: the line ends behind it say nothing."""
    return text.rstrip("\r\n")


def _raw(data: bytes | None) -> Body | None:
    return None if data is None else Body.raw(data)
