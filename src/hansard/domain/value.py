"""Values: frozen dataclasses that cost little before they are used, and are as quick to make as open ones.

Half of the time that a command took to start went into writing the methods of dataclasses, most of which it never called: a
value has its methods written when the first of them is called. A frozen dataclass also writes each of its fields around its
own lock, which takes four times as long as the writing: a value is written while it is of an open class of the same layout,
and becomes what it is when it is whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from inspect import Signature

T = TypeVar("T")

WRITTEN = ("__init__", "__replace__", "__eq__", "__hash__")
"""The methods that are made for each class, as against those that are the same for all."""

_become = object.__dict__["__class__"].__set__


def replace(given: T, /, **changes: Any) -> T:
    """A value with other fields, quicker than dataclasses.replace; as copy.replace has it from Python 3.13 on."""
    return given.__replace__(**changes)  # type: ignore[attr-defined,no-any-return]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A class as a frozen dataclass with slots, whose fields are given by name."""
    # Where there is no text, the standard library works out a signature to stand for it.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made = dataclass(init=False, repr=False, eq=False, kw_only=True, slots=True)(cls)
    lacking = [name for name in WRITTEN if name not in cls.__dict__]
    for name in lacking:
        setattr(made, name, _at_first(made, name, lacking))
    if "__init__" in lacking:
        made.__signature__ = _SIGNATURE  # type: ignore[attr-defined]
    for name, method in SHARED.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


class _Signature:
    """How a value is made, for help() and editors; worked out when somebody asks, since its methods may not be written yet."""

    def __get__(self, instance: object, made: Any) -> "Signature":
        from inspect import Parameter, Signature

        def parameter(each: "Field[Any]") -> Parameter:
            default = each.default if each.default_factory is MISSING else each.default_factory
            shown = Parameter.empty if default is MISSING else default
            return Parameter(each.name, Parameter.KEYWORD_ONLY, default=shown, annotation=each.type)

        return Signature([parameter(each) for each in fields(made) if each.init])


_SIGNATURE = _Signature()


def _at_first(made: Any, name: str, lacking: Sequence[str]) -> Callable[..., Any]:
    """What stands for a method until it is called. Two threads may write the methods at once: they write the same."""

    def method(self: Any, *given: Any, **named: Any) -> Any:
        names = _methods(made)
        for each in lacking:
            names[each].__qualname__ = f"{made.__qualname__}.{each}"
            setattr(made, each, names[each])
        return getattr(made, name)(self, *given, **named)

    return method


def _methods(made: Any) -> dict[str, Any]:
    given = [each for each in fields(made) if each.init]
    alike = {name: made.__dict__[name] for name in ("__slots__", "__orig_bases__") if name in made.__dict__}
    opened = type(made.__name__, made.__bases__, alike | UNLOCKED)
    # In capitals, as no field is.
    names: dict[str, Any] = {"MADE": made, "OPENED": opened, "BECOME": _become, "NEW": object.__new__, "UNSET": MISSING}
    for each in given:
        names |= {f"DEFAULT_{each.name}": each.default, f"FACTORY_{each.name}": each.default_factory}
    exec("\n".join([*_making(made, given), *_replacing(made), *_comparing(made)]), names)
    return names


def _making(made: Any, given: "list[Field[Any]]") -> list[str]:
    return [
        f"def __init__(self{', *' if given else ''}{''.join(map(_parameter, given))}):",
        " BECOME(self, OPENED)",
        *(f" self.{each.name} = {_written(each)}" for each in given),
        " self.__class__ = MADE",
        *([" self.__post_init__()"] if hasattr(made, "__post_init__") else []),
    ]


def _replacing(made: Any) -> list[str]:
    names = [each.name for each in fields(made)]
    return [
        f"def __replace__(self, /{', *' if names else ''}{''.join(f', {name}=UNSET' for name in names)}):",
        " TWIN = NEW(OPENED)",
        *(f" TWIN.{name} = self.{name} if {name} is UNSET else {name}" for name in names),
        " TWIN.__class__ = MADE",
        *([" TWIN.__post_init__()"] if hasattr(made, "__post_init__") else []),
        " return TWIN",
    ]


def _comparing(made: Any) -> list[str]:
    compared = [each.name for each in fields(made) if each.compare]
    ours, theirs = ("".join(f"{side}.{name}, " for name in compared) for side in ("self", "other"))
    return [
        "def __eq__(self, other):",
        f" return ({ours}) == ({theirs}) if other.__class__ is self.__class__ else NotImplemented",
        "def __hash__(self):",
        f" return hash(({ours}))",
    ]


def _parameter(each: "Field[Any]") -> str:
    if each.default_factory is not MISSING:
        return f", {each.name}=UNSET"
    return f", {each.name}" if each.default is MISSING else f", {each.name}=DEFAULT_{each.name}"


def _written(each: "Field[Any]") -> str:
    if each.default_factory is MISSING:
        return each.name
    return f"FACTORY_{each.name}() if {each.name} is UNSET else {each.name}"


def _shown(self: Any) -> str:
    told = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(told)})"


def _refuse_setting(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: Sequence[Any]) -> None:
    for each, held in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, held)


SHARED: Mapping[str, Callable[..., Any]] = {
    "__repr__": _shown,
    "__setattr__": _refuse_setting,
    "__delattr__": _refuse_deleting,
    "__getstate__": _state,
    "__setstate__": _restore,
}
UNLOCKED = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
