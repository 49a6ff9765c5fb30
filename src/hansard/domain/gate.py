"""Facts of a gate: where people decide before the machine goes on."""

from typing import ClassVar, Literal

from hansard.domain.fact import Body, Fact
from hansard.domain.value import value

Decision = Literal["approve", "edit", "reject"]
SAID = {"approved": "approve", "edited": "edit", "rejected": "reject"}
"""How a gate ends, and the word that ends it so."""


@value
class GateOpened(Fact):
    """A gate waits. `shown` holds the commitments of exactly the parts that the deciders see; of more than 500 results the rest
    as the SHA-256 of theirs, one a line.
    """

    KIND: ClassVar[str] = "gate.opened"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("plan.made", "task.judged", "results.joined", "gate.closed", "run.retry_asked")
    gate: str
    rule: str
    before: Literal["plan", "task"]
    task: str | None = None
    needed: int
    deadline_us: int | None = None
    on_expiry: Literal["approve", "reject"]
    shown: tuple[str, ...]
    question: Body


@value
class GateDecided(Fact):
    """One person's decision, bound to what was shown; the actor is who decided."""

    KIND: ClassVar[str] = "gate.decided"
    CAUSES: ClassVar[tuple[str, ...]] = ("gate.opened",)
    gate: str
    decision: Decision
    shown: tuple[str, ...]
    authenticated: bool
    note: Body | None = None
    edit: Body | None = None


@value
class GateClosed(Fact):
    """The gate's outcome, caused by the decisions that made it, or by none when it expired."""

    KIND: ClassVar[str] = "gate.closed"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("gate.opened", "gate.decided")
    gate: str
    outcome: Literal["approved", "edited", "rejected"]
    expired: bool
