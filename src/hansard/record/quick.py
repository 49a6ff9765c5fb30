"""The codec's checks as one compiled expression per kind, as dataclasses compile their own methods.

A quick check either gives exactly the data and bodies that codec.encode gives, or None: then the definition decides, and says what is
wrong. Recording is on every step's path; walking a table of fields would cost it a third of its time.
"""

from collections.abc import Callable, Iterable
from typing import Any

from hansard.domain.fact import Body, Fact
from hansard.ledger.canonical import MAX_INT, Json
from hansard.record.codec import MAX_TEXT, Field, Shape

Quick = Callable[[Fact], tuple[dict[str, Json], list[tuple[str, Body]]] | None]


def compile_check(shape: Shape) -> Quick:
    """The quick check of one kind."""
    names: dict[str, Any] = {"Body": Body} | {f"choices_{at}": field.choices for at, field in enumerate(shape.data)}
    needed = [(at, field) for at, field in enumerate(shape.data) if not field.optional and field.want is not tuple]
    maybe = [(at, field) for at, field in enumerate(shape.data) if (at, field) not in needed]
    lines = ["def quick(fact):", *(f"    value_{at} = fact.{field.name}" for at, field in enumerate(shape.data))]
    if needed:
        tests = [*(_type_test(at, field) for at, field in needed), *_range_tests(needed)]
        lines += [f"    if not ({' and '.join(tests)}):", "        return None"]
    lines.append(f"    data = {{{', '.join(f'{field.name!r}: value_{at}' for at, field in needed)}}}")
    for at, field in maybe:
        lines += _optional(at, field)
    lines.append("    bodies = []")
    for name, optional in shape.parts:
        lines += _part(name, optional)
    lines.append("    return data, bodies")
    exec("\n".join(lines), names)
    made: Quick = names["quick"]
    return made


def _optional(at: int, field: Field) -> list[str]:
    if field.want is tuple:
        # Lists are rare: whenever there is one, the definition checks it.
        empty = "value_{at} is None or value_{at} == ()" if field.optional else "False"
        return [f"    if not ({empty.format(at=at)}):", "        return None"]
    return [
        f"    if value_{at} is not None:",
        f"        if not ({' and '.join([_type_test(at, field), *_range_tests([(at, field)])])}):",
        "            return None",
        f"        data[{field.name!r}] = value_{at}",
    ]


def _part(name: str, optional: bool) -> list[str]:
    return [
        f"    body = fact.{name}",
        "    if type(body) is Body and type(body.data) is bytes:",
        f"        bodies.append(({name!r}, body))",
        "    elif body is not None:" if optional else "    else:",
        "        return None",
    ]


def _type_test(at: int, field: Field) -> str:
    same = f"type(value_{at}) is {field.want.__name__}"
    if field.choices is not None:
        return f"{same} and value_{at} in choices_{at}"
    return f"{same} and len(value_{at}) <= {MAX_TEXT}" if field.want is str else same


def _range_tests(given: Iterable[tuple[int, Field]]) -> list[str]:
    """For all numbers at once, which takes half of the time: they are known to be numbers by then."""
    numbers = ", ".join(f"value_{at}" for at, field in given if field.want is int)
    return [f"min(0, {numbers}) >= -{MAX_INT}", f"max(0, {numbers}) <= {MAX_INT}"] if numbers else []
