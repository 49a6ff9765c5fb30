import pytest

from hansard.deliberation.afterwards.conformance import Case, judge, negative_cases, positive_cases, run_conformance
from hansard.deliberation.documents import DOCUMENTS


@pytest.mark.requirement("R-1-1")
def test_every_shipped_case_is_judged_as_it_says() -> None:
    report = run_conformance()
    assert report.ok, str(report)
    assert str(report) == (
        f"positive: {report.positives} of {report.positives} accepted\n"
        f"negative: {report.negatives} of {report.negatives} rejected"
    )


def test_we_ship_at_least_as_many_cases_as_the_protocol_and_some_of_each_document() -> None:
    report = run_conformance()
    assert report.positives >= 28
    assert report.negatives >= 36
    assert {case.document for case in positive_cases()} == set(DOCUMENTS)
    assert {case.document for case in negative_cases()} == set(DOCUMENTS)


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in (*positive_cases(), *negative_cases())]
    assert len(names) == len(set(names))


def test_a_wrong_verdict_is_told() -> None:
    good = positive_cases()[0]
    bad = negative_cases()[0]
    assert judge(Case(name="x", document=good.document, data=good.data, judges=("parser",), rule="R-1-1")) is not None
    assert judge(Case(name="x", document=bad.document, data=bad.data, judges=("schema",))) is not None
    told = judge(Case(name="x", document=bad.document, data=bad.data, judges=("parser",), rule="R-9.9-9"))
    assert told == f"the parser quotes {bad.rule} instead of R-9.9-9"
