"""Values: frozen dataclasses that are as quick to make as open ones.

A frozen dataclass writes each of its fields around its own lock, which takes four times as long as the writing. A value is
written while it is of an open class of the same layout, and becomes what it is when it is whole.
"""

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_become = object.__dict__["__class__"].__set__


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A class as a frozen dataclass with slots, whose fields are given by name."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    given = [each for each in fields(made) if each.init]
    unlocked = {"__slots__": made.__slots__, "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    opened = type(made.__name__, made.__bases__, unlocked)
    names: dict[str, Any] = {"made": made, "opened": opened, "become": _become, "unset": MISSING}
    lines = [f"def __init__(self{', *' if given else ''}{''.join(map(_parameter, given))}):", " become(self, opened)"]
    for each in given:
        names |= {f"default_{each.name}": each.default, f"factory_{each.name}": each.default_factory}
        lines.append(f" self.{each.name} = {_written(each)}")
    lines.append(" become(self, made)")
    if hasattr(made, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec("\n".join(lines), names)
    made.__init__ = names["__init__"]
    made.__init__.__qualname__ = f"{made.__qualname__}.__init__"
    return made  # type: ignore[no-any-return]


def _parameter(each: "Field[Any]") -> str:
    if each.default_factory is not MISSING:
        return f", {each.name}=unset"
    return f", {each.name}" if each.default is MISSING else f", {each.name}=default_{each.name}"


def _written(each: "Field[Any]") -> str:
    if each.default_factory is MISSING:
        return each.name
    return f"factory_{each.name}() if {each.name} is unset else {each.name}"
