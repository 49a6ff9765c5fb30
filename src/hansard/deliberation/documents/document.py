"""What every document of the protocol is: a frozen dataclass whose annotations are its schema.

A member without a default must be there. One of type `X | None = None` may be left out, and None means left out. Where
null and left out are different things the type names `Absent` too. Rules between members are `When` clauses, so that the
parser and the JSON Schema are made from the same words.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from hansard.deliberation.documents.breach import Invalid
from hansard.deliberation.documents.shape import (
    Anything,
    Choice,
    Definitions,
    Either,
    Flag,
    ListOf,
    MapOf,
    Null,
    Number,
    Shape,
    Text,
    Whole,
    copied,
    wrong,
)
from hansard.domain.value import value


class Absent(Enum):
    """A member that is not there, where null would say something else."""

    ABSENT = "absent"

    def __bool__(self) -> Literal[False]:
        return False


ABSENT: Literal[Absent.ABSENT] = Absent.ABSENT
_AS_THEY_ARE = frozenset({str, int, float, bool})


class NotEmpty:
    """In an annotation of a tuple: at least one item."""


@value
class When:
    """A rule between members: when `member` is one of `values`, these must be there, these must not, and these have this shape."""

    rule: str
    member: str
    values: tuple[str, ...]
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)

    def check(self, data: Mapping[str, Any]) -> None:
        said = f"when {self.member} is {data[self.member]}"
        for name in self.required:
            if name not in data:
                raise Invalid(f"must have {name} {said}", rule=self.rule)
        for name in self.forbidden:
            if name in data:
                raise Invalid(f"must not have {name} {said}", rule=self.rule)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        shapes = {name: shape.schema(definitions) for name, shape in self.shapes.items()}
        members = {**shapes, **dict.fromkeys(self.forbidden, False)}
        then = {
            **({"required": list(self.required)} if self.required else {}),
            **({"properties": members} if members else {}),
        }
        told = {"properties": {self.member: {"enum": list(self.values)}}, "required": [self.member]}
        # The same as if/then, in keywords that our own validator knows.
        return {"$comment": self.rule, "anyOf": [{"not": told}, then]}


@value
class Document:
    """Base of every document and of the parts that documents share. SECTION is where the protocol describes it."""

    SECTION: ClassVar[str]
    RULES: ClassVar[tuple[When, ...]] = ()

    @classmethod
    def parse(cls, data: object) -> Self:
        """The document that this JSON value is. Invalid says the path, the rule, and what it asks for."""
        try:
            return of(cls).read(data)  # type: ignore[no-any-return]
        except Invalid as error:
            error.document = cls.__name__
            raise

    @classmethod
    def trim(cls, data: object) -> Any:
        """The same JSON value without members that the schema does not know, and without null where null means nothing (§5.4)."""
        return of(cls).trim(data)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """This document as a JSON Schema (draft 2020-12) that needs no other file."""
        definitions: Definitions = {}
        root = of(cls).members_schema(definitions)
        return {**root, **({"$defs": dict(sorted(definitions.items()))} if definitions else {})}

    def as_data(self) -> dict[str, Any]:
        """The document as JSON holds it; parsing that gives this document again."""
        shape, data = of(type(self)), {}
        for name, held in zip(shape.members, shape.values(self), strict=True):
            if type(held) in _AS_THEY_ARE:
                data[name] = held
            elif held is not ABSENT and (held is not None or shape.members[name].nullable):
                data[name] = as_json(held)
        return data


def as_json(value: Any) -> Any:
    """A value of a document as JSON holds it."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Document):
        return value.as_data()
    if isinstance(value, tuple):
        return [as_json(each) for each in value]
    return copied(value) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a document: its shape, whether it may be left out, whether null may stand there."""

    shape: Shape
    optional: bool
    nullable: bool


@dataclass(frozen=True, slots=True)
class Of:
    """The shape of a document: an object with these members and no others."""

    document: type[Document]
    members: Mapping[str, Member]
    required: frozenset[str]
    values: Callable[[Document], tuple[Any, ...]]
    """What a document has for its members, in their order."""
    kinds = ("object",)

    def read(self, value: object) -> Any:
        if not isinstance(value, dict):
            raise self._placed(wrong("an object", value))
        try:
            if not self.required <= value.keys() <= self.members.keys():
                self._check_names(value)
            found = self._members_of(value) if self.document.RULES else self._plain_members_of(value)
        except Invalid as error:
            raise self._placed(error) from None
        return self.document(**found)

    def _members_of(self, value: Mapping[str, Any]) -> dict[str, Any]:
        special = self._special(value)
        found: dict[str, Any] = {}
        for name, member in self.members.items():
            if name in value:
                shape, rule = special.get(name, (member.shape, ""))
                found[name] = _read(name, shape, rule, value[name])
            elif member.nullable:
                found[name] = ABSENT
        return found

    def _plain_members_of(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The same for a document without rules between its members, as most are."""
        found: dict[str, Any] = {}
        name = ""
        try:
            for name, member in self.members.items():
                if name in value:
                    found[name] = member.shape.read(value[name])
                elif member.nullable:
                    found[name] = ABSENT
        except Invalid as error:
            error.under(name)
            raise
        return found

    def _placed(self, error: Invalid) -> Invalid:
        error.rule = error.rule or self.document.SECTION
        return error

    def _check_names(self, value: Mapping[Any, Any]) -> None:
        for name, member in self.members.items():
            if not member.optional and name not in value:
                raise Invalid(f"must have {name}")
        for name in value:
            if name not in self.members:
                raise Invalid(f"must not have {name!r:.60}; the members are {', '.join(self.members)}")

    def _special(self, value: Mapping[str, Any]) -> Mapping[str, tuple[Shape, str]]:
        """The shapes that members take because of what other members say, and the rule that says so."""
        special: dict[str, tuple[Shape, str]] = {}
        for when in self.document.RULES:
            if when.member in value and _is_one_of(value[when.member], when.values):
                when.check(value)
                special.update((name, (shape, when.rule)) for name, shape in when.shapes.items())
        return special

    def trim(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: self.members[name].shape.trim(each)
            for name, each in value.items()
            if name in self.members
            and not (each is None and self.members[name].optional and not self.members[name].nullable)
        }

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        name = self.document.__name__
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = self.members_schema(definitions)
        return {"$ref": f"#/$defs/{name}"}

    def members_schema(self, definitions: Definitions) -> dict[str, Any]:
        rules = [when.schema(definitions) for when in self.document.RULES]
        return {
            "description": f"{(self.document.__doc__ or '').splitlines()[0]} [{self.document.SECTION}]",
            "type": "object",
            "properties": {name: member.shape.schema(definitions) for name, member in self.members.items()},
            "required": [name for name, member in self.members.items() if not member.optional],
            "additionalProperties": False,
            **({"allOf": rules} if rules else {}),
        }


def _is_one_of(value: object, values: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in values


def _read(name: str, shape: Shape, rule: str, value: object) -> Any:
    try:
        return shape.read(value)
    except Invalid as error:
        error.under(name)
        error.rule = error.rule or rule
        raise


_MADE: dict[type[Document], Of] = {}


def of(document: type[Document]) -> Of:
    """The shape of a document, made once from its annotations."""
    if document not in _MADE:
        _MADE[document] = _make(document)
    return _MADE[document]


def _make(document: type[Document]) -> Of:
    hints = get_type_hints(document, include_extras=True)
    members = {each.name: _member(hints[each.name], each.default is not MISSING) for each in fields(document)}
    required = frozenset(name for name, member in members.items() if not member.optional)
    return Of(document, members, required, _getter(tuple(members)))


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    # Of a single name it gives the value and no tuple.
    return attrgetter(*names) if len(names) > 1 else lambda document: tuple(getattr(document, name) for name in names)


def _member(hint: Any, has_default: bool) -> Member:
    kinds = list(get_args(hint)) if get_origin(hint) in {Union, UnionType} else [hint]
    knows_absent, knows_none = Absent in kinds, NoneType in kinds
    nullable = knows_none and (knows_absent or not has_default)
    kinds = [kind for kind in kinds if kind not in {Absent, NoneType}]
    shapes = tuple(_shape(kind) for kind in kinds)
    if nullable:
        shapes = (Null(), *shapes)
    return Member(shapes[0] if len(shapes) == 1 else Either(shapes), has_default, nullable)


PLAIN: Mapping[Any, Shape] = {str: Text(0), int: Whole(), float: Number(), bool: Flag(), Any: Anything()}


def _shape(hint: Any) -> Shape:
    if hint in PLAIN:
        return PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, *marks = arguments
        if marks == [NotEmpty]:
            return ListOf(_shape(get_args(inner)[0]), 1)
        return marks[0]  # type: ignore[no-any-return]
    if origin is Literal:
        return Choice(arguments)
    if origin is tuple:
        return ListOf(_shape(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MapOf(_shape(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, Document):
        return of(hint)
    raise TypeError(f"no shape for {hint!r}")
