"""The shipped JSON Schemas say what our parsers do, and what the published ones say."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT202012

import symposium
from hansard.deliberation.afterwards.conformance import negative_cases, positive_cases, schema_file
from hansard.deliberation.documents import DOCUMENTS, Invalid
from hansard.providers.schema import compile
from schema_files import FOLDER, schema_text

OTHER_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2,
    2.0,
    1.5,
    "",
    "x",
    [],
    [""],
    {},
    {"x": 1},
    "finalize",
    "complete",
    "user_cancel",
)
TIMES = {"timestamp", "started_at", "ended_at", "created_at", "updated_at"}
DEEP, SHALLOW = 3, 2
LARGE = {"artifact", "golden_test_case"}
"""Made of documents that are cases of their own."""

Step = str | int


def nodes(data: Any, depth: int, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    if path:
        yield path
    if len(path) < depth:
        members = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
        for step, each in members:
            yield from nodes(each, depth, (*path, step))


def at(data: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        data = data[step]
    return data


def mutants() -> Iterator[tuple[str, str, Any]]:
    """Every good case with one member removed, added or replaced, each kind of place once."""
    seen: set[object] = set()
    for case in positive_cases():
        yield case.document, case.name, case.data
        for path in nodes(case.data, SHALLOW if case.document in LARGE else DEEP):
            place = tuple("*" if isinstance(step, int) else step for step in path)
            for number, value in enumerate((*OTHER_VALUES, "remove", "add")):
                key = (case.document, place, number, _discriminator(case.data))
                if key in seen or (path[-1] in TIMES and isinstance(value, str) and value not in {"remove", "add"}):
                    continue
                seen.add(key)
                if (mutant := _mutated(case.data, path, value)) is not None:
                    yield case.document, f"{case.name} {path} {value!r}", mutant


def _discriminator(data: Any) -> object:
    return tuple(str(data.get(name)) for name in ("type", "next_action", "reason", "status", "persona_class"))


def _mutated(data: Any, path: tuple[Step, ...], value: Any) -> Any:
    changed = deepcopy(data)
    parent, last = at(changed, path[:-1]), path[-1]
    if value == "remove":
        del parent[last]
    elif value == "add":
        if not isinstance(parent[last], dict):
            return None
        parent[last]["surprise"] = 1
    else:
        parent[last] = value
    return changed


def parses(document: str, data: Any) -> bool:
    try:
        DOCUMENTS[document].parse(data)
    except Invalid:
        return False
    return True


def test_each_schema_file_stands_as_its_document_says() -> None:
    assert {path.name for path in Path(FOLDER).iterdir()} == {f"{name}.schema.json" for name in DOCUMENTS}
    for name in DOCUMENTS:
        assert (FOLDER / f"{name}.schema.json").read_text("utf-8") == schema_text(name), "run tests/schema_files.py"


def test_each_schema_file_is_a_schema_by_another_implementation() -> None:
    for name in DOCUMENTS:
        jsonschema.Draft202012Validator.check_schema(schema_file(name))


@pytest.mark.untraced
def test_parser_and_schema_agree_about_every_mutant() -> None:
    validators = {name: compile(schema_file(name)) for name in DOCUMENTS}
    good = bad = 0
    for document, what, data in mutants():
        accepted = parses(document, data)
        assert accepted == (validators[document].check(data) is None), what
        good, bad = good + accepted, bad + (not accepted)
    assert good > 500
    assert bad > 5_000


@pytest.mark.requirement("R-1-1")
@pytest.mark.untraced
def test_our_schemas_judge_as_the_published_ones_do() -> None:
    theirs = symposium.schemas()
    resources = [(DRAFT202012.create_resource(each), each["$id"], name) for name, each in theirs.items()]
    registry: Registry[Any] = Registry().with_resources(
        [(uri, resource) for resource, id, name in resources for uri in (id, name)]
    )
    validators = {
        name: jsonschema.Draft202012Validator(theirs[f"{name}.schema.json"], registry=registry) for name in DOCUMENTS
    }
    for document, what, data in mutants():
        if document not in LARGE:
            assert validators[document].is_valid(data) == parses(document, data), what
    for case in (*positive_cases(), *negative_cases()):
        # What theirs cannot say: times, versions, the end of a line, and all that needs more than one document.
        if case.judges[:2] == ("parser", "schema") and case.name not in {
            "a time is a time",
            "a session id ends where it ends",
        }:
            assert validators[case.document].is_valid(case.data) == case.is_good, case.name


def test_a_schema_needs_no_other_file() -> None:
    for name in DOCUMENTS:
        references = json.dumps(schema_file(name)).split('"$ref": "')[1:]
        assert all(each.startswith("#/$defs/") for each in references)
