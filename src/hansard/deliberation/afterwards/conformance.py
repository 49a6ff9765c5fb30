"""Shows that our documents are the protocol's: shipped cases, good and bad, through the parsers, the schema files and the semantics.

A bad case is a good one with something changed, and the rule that must be quoted for it. Nothing is fetched.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from hansard.deliberation.documents import DOCUMENTS, Breach, Invalid
from hansard.deliberation.documents.semantics import semantic_breaches
from hansard.domain.value import value
from hansard.providers.schema import Validator, compile

Judge = Literal["parser", "schema", "semantics"]
_FOLDER = files("hansard.deliberation.documents")


@value
class Case:
    """One document, whether it must be accepted, by whom, and the rule that must be quoted when it is not."""

    name: str
    document: str
    data: Any
    judges: tuple[Judge, ...]
    rule: str | None = None

    @property
    def is_good(self) -> bool:
        return self.rule is None


@value
class Report:
    """How many good cases were accepted and bad ones rejected, and what went wrong with the others."""

    positives: int
    negatives: int
    failures: tuple[str, ...]
    accepted: int
    rejected: int

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        lines = [f"positive: {self.accepted} of {self.positives} accepted"]
        lines.append(f"negative: {self.rejected} of {self.negatives} rejected")
        return "\n".join([*lines, *self.failures])


def run_conformance() -> Report:
    """Every shipped case."""
    good, bad = positive_cases(), negative_cases()
    wrong = {case.name: why for case in (*good, *bad) if (why := judge(case)) is not None}
    return Report(
        positives=len(good),
        negatives=len(bad),
        accepted=sum(case.name not in wrong for case in good),
        rejected=sum(case.name not in wrong for case in bad),
        failures=tuple(f"{name}: {why}" for name, why in wrong.items()),
    )


def judge(case: Case) -> str | None:
    """What is wrong with our verdict about this case, or None."""
    for by in case.judges:
        rules = _broken(case, by)
        if case.is_good and rules:
            return f"the {by} refuses it: {', '.join(rules)}"
        if not case.is_good and not rules:
            return f"the {by} accepts it"
        # The schema language has no words for our rules; it only says no.
        if case.rule is not None and by != "schema" and not any(case.rule in rule for rule in rules):
            return f"the {by} quotes {', '.join(rules)} instead of {case.rule}"
    return None


def _broken(case: Case, by: Judge) -> list[str]:
    if by == "schema":
        breach = _validator(case.document).check(case.data)
        return [str(breach)] if breach else []
    found: list[Breach] = []
    if by == "semantics":
        found = semantic_breaches(case.data)
    else:
        try:
            DOCUMENTS[case.document].parse(case.data)
        except Invalid as error:
            found = [error.breach]
    return [breach.rule for breach in found]


@cache
def schema_file(document: str) -> Mapping[str, Any]:
    """The shipped JSON Schema of a document."""
    text = _FOLDER.joinpath("schemas", f"{document}.schema.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@cache
def _validator(document: str) -> Validator:
    return compile(schema_file(document))


def positive_cases() -> tuple[Case, ...]:
    """The good cases."""
    return tuple(_positive())


def _positive() -> Iterator[Case]:
    known: dict[str, Any] = {}
    for case in _shipped()["positive"]:
        known[case["name"]] = data = _filled(case["data"], known)
        judges: tuple[Judge, ...] = ("parser", "schema", "semantics") if case.get("semantic") else ("parser", "schema")
        yield Case(name=case["name"], document=case["document"], data=data, judges=judges)


def negative_cases() -> tuple[Case, ...]:
    """The bad cases."""
    good = {case.name: case for case in positive_cases()}
    known = {name: case.data for name, case in good.items()}
    return tuple(
        Case(
            name=case["name"],
            document=good[case["of"]].document,
            data=_changed(known[case["of"]], _filled(case.get("set", {}), known), case.get("remove", ())),
            judges=tuple(case.get("by", ("parser", "schema"))),
            rule=case["rule"],
        )
        for case in _shipped()["negative"]
    )


@cache
def _shipped() -> Mapping[str, Any]:
    return json.loads(_FOLDER.joinpath("cases.json").read_text("utf-8"))  # type: ignore[no-any-return]


def _filled(data: Any, known: Mapping[str, Any]) -> Any:
    """The data with each {"$case": name} replaced by that case."""
    match data:
        case {"$case": str(name)}:
            return deepcopy(known[name])
        case dict():
            return {name: _filled(each, known) for name, each in data.items()}
        case list():
            return [_filled(each, known) for each in data]
        case _:
            return data


def _changed(data: Any, put: Mapping[str, Any], removed: tuple[str, ...]) -> Any:
    changed = deepcopy(data)
    for pointer, given in put.items():
        place, last = _place(changed, pointer)
        place[last] = given
    for pointer in removed:
        place, last = _place(changed, pointer)
        del place[last]
    return changed


def _place(data: Any, pointer: str) -> tuple[Any, Any]:
    *steps, last = pointer.split("/")[1:]
    for step in steps:
        data = data[int(step)] if isinstance(data, list) else data[step]
    return data, int(last) if isinstance(data, list) else last
