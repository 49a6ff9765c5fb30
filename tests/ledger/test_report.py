"""Verdicts are graded, bounded and safe to print."""

import json

import pytest

from hansard.ledger.report import KEPT_PER_GRADE, Bodies, Finding, Findings, Grade, Report, Signed, lines


def found(*grades: Grade) -> Report:
    findings = Findings()
    for grade in grades:
        findings.add("code", grade, "message")
    return Report(path="x.db", form="sqlite", findings=findings.all())


@pytest.mark.parametrize(
    ("grades", "code"),
    [
        ((), 0),
        (("warning", "note"), 0),
        (("structure",), 20),
        (("signature",), 20),
        (("anchor",), 21),
        (("missing",), 22),
        (("grade",), 23),
        (("grade", "missing", "anchor", "warning"), 21),
        (("grade", "missing"), 22),
        (("missing", "signature"), 20),
    ],
)
def test_the_lowest_exit_code_that_applies_wins(grades: tuple[Grade, ...], code: int) -> None:
    report = found(*grades)
    assert report.exit_code == code
    assert report.ok == (code == 0)


def test_the_first_bad_entry_comes_first_and_warnings_do_not_count() -> None:
    findings = Findings()
    findings.add("late", "structure", "found first", seq=9)
    findings.add("whole", "structure", "no entry")
    findings.add("warned", "warning", "only a warning", seq=1)
    findings.add("early", "missing", "found last", seq=4)
    report = Report(path="x", form="jsonl", findings=findings.all())
    assert [each.code for each in report.findings] == ["warned", "early", "late", "whole"]
    assert report.first_bad is not None
    assert report.first_bad.code == "early"


def test_any_number_of_findings_is_counted_and_only_the_first_are_kept() -> None:
    findings = Findings()
    for seq in range(10_000, 0, -1):
        findings.add("many", "warning", "noise", seq=seq)
    findings.add("one", "structure", "the one that matters")
    kept = findings.all()
    assert len(kept) == KEPT_PER_GRADE + 1
    assert [each.seq for each in kept[:3]] == [1, 2, 3]
    assert findings.more == 10_000 - KEPT_PER_GRADE
    assert Report(path="x", form="jsonl", findings=kept).exit_code == 20


def test_equal_places_keep_the_order_of_discovery() -> None:
    findings = Findings()
    for number in range(5):
        findings.add(f"code{number}", "structure", "same place", seq=7)
    assert [each.code for each in findings.all()] == ["code0", "code1", "code2", "code3", "code4"]


def test_the_report_as_json_says_the_verdict_in_stable_names() -> None:
    report = Report(path="x", form="export", size=10, signed=Signed(sealed_to=8), bodies=Bodies(parts=2, unread=2))
    plain = json.loads(json.dumps(report.as_json()))
    assert plain["ok"] is True
    assert plain["exit_code"] == 0
    assert plain["unsealed_tail"] == 2
    assert plain["first_bad"] is None
    assert plain["signed"]["sealed_to"] == 8
    assert plain["bodies"] == {"parts": 2, "opened": 0, "redacted": 0, "pending": 0, "missing": 0, "unread": 2}
    assert {"path", "form", "size", "head", "root", "origin", "genesis", "custody", "anchors", "brackets", "findings",
            "more_findings", "not_proven", "unread_prefix", "receipt", "verdict"} <= set(plain)  # fmt: skip


def test_only_bodies_that_there_are_can_be_left_unread() -> None:
    for bodies, said in ((Bodies(), "0 parts: 0 opened"), (Bodies(parts=2, unread=2), "2 parts, not read")):
        report = Report(path="x", form="sqlite", size=1, head="", root="", bodies=bodies)
        assert any(said in line for line in lines(report)), said


def test_text_from_the_file_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J\rOK: all is well\x9b\u202e"
    report = Report(
        path=evil,
        form="jsonl",
        origin=evil,
        findings=(Finding(code="x", grade="structure", message=evil),),
        not_proven=(evil,),
    )
    text = "\n".join(lines(report))
    assert text.startswith("BROKEN")
    assert all(each.isprintable() or each == "\n" for each in text)


def test_the_text_names_the_verdict_the_first_bad_entry_and_what_is_not_proven() -> None:
    findings = Findings()
    findings.add("chain", "structure", "it was changed", seq=7)
    for seq in range(40):
        findings.add("noise", "warning", "noise", seq=seq)
    report = Report(path="x.db", form="sqlite", findings=findings.all(), not_proven=("that it is true",))
    text = list(lines(report))
    assert text[0] == "BROKEN: x.db"
    assert text[1].endswith("entry 7: it was changed")
    assert any("28 more" in each for each in text)
    assert text[-1] == "  - that it is true"
