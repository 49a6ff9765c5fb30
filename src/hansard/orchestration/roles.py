"""The control roles: what each is asked, in which shape it must answer, and what its answer means. Pure.

A role gets everything that others wrote as fenced data. Its answer is data too: it counts when it has the shape and makes sense,
and otherwise comes back with the fault quoted.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from hansard.domain.exchange import Exchange, Message, Schema
from hansard.domain.roster import Lane, Policy, Roster
from hansard.domain.value import value
from hansard.domain.work import Role
from hansard.orchestration.fence import Fences, capped
from hansard.orchestration.plan import Plan, Task, parse_plan
from hansard.orchestration.templates import CLASSIFIER, COORDINATOR, SYNTHESIZER, VALIDATOR, Template

V = TypeVar("V")

REQUEST_CHARACTERS = 400_000
MAX_CRITERIA = 5
# The bound stands in the pattern: servers that make a grammar of a schema pass over maxLength beside a pattern.
ID = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$"}
TEXT = {"type": "string", "minLength": 1}
# Servers that make a grammar of a schema keep the bounds of integers only, so a share is asked for in per cent; a fraction is taken too.
SHARE = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 100}, {"type": "number", "minimum": 0, "maximum": 1}]}


@value
class Question(Generic[V]):
    """A question to a role. `read` makes its meaning out of the answer, or raises UsageError with what is wrong.

    `alone`: the answer must stand alone. Who judges a text quotes it, and what stands in prose may be a quotation.
    """

    role: Role
    template: Template
    sections: tuple[str, ...]
    schema: Schema | None
    schema_name: str
    read: Callable[[Any], V]
    task: str | None = None
    attempt: int = 1
    alone: bool = False

    def exchange(self, model: str | None, metadata: Mapping[str, str | int]) -> Exchange:
        return Exchange(
            messages=(
                Message(role="system", content=self.template.words),
                Message(role="user", content="\n\n".join(self.sections)),
            ),
            model=model,
            schema=self.schema,
            schema_name=self.schema_name,
            metadata={"role": self.role, "task": self.task or "", "attempt": self.attempt, "turn": 1, **metadata},
        )


@value
class Verdict:
    """What a validator says of a result."""

    ok: bool
    score_ppm: int
    reasons: str


@value
class Choice:
    """What a classifier says of a request."""

    lane: str | None
    confidence_ppm: int
    reason: str


class Result(NamedTuple):
    """A result that passed, as it enters a later prompt."""

    task: str
    lane: str
    attempt: int
    text: str


def coordinator(
    request: str,
    roster: Roster,
    policy: Policy,
    fences: Fences,
    *,
    most: int,
    scores: Mapping[str, int],
    context: Sequence[tuple[str, str]] = (),
    tokens: int | None = None,
) -> Question[Plan]:
    """Ask for a plan. Lanes that policy forbids are not offered, and not accepted.

    Where answers are bounded to so many `tokens`, the texts of the plan are too, so that it can come to an end in time.
    """
    lanes = permitted(roster, policy)
    sections = [
        fences.block("request", capped(request, REQUEST_CHARACTERS)),
        fences.block("lanes", lanes_text(lanes, scores)),
        *(context_block(number, each, fences) for number, each in enumerate(context, 1)),
        f"Plan the request in at most {most} tasks.",
    ]

    def read(answer: Any) -> Plan:
        return parse_plan(answer, roster, policy, where="your plan", commands=False, most=most)

    schema = _plan_schema([lane.name for lane in lanes], most, tokens)
    return Question(
        role="coordinator",
        template=COORDINATOR,
        sections=tuple(sections),
        schema=schema,
        schema_name="plan",
        read=read,
    )


def classifier(request: str, roster: Roster, policy: Policy, fences: Fences) -> Question[Choice]:
    """Ask which lane a request belongs to, where the router left it undecided."""
    lanes = permitted(roster, policy)
    names = [lane.name for lane in lanes]
    schema = {
        "type": "object",
        "properties": {
            "lane": {"anyOf": [{"type": "string", "enum": names}, {"type": "null"}]},
            "confidence": SHARE,
            "reason": {"type": "string"},
        },
        "required": ["lane", "confidence", "reason"],
        "additionalProperties": False,
    }

    def read(answer: Any) -> Choice:
        return Choice(lane=answer["lane"], confidence_ppm=_ppm(answer["confidence"]), reason=answer["reason"])

    sections = (
        fences.block("request", capped(request, REQUEST_CHARACTERS)),
        fences.block("lanes", lanes_text(lanes, {})),
        "Which lane should answer the request?",
    )
    return Question(
        role="classifier", template=CLASSIFIER, sections=sections, schema=schema, schema_name="choice", read=read
    )


def validator(task: Task, attempt: int, output: str, fences: Fences, tokens: int | None = None) -> Question[Verdict]:
    """Ask whether a result does what its task asks."""
    schema = {
        "type": "object",
        "properties": {
            "ok": {"type": "boolean"},
            "score": SHARE,
            "reasons": {"type": "string"} if tokens is None else {"type": "string", "maxLength": max(60, tokens // 2)},
        },
        "required": ["ok", "score", "reasons"],
        "additionalProperties": False,
    }

    def read(answer: Any) -> Verdict:
        return Verdict(ok=answer["ok"], score_ppm=_ppm(answer["score"]), reasons=answer["reasons"])

    sections = [fences.block("task", task.instruction, {"lane": task.lane})]
    if task.done_when:
        sections.append(fences.block("done_when", "\n".join(f"- {each}" for each in task.done_when)))
    sections += [fences.block("result", output), "Judge the result."]
    return Question(
        role="validator",
        template=VALIDATOR,
        sections=tuple(sections),
        schema=schema,
        schema_name="verdict",
        read=read,
        task=task.id,
        attempt=attempt,
        alone=True,
    )


def synthesizer(request: str, results: Sequence[Result], missing: Sequence[str], fences: Fences) -> Question[str]:
    """Ask for the answer. Only results that passed are given."""
    sections = [fences.block("request", capped(request, REQUEST_CHARACTERS))]
    sections += [result_block(result, fences) for result in results]
    if missing:
        sections.append(fences.block("missing", "\n".join(f"- {each}" for each in missing)))
    sections.append("Write the answer.")

    def read(answer: Any) -> str:
        return str(answer)

    return Question(
        role="synthesizer",
        template=SYNTHESIZER,
        sections=tuple(sections),
        schema=None,
        schema_name="answer",
        read=read,
    )


def result_block(result: Result, fences: Fences) -> str:
    """A passed result as data, with where it comes from."""
    about: dict[str, str | int] = {"task": result.task, "lane": result.lane, "attempt": result.attempt}
    return fences.block(f"result-{result.task}", result.text, about)


def context_block(number: int, given: tuple[str, str], fences: Fences) -> str:
    """What a context source gave, as data."""
    source, text = given
    return fences.block(f"context-{number}", text, {"source": source})


def permitted(roster: Roster, policy: Policy) -> list[Lane]:
    """The lanes that policy allows."""
    return [lane for lane in roster.lanes if policy.refuses(lane) is None]


def lanes_text(lanes: Sequence[Lane], scores: Mapping[str, int]) -> str:
    """The lanes as a model sees them: what each is for, and what the router thinks of it."""
    return "\n".join(_lane_line(lane, scores.get(lane.name)) for lane in lanes)


def _lane_line(lane: Lane, score_ppm: int | None) -> str:
    about = f"{lane.domain}. {lane.description}".strip() if lane.description else lane.domain
    score = f" [router: {score_ppm / 10_000:.0f} %]" if score_ppm else ""
    return f"- {lane.name} ({lane.category}): {' '.join(about.split())[:400]}{score}"


def _bounded(tokens: int | None, share: int, least: int) -> dict[str, Any]:
    """A text, bounded to its share of an answer where that is bounded; a character may take a token."""
    return TEXT if tokens is None else {**TEXT, "maxLength": max(least, tokens // share)}


def _plan_schema(lanes: list[str], most: int, tokens: int | None) -> dict[str, Any]:
    need = {
        "type": "object",
        "properties": {"task": ID, "kind": {"type": "string", "enum": ["data", "order"]}},
        "required": ["task", "kind"],
        "additionalProperties": False,
    }
    task = {
        "type": "object",
        "properties": {
            "id": ID,
            "lane": {"type": "string", "enum": lanes},
            "instruction": _bounded(tokens, 2 * most, 60),
            "needs": {"type": "array", "items": need, "maxItems": most - 1},
            "done_when": {"type": "array", "items": _bounded(tokens, 16 * most, 30), "maxItems": MAX_CRITERIA},
        },
        "required": ["id", "lane", "instruction", "needs", "done_when"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"tasks": {"type": "array", "items": task, "minItems": 1, "maxItems": most}},
        "required": ["tasks"],
        "additionalProperties": False,
    }


def _ppm(share: float) -> int:
    """A share in millionths: what is above 1 is per cent."""
    return round(share * (1_000_000 if share <= 1 else 10_000))


def as_json(value: Any) -> bytes:
    """Plain data as a body's bytes."""
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


# Made once: json.dumps makes one for each call that wants other separators.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
