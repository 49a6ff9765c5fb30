"""Values: frozen dataclasses that are as quick to make as open ones.

A frozen dataclass writes each of its fields around its own lock, which takes four times as long as the writing. A value is
written while it is of an open class of the same layout, and becomes what it is when it is whole.
"""

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_become = object.__dict__["__class__"].__set__


def replace(given: T, /, **changes: Any) -> T:
    """A value with other fields, quicker than dataclasses.replace; as copy.replace has it from Python 3.13 on."""
    return given.__replace__(**changes)  # type: ignore[attr-defined,no-any-return]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A class as a frozen dataclass with slots, whose fields are given by name."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    given = [each for each in fields(made) if each.init]
    unlocked = {"__slots__": made.__slots__, "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    opened = type(made.__name__, made.__bases__, unlocked)
    # In capitals, as no field is.
    names: dict[str, Any] = {"MADE": made, "OPENED": opened, "BECOME": _become, "NEW": object.__new__, "UNSET": MISSING}
    for each in given:
        names |= {f"DEFAULT_{each.name}": each.default, f"FACTORY_{each.name}": each.default_factory}
    exec("\n".join([*_making(made, given), *_replacing(made)]), names)
    for name in ("__init__", "__replace__"):
        setattr(made, name, names[name])
        names[name].__qualname__ = f"{made.__qualname__}.{name}"
    return made  # type: ignore[no-any-return]


def _making(made: Any, given: "list[Field[Any]]") -> list[str]:
    return [
        f"def __init__(self{', *' if given else ''}{''.join(map(_parameter, given))}):",
        " BECOME(self, OPENED)",
        *(f" self.{each.name} = {_written(each)}" for each in given),
        " BECOME(self, MADE)",
        *([" self.__post_init__()"] if hasattr(made, "__post_init__") else []),
    ]


def _replacing(made: Any) -> list[str]:
    return [
        "def __replace__(self, /, **changes):",
        " twin = NEW(MADE)",
        " BECOME(twin, OPENED)",
        *(f" twin.{each.name} = self.{each.name}" for each in fields(made)),
        " for name, value in changes.items():",
        "  setattr(twin, name, value)",
        " BECOME(twin, MADE)",
        *([" twin.__post_init__()"] if hasattr(made, "__post_init__") else []),
        " return twin",
    ]


def _parameter(each: "Field[Any]") -> str:
    if each.default_factory is not MISSING:
        return f", {each.name}=UNSET"
    return f", {each.name}" if each.default is MISSING else f", {each.name}=DEFAULT_{each.name}"


def _written(each: "Field[Any]") -> str:
    if each.default_factory is MISSING:
        return each.name
    return f"FACTORY_{each.name}() if {each.name} is UNSET else {each.name}"
