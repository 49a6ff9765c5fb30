"""Scripted answers, and cases that say what a conforming runtime makes of them (§9)."""

from typing import Annotated, ClassVar

from hansard.deliberation.documents.artifact import Artifact
from hansard.deliberation.documents.config import Config
from hansard.deliberation.documents.document import Document, NotEmpty
from hansard.deliberation.documents.exchange import ProviderResult
from hansard.deliberation.documents.vocabulary import (
    AssertionCategory,
    NonEmpty,
    OnExhaustion,
    OutputSchema,
    SchemaVersion,
    Word,
)
from hansard.domain.value import value


@value
class ScriptMatch(Document):
    """Which call an entry expects."""

    SECTION: ClassVar[str] = "§9.2"
    agent_id: NonEmpty | None = None
    expected_output_schema: OutputSchema | None = None
    round: int | None = None
    turn_index: int | None = None


@value
class ScriptEntry(Document):
    """One scripted answer."""

    SECTION: ClassVar[str] = "§9.2"
    result: ProviderResult
    match: ScriptMatch | None = None
    comment: str | None = None


@value
class FakeProviderScript(Document):
    """What a scripted provider answers: call N gets entry N."""

    SECTION: ClassVar[str] = "§9.2"
    schema_version: SchemaVersion
    entries: Annotated[tuple[ScriptEntry, ...], NotEmpty]
    description: str | None = None
    on_exhaustion: OnExhaustion | None = None


@value
class ExpectedAssertion(Document):
    """What a case is meant to show."""

    SECTION: ClassVar[str] = "§9.4"
    category: AssertionCategory
    name: NonEmpty
    note: str | None = None


@value
class GoldenTestCase(Document):
    """A configuration, a script, and the artifact that must come of them."""

    SECTION: ClassVar[str] = "§9.4"
    schema_version: SchemaVersion
    case_id: Word
    problem_statement: NonEmpty
    config: Config
    fake_script: FakeProviderScript
    expected_artifact: Artifact
    description: str | None = None
    expected_assertions: tuple[ExpectedAssertion, ...] | None = None
