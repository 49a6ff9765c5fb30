"""Compiles a JSON Schema and checks values against it. A schema that we would not keep to the letter is refused.

Draft 2020-12, the part that we use. An unknown keyword is an error when the schema is compiled, because a rule that is
passed over silently is a rule that nobody keeps. References stay inside the schema: nothing is fetched.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from hansard.errors import UsageError
from hansard.providers.schema.applicators import IN_PLACE, INSIDE
from hansard.providers.schema.assertions import ASSERTIONS
from hansard.providers.schema.rule import Breach, Check, Said, TooMuch, Walk, show

MAX_BYTES = 1024 * 1024
MAX_SCHEMAS = 5_000
MAX_NESTING = 64
RULES: Mapping[str, Callable[[Said], Check]] = {**ASSERTIONS, **INSIDE, **IN_PLACE}
NO_RULE = frozenset(
    {
        *("$schema", "$id", "$comment", "$defs", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords that tell readers something and ask nothing of a value."""


class Validator:
    """One compiled schema."""

    __slots__ = ("_root",)

    def __init__(self, root: Check) -> None:
        self._root = root

    def check(self, value: Any) -> Breach | None:
        """The first rule that the value breaks, or None when it keeps them all. Never raises, whatever the value."""
        try:
            return self._root(value, "", Walk())
        except TooMuch:
            return Breach(path="", rule="size", message="takes too many steps to check against this schema")
        except RecursionError:
            return Breach(path="", rule="depth", message="is nested too deeply to check")

    def read(self, value: Any) -> tuple[Any, Breach | None]:
        """The value as whoever asks wants to have it, or why it is not what was asked for. A schema alone changes nothing."""
        return value, self.check(value)


class Constant(dict[str, Any]):
    """A schema that nobody changes, ever: its validator is made once and stays with it.

    Whoever reads answers more strictly than a schema can say brings a validator of his own; models are shown the schema.
    """

    __slots__ = ("validator",)

    def __init__(self, schema: Mapping[str, Any], validator: Validator | None = None) -> None:
        super().__init__(schema)
        self.validator = validator or _made(self)


def compile(schema: Mapping[str, Any] | bool) -> Validator:
    """A validator for this schema. UsageError names the place of whatever we do not keep."""
    return schema.validator if isinstance(schema, Constant) else _made(schema)


def _made(schema: Mapping[str, Any] | bool) -> Validator:
    try:
        text = json.dumps(schema, allow_nan=False, default=_as_table)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"schema: not JSON: {error}") from error
    if len(text) > MAX_BYTES:
        raise UsageError(f"schema: {len(text)} bytes; at most {MAX_BYTES} are compiled")
    return _compiled(text)


def _as_table(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds a Python {type(value).__name__}")


@lru_cache(maxsize=256)
def _compiled(text: str) -> Validator:
    compiler = _Compiler()
    root = compiler.schema(json.loads(text), "")
    compiler.finish()
    return Validator(root)


class _Compiler:
    """Checks by the pointer of their schema, and which of them look at the same value as which."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._same_value: dict[str, list[str]] = {}
        self._references: list[tuple[str, str]] = []

    def schema(self, value: Any, where: str, nesting: int = 0) -> Check:
        if nesting > MAX_NESTING:
            raise UsageError(f"schema #{where[:80]}...: nested deeper than {MAX_NESTING}")
        if len(self._checks) >= MAX_SCHEMAS:
            raise UsageError(f"schema: more than {MAX_SCHEMAS} parts")
        if isinstance(value, bool):
            made: Check = _anything if value else _nothing
        elif isinstance(value, Mapping):
            made = _all(list(self._rules(value, where, nesting)))
        else:
            raise UsageError(f"schema #{where}: a schema is a table, true or false, not {show(value)}")
        self._checks[where] = made
        return made

    def _rules(self, value: Mapping[str, Any], where: str, nesting: int) -> Iterator[Check]:
        known = RULES.keys() | NO_RULE | {"$ref"}
        for keyword in value:
            if keyword not in known:
                raise UsageError(
                    f"schema #{where}: {keyword} is no keyword that we check; we know {', '.join(sorted(known))}"
                )

        def sub(below: Any, steps: str) -> Check:
            return self.schema(below, where + steps, nesting + 1)

        for keyword in ("$defs", *(name for name in RULES if name in value)):
            said = Said(keyword=keyword, value=value.get(keyword, {}), beside=value, where=where, sub=sub)
            if keyword == "$defs":
                self._definitions(said)
                continue
            if keyword in IN_PLACE:
                inner = range(len(said.value)) if isinstance(said.value, list) else ()
                self._same_value.setdefault(where, []).extend(
                    [where + said.below(i) for i in inner] or [where + said.below()]
                )
            yield RULES[keyword](said)
        if "$ref" in value:
            yield self._reference(value["$ref"], where)

    def _definitions(self, said: Said) -> None:
        if not isinstance(said.value, Mapping):
            raise said.refuse("a table of schemas")
        for name, each in said.value.items():
            said.compile(each, name)

    def _reference(self, target: Any, where: str) -> Check:
        if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
            raise UsageError(f"schema #{where}: $ref must be # or #/$defs/NAME, not {show(target)}")
        pointer = unquote(target[1:])
        self._references.append((where, pointer))
        self._same_value.setdefault(where, []).append(pointer)
        checks = self._checks
        return lambda value, path, walk: checks[pointer](value, path, walk)

    def finish(self) -> None:
        """Refuse references that lead nowhere, and rings that would never look inside the value."""
        for where, pointer in self._references:
            if pointer not in self._checks:
                raise UsageError(f"schema #{where}: $ref #{pointer} leads to no schema")
        done: set[str] = set()
        for start in self._same_value:
            self._follow(start, done)

    def _follow(self, start: str, done: set[str]) -> None:
        open_now: dict[str, Iterator[str]] = {start: iter(self._same_value.get(start, ()))}
        while open_now:
            place, rest = next(reversed(open_now.items()))
            following = next(rest, None)
            if following is None:
                open_now.popitem()
                done.add(place)
            elif following in open_now:
                raise UsageError(f"schema #{following}: refers to itself without looking inside the value")
            elif following not in done:
                open_now[following] = iter(self._same_value.get(following, ()))


def _all(checks: list[Check]) -> Check:
    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        walk.at(path)
        for each in checks:
            if breach := each(value, path, walk):
                return breach
        return None

    return check


def _anything(_: Any, path: str, walk: Walk) -> Breach | None:
    walk.at(path)
    return None


def _nothing(value: Any, path: str, walk: Walk) -> Breach | None:
    walk.at(path)
    return Breach(path=path, rule="false", message=f"must be left out, but is {show(value)}")
