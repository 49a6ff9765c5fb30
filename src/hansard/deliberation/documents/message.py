"""One message of the canonical transcript (§5.4)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from hansard.deliberation.documents.document import ABSENT, Absent, Document, When, of
from hansard.deliberation.documents.exchange import Usage
from hansard.deliberation.documents.shape import Choice, Either, Null, Open, Shape, Text, Whole
from hansard.deliberation.documents.turns import (
    Content,
    Contraction,
    DirectRequest,
    SynthesisContent,
    TurnStructuredOutput,
    Verdict,
)
from hansard.deliberation.documents.vocabulary import NonEmpty, OpenObject, Time, TurnType
from hansard.domain.value import value

RUNTIME = "runtime"
"""Who speaks when an agent leaves the panel."""


@value
class SchemaFailure(Document):
    """A direct request that could not be routed, and why."""

    SECTION: ClassVar[str] = "§4.5"
    offending_request: OpenObject
    reason: NonEmpty


def _turn(type: TurnType, rule: str, content: Shape, **others: Shape) -> When:
    required = ("parent_id",) if type == "branch_turn" else ()
    return When(rule=rule, member="type", values=(type,), required=required, shapes={"content": content, **others})


_FIRST, _LATER = Whole(0, 0), Whole(1)
_TRUNK: Mapping[str, Shape] = {"round": _LATER, "branch_depth": Whole(0, 0), "parent_id": Null()}


@value
class Message(Document):
    """One message. As written by us `parent_id` is always there, null where there is none, and `target` is left out."""

    SECTION: ClassVar[str] = "§5.4"
    RULES: ClassVar[tuple[When, ...]] = (
        _turn("problem_statement", "R-4.1-3", Text(), **{**_TRUNK, "round": _FIRST, "turn_index": _FIRST}),
        _turn("primary_turn", "§5.4 primary_turn", of(TurnStructuredOutput), **_TRUNK),
        _turn("coordination_turn", "R-4.4-1", of(Verdict), **_TRUNK),
        _turn(
            "branch_turn",
            "R-4.5-3",
            of(TurnStructuredOutput),
            round=_LATER,
            branch_depth=Whole(1, 1),
            parent_id=Text(),
        ),
        _turn("synthesis", "§5.4 synthesis", of(SynthesisContent), **_TRUNK),
        _turn("panel_contraction", "R-4.9-6", of(Contraction), speaker=Choice((RUNTIME,)), round=_LATER),
    )
    id: NonEmpty
    speaker: NonEmpty
    type: TurnType
    content: Annotated[Content, Either((Text(0), Open()))]
    round: int
    turn_index: int
    branch_depth: Annotated[int, Whole(0, 1)]
    timestamp: Time
    usage: Usage
    target: str | Absent | None = ABSENT
    parent_id: str | Absent | None = None
    suggested_followups: tuple[DirectRequest, ...] | None = None
    dropped_deferred: tuple[DirectRequest, ...] | None = None
    schema_failure: tuple[SchemaFailure, ...] | None = None

    @property
    def parent(self) -> str | None:
        """The id of the message that this one answers."""
        return self.parent_id or None

    @property
    def direct_requests(self) -> tuple[DirectRequest, ...]:
        """What this turn asks of others."""
        return (self.content.direct_requests or ()) if isinstance(self.content, TurnStructuredOutput) else ()
