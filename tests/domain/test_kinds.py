from hansard.domain.kinds import KINDS
from hansard.record.codec import shape_of
from kinds_table import DOCUMENT, HEADING, section


def test_the_document_holds_the_table_of_all_kinds() -> None:
    _, heading, written = DOCUMENT.read_text("utf-8").partition(HEADING)
    assert heading + written == section(), "run: python tests/kinds_table.py"


def test_every_cause_that_a_kind_names_is_a_kind() -> None:
    for kind, fact in KINDS.items():
        assert set(fact.CAUSES) <= {*KINDS, "*"}, kind


def test_every_kind_has_a_shape_that_the_record_can_hold() -> None:
    for kind, fact in KINDS.items():
        assert shape_of(fact).kind == kind


def test_what_people_and_other_processes_write_is_not_driven() -> None:
    unfenced = {"gate.decided", "run.cancel_asked", "body.redacted", "run.requested"}
    for kind in KINDS:
        if kind in unfenced or kind.startswith(("key.", "log.", "anchor.")):
            assert not KINDS[kind].DRIVEN, kind
