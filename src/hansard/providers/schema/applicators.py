"""Rules that apply other schemas, to the value itself or to what is inside it, one function per keyword of JSON Schema."""

from collections.abc import Callable, Mapping
from typing import Any

from hansard.providers.schema.expression import expression_of
from hansard.providers.schema.rule import Breach, Check, Said, Walk, escaped, show, table_of

SEARCHES_A_STEP = 8
_FREE: tuple[Check | None, str] = (None, "")


def prefix_items(said: Said) -> Check:
    if not isinstance(said.value, list) or not said.value:
        raise said.refuse("a list of schemas")
    checks = [said.compile(each, index) for index, each in enumerate(said.value)]

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if not isinstance(value, list):
            return None
        found = (rule(each, f"{path}/{i}", walk) for i, (rule, each) in enumerate(zip(checks, value, strict=False)))
        return next(filter(None, found), None)

    return check


def items(said: Said) -> Check:
    rule = said.compile(said.value)
    first = said.beside.get("prefixItems")
    start = len(first) if isinstance(first, list) else 0

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if not isinstance(value, list):
            return None
        return next(filter(None, (rule(value[i], f"{path}/{i}", walk) for i in range(start, len(value)))), None)

    return check


def properties(said: Said) -> Check:
    checks = {name: (said.compile(each, name), f"/{escaped(name)}") for name, each in table_of(said).items()}

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if not isinstance(value, dict):
            return None
        for name, each in value.items():
            rule, step = checks.get(name, _FREE)
            if rule and (breach := rule(each, path + step, walk)):
                return breach
        return None

    return check


def pattern_properties(said: Said) -> Check:
    checks = [(expression_of(text, said), said.compile(each, text)) for text, each in table_of(said).items()]

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if not isinstance(value, dict):
            return None
        walk.step(len(value) * len(checks) // SEARCHES_A_STEP)
        found = (
            rule(each, f"{path}/{escaped(str(name))}", walk)
            for name, each in value.items()
            for expression, rule in checks
            if expression.is_in(str(name), walk)
        )
        return next(filter(None, found), None)

    return check


def additional_properties(said: Said) -> Check:
    named = said.beside.get("properties")
    known = set(named) if isinstance(named, Mapping) else set()
    patterned = said.beside.get("patternProperties")
    expressions = [expression_of(text, said) for text in patterned] if isinstance(patterned, Mapping) else []
    closed = said.value is False
    rule = said.compile(said.value)

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if not isinstance(value, dict):
            return None
        walk.step(len(value) * len(expressions) // SEARCHES_A_STEP)
        for name, each in value.items():
            if name in known or any(expression.is_in(str(name), walk) for expression in expressions):
                continue
            below = f"{path}/{escaped(str(name))}"
            if closed:
                return Breach(path=below, rule="additionalProperties", message=f"{show(name)} is not asked for")
            if breach := rule(each, below, walk):
                return breach
        return None

    return check


def _branches(said: Said) -> list[Check]:
    if not isinstance(said.value, list) or not said.value:
        raise said.refuse("a list of schemas")
    return [said.compile(each, index) for index, each in enumerate(said.value)]


def all_of(said: Said) -> Check:
    checks = _branches(said)
    return lambda value, path, walk: next(filter(None, (rule(value, path, walk) for rule in checks)), None)


def _closest(breaches: list[Breach]) -> str:
    return str(max(breaches, key=lambda breach: breach.path.count("/")))


def any_of(said: Said) -> Check:
    checks = _branches(said)

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        missed: list[Breach] = []
        for rule in checks:
            breach = rule(value, path, walk)
            if breach is None:
                return None
            missed.append(breach)
        message = f"fits none of {len(checks)} alternatives; the closest fails at {_closest(missed)}"
        return Breach(path=path, rule="anyOf", message=message)

    return check


def one_of(said: Said) -> Check:
    checks = _branches(said)

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        missed = [breach for rule in checks if (breach := rule(value, path, walk))]
        fitting = len(checks) - len(missed)
        if fitting == 1:
            return None
        if fitting:
            message = f"fits {fitting} of {len(checks)} alternatives, and must fit exactly one"
        else:
            message = f"fits none of {len(checks)} alternatives; the closest fails at {_closest(missed)}"
        return Breach(path=path, rule="oneOf", message=message)

    return check


def not_(said: Said) -> Check:
    rule = said.compile(said.value)

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if rule(value, path, walk):
            return None
        return Breach(path=path, rule="not", message=f"must not be {show(value)}")

    return check


INSIDE: Mapping[str, Callable[[Said], Check]] = {
    "prefixItems": prefix_items,
    "items": items,
    "properties": properties,
    "patternProperties": pattern_properties,
    "additionalProperties": additional_properties,
}
IN_PLACE: Mapping[str, Callable[[Said], Check]] = {"allOf": all_of, "anyOf": any_of, "oneOf": one_of, "not": not_}
