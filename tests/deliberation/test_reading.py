import sys
import time
from pathlib import Path

import pytest

from components import need
from hansard.deliberation.documents.reading import load, read_yaml
from hansard.domain.strict_json import read_json
from hansard.errors import MissingExtra, UsageError

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


def has_yaml() -> bool:
    try:
        read_yaml("a")
    except MissingExtra:
        return False
    return True


@pytest.fixture
def _yaml() -> None:
    need(has_yaml(), "PyYAML (pip install 'hansard[yaml]')")


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a":1,"a":2}', '{"a":{"b":1,"b":1}}', "NaN", "[Infinity]", "[" * 100_000, "1" * 5000, b"\xff\xfe\xfd"],
    ids=lambda text: repr(text)[:20],
)
def test_json_with_two_readings_or_none_is_refused(text: str | bytes) -> None:
    with pytest.raises(UsageError, match=r"^here is no JSON: "):
        read_json(text, where="here")


def test_a_file_is_read_by_its_ending(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"a": [1, 2.5, null]}')
    assert load(path) == {"a": [1, 2.5, None]}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        load(tmp_path / "nowhere.json")
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    with pytest.raises(UsageError, match=r"latin\.json"):
        load(tmp_path / "latin.json")


def test_without_pyyaml_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "c.yaml").write_text("a: 1")
    with pytest.raises(MissingExtra, match=r"pip install 'hansard\[yaml\]'"):
        load(tmp_path / "c.yaml")


@pytest.mark.usefixtures("_yaml")
@pytest.mark.parametrize(
    "text", ["060", "-010", "1:30", "1_000", "0b11", "1:30.5", "1_0.5", "yes", "No", "ON", ".inf", "-.Inf", ".nan"]
)
def test_a_number_or_claim_that_not_every_yaml_reads_so_is_refused(text: str) -> None:
    for written in (f"a: {text}", f"{{a: [{text}]}}"):
        with pytest.raises(UsageError, match="has two readings; put it in quotes"):
            read_yaml(written)
    assert read_yaml(f"a: '{text}'") == {"a": text}


@pytest.mark.usefixtures("_yaml")
def test_numbers_and_claims_that_every_yaml_reads_so_are_read() -> None:
    assert read_yaml("[0, -1, +60, 0x1F, 0.5, 1.5e+3, true, False, null]") == [
        0,
        -1,
        60,
        31,
        0.5,
        1500.0,
        True,
        False,
        None,
    ]


@pytest.mark.usefixtures("_yaml")
def test_yaml_is_read_as_json_would_hold_it() -> None:
    assert read_yaml("a: 2026-05-01T10:00:00Z\nb: [1, 2.5, null]") == {"a": "2026-05-01T10:00:00Z", "b": [1, 2.5, None]}


@pytest.mark.usefixtures("_yaml")
@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2", "1: one", "a: [", "!!python/object/apply:os.getcwd []", "a: &x [*x]", LAUGHS, "? [a]\n: b"],
)
def test_yaml_with_two_readings_or_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^here is no YAML: "):
        read_yaml(text, where="here")


@pytest.mark.usefixtures("_yaml")
@pytest.mark.parametrize("tag", ["bool", "int", "float"])
@pytest.mark.parametrize("said", ["", "''", "maybe", "[a]", "{a: b}"])
def test_what_is_tagged_as_a_number_or_a_claim_and_is_none_is_refused(tag: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"^here is no YAML: "):
        read_yaml(f"a: !!{tag} {said}", where="here")


@pytest.mark.usefixtures("_yaml")
@pytest.mark.untraced
def test_many_names_in_one_object_take_no_longer_than_they_must() -> None:
    """Looking for each name among all of them took minutes."""
    names, began = [f"name{number}" for number in range(40_000)], time.process_time()
    assert len(read_yaml("{" + ", ".join(f"{name}: 1" for name in names) + "}")) == len(names)
    with pytest.raises(UsageError, match="'name39999' stands twice"):
        read_json("{" + ", ".join(f'"{name}": 1' for name in [*names, names[-1]]) + "}")
    assert time.process_time() - began < 20


@pytest.mark.parametrize("text", ["a: !!binary aGFsbG8=", "a: !!set {b}", "- [!!binary aGFsbG8=]"])
def test_what_no_json_holds_is_refused_in_yaml(text: str) -> None:
    with pytest.raises(UsageError, match="has no place in JSON"):
        read_yaml(text)


@pytest.mark.parametrize("text", ["1e999", '{"a": [-1e400]}'])
def test_a_number_that_no_number_can_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is more than a number can be"):
        read_json(text)
