"""Who reasons, how, and within which bounds (§5.3)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from hansard.deliberation.documents.document import Document, NotEmpty, When
from hansard.deliberation.documents.vocabulary import NonEmpty, PersonaClass, PersonaStatus
from hansard.domain.value import value

_DOMAIN_MEMBERS = ("domain_scope", "forbidden_domains", "must_delegate")


@value
class Persona(Document):
    """A way of reasoning: horizontal across all domains, or bound to a domain with others forbidden."""

    SECTION: ClassVar[str] = "§5.3"
    RULES: ClassVar[tuple[When, ...]] = (
        When(rule="R-5.3-1", member="persona_class", values=("horizontal",), forbidden=_DOMAIN_MEMBERS),
        When(rule="R-5.3-2", member="persona_class", values=("domain",), required=_DOMAIN_MEMBERS),
    )
    persona_class: PersonaClass
    id: NonEmpty
    reasoning_scope: NonEmpty
    reasoning_style: NonEmpty
    behavioral_constraints: Annotated[tuple[NonEmpty, ...], NotEmpty]
    failure_modes: Annotated[tuple[NonEmpty, ...], NotEmpty]
    output_requirements: tuple[NonEmpty, ...] | None = None
    domain_scope: Annotated[tuple[NonEmpty, ...], NotEmpty] | None = None
    forbidden_domains: tuple[NonEmpty, ...] | None = None
    must_delegate: Mapping[str, NonEmpty] | None = None
    status: PersonaStatus | None = None
