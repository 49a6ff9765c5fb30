"""Every numbered requirement of the deliberation protocol is named by a test, or excused with a reason."""

from pathlib import Path

from requirements_shown import exempt, named, report, required


def test_every_requirement_is_named_by_a_test_or_exempt() -> None:
    assert report(set(named()))[1:] == []


def test_no_test_names_a_requirement_that_there_is_not() -> None:
    assert set(named()) - set(required()) == set()


def test_what_is_exempt_is_required_has_a_reason_and_is_shown_by_no_test() -> None:
    assert set(exempt()) <= set(required())
    assert all(len(reason) > 8 for reason in exempt().values())
    assert set(exempt()) & set(named()) == set()


def test_a_requirement_that_no_test_names_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text('@pytest.mark.requirement("R-2.5-1")\ndef test_it(): ...\n')
    assert named(tmp_path) == {"R-2.5-1": ["test_one.py::test_it"]}
    lines = report(set(named()) - {"R-2.5-1"})
    assert lines[1:] == ["missing: R-2.5-1"]
