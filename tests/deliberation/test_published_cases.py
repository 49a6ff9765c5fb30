"""The cases that the protocol's authors published, run through our documents."""

from typing import Any

import pytest

import symposium
from hansard.deliberation.documents import DOCUMENTS, Document, Invalid, transcript_digest
from hansard.deliberation.documents.semantics import semantic_breaches
from hansard.deliberation.documents.vocabulary import ErrorKind

DIGESTS = {
    "worked_example_artifact.json": "f26b6aad4de1860893eab0a177330c9fb564b18f7011598ea968da3d306e7270",
    "budget_breach_artifact.json": "4c70f86e",
}
GOLDEN = "66db8894ca3eee7335b4ffe87006957b972efc1de1b948171d15c8942ebbb654"


def document(schema: str) -> type[Document]:
    return DOCUMENTS[schema.removesuffix(".schema.json")]


@pytest.mark.requirement("R-1-1", "R-5.10-1", "R-9.2-1")
def test_their_positive_documents_are_accepted_and_come_back_unchanged() -> None:
    published = symposium.cases("validate").CASES
    assert len(published) == 20
    for schema, name in published:
        data = symposium.example(name)
        assert document(schema).parse(data).as_data() == data, name


@pytest.mark.requirement("R-6.2-1")
def test_their_structured_outputs_are_accepted() -> None:
    published = symposium.cases("validate").NESTED_STRUCTURED_OUTPUT_CASES
    assert len(published) == 4
    for name, schema, _ in published:
        document(schema).parse(symposium.example(name)["structured_output"])


@pytest.mark.requirement("R-6.6-1")
def test_our_error_kinds_are_theirs_in_their_order() -> None:
    assert list(ErrorKind.__args__) == symposium.cases("validate").ERROR_KIND_PROSE_ENUM  # type: ignore[attr-defined]


@pytest.mark.requirement("R-7.7-1", "R-7.7-3", "R-9.9-1", "R-2.7-2")
@pytest.mark.parametrize("name", DIGESTS)
def test_their_artifacts_keep_every_rule_and_have_the_digest_that_they_say(name: str) -> None:
    artifact = symposium.example(name)
    assert semantic_breaches(artifact) == []
    assert transcript_digest(artifact["canonical_transcript"]).startswith(DIGESTS[name])


@pytest.mark.requirement("R-9.4-2", "R-2.11-1")
def test_their_golden_case_expects_an_artifact_that_keeps_every_rule() -> None:
    artifact = symposium.example("golden_test_case_example.json")["expected_artifact"]
    assert semantic_breaches(artifact) == []
    assert transcript_digest(artifact["canonical_transcript"]) == GOLDEN


@pytest.mark.requirement("R-1-1", "R-8.2-1", "R-5.3-1", "R-5.3-2", "R-5.6-1", "R-5.8-1", "R-7.2-1", "R-7.1-1")
def test_their_negative_documents_are_rejected_with_a_path_and_a_rule() -> None:
    published: list[tuple[str, str, Any, str | None]] = symposium.cases("validate_negative").NEGATIVE_CASES
    assert len(published) == 36
    for label, schema, data, _ in published:
        with pytest.raises(Invalid) as caught:
            document(schema).parse(data)
        assert caught.value.breach.rule, label
        assert caught.value.breach.document == document(schema).__name__, label
