"""A value is what a frozen dataclass with slots is, whatever way it is made."""

import copy
import dataclasses
import gc
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, field, fields, is_dataclass
from threading import Barrier
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import hansard
from hansard.domain.fact import Body
from hansard.domain.value import replace, value
from hansard.domain.work import TaskJudged

T = TypeVar("T")


@value
class Point:
    KIND: ClassVar[str] = "point"
    x: int
    y: int = 2
    tags: tuple[str, ...] = field(default_factory=tuple)


@value
class Checked:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size is not negative")


@value
class Inner(Point):
    z: int


@value
class Holding(Generic[T]):
    held: T
    secret: str = field(default="hush", repr=False, compare=False)


@value
class Own:
    """What a class says itself, stays."""

    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and abs(self.x) == abs(other.x)

    def __hash__(self) -> int:
        return abs(self.x)

    def __repr__(self) -> str:
        return f"<{self.x}>"


@value
class Nothing:
    pass


@value
class Awkward:
    """Fields may have any name, those of the machinery too."""

    made: int
    opened: int = 1
    become: int = 2
    new: int = 3
    unset: tuple[int, ...] = field(default_factory=tuple)
    changes: int = 4
    twin: int = 5
    value: int = 6
    name: int = 7


def test_its_fields_are_given_by_name_and_have_their_defaults() -> None:
    assert repr(Point(x=1)) == "Point(x=1, y=2, tags=())"
    assert repr(Inner(x=1, z=3)) == "Inner(x=1, y=2, tags=(), z=3)"
    assert [each.name for each in fields(Inner)] == ["x", "y", "tags", "z"]
    assert repr(Nothing()) == "Nothing()"
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Point(1)  # type: ignore[call-arg]


def test_how_it_is_made_is_told_before_the_first_one_is_made() -> None:
    @value
    class Fresh(Point):
        z: int

    assert str(inspect.signature(Fresh)) == "(*, x: int, y: int = 2, tags: tuple[str, ...] = <class 'tuple'>, z: int)"
    assert "provider: str | None = None" in str(inspect.signature(hansard.Wishes))
    assert str(inspect.signature(Nothing)) == "()"


def test_the_public_names_are_there_for_whoever_looks_for_names() -> None:
    assert set(hansard.__all__) <= set(dir(hansard))


@pytest.mark.parametrize("made", [Point(x=1), Inner(x=1, z=2), Checked(size=3)])
def test_nobody_changes_it(made: object) -> None:
    name = fields(made)[0].name  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        setattr(made, name, 5)
    with pytest.raises(FrozenInstanceError):
        delattr(made, name)
    assert not hasattr(made, "__dict__")


def test_it_is_equal_to_its_like_and_survives_copies() -> None:
    one = Inner(x=1, z=2, tags=("a",))
    assert one == Inner(x=1, z=2, tags=("a",)) != Inner(x=1, z=3, tags=("a",))
    assert hash(one) == hash(replace(one, y=2))
    assert one == copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one))
    assert type(one) is Inner
    assert isinstance(one, Point)


def test_it_is_checked_when_it_is_whole_and_a_refused_one_leaves_nothing() -> None:
    assert Checked(size=1).size == 1
    with pytest.raises(ValueError, match="negative"):
        Checked(size=-1)


@pytest.mark.parametrize("changed", [replace, dataclasses.replace])
def test_another_is_made_from_it_with_other_fields(changed: Callable[..., Any]) -> None:
    one = Inner(x=1, z=2, tags=("a",))
    other = changed(one, y=5, tags=())
    assert other == Inner(x=1, y=5, z=2)
    assert type(other) is Inner
    assert one == Inner(x=1, z=2, tags=("a",))
    with pytest.raises(FrozenInstanceError):
        other.y = 6  # type: ignore[misc]
    with pytest.raises(ValueError, match="negative"):
        changed(Checked(size=1), size=-1)
    for unknown in ("w", "KIND"):
        with pytest.raises((AttributeError, TypeError), match=unknown):
            changed(one, **{unknown: 1})
    assert changed(Nothing()) == Nothing()
    assert changed(Awkward(made=0), made=9, name=8, value=5) == Awkward(made=9, name=8, value=5)


def test_it_may_be_generic_and_say_which_fields_count() -> None:
    one = Holding(held=[1])
    assert one == Holding(held=[1], secret="loud") != Holding(held=[2])
    assert repr(one) == "Holding(held=[1])"
    assert replace(one, held=[3]).secret == "hush"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert one.__eq__("something else") is NotImplemented


def test_what_a_class_says_itself_stays() -> None:
    assert Own(x=-1) == Own(x=1)
    assert hash(Own(x=-1)) == 1
    assert repr(replace(Own(x=1), x=2)) == "<2>"


@pytest.mark.parametrize("first", [repr, hash, lambda it: it == it, replace, copy.copy, copy.deepcopy])
def test_whichever_method_is_called_first_it_is_there(first: Callable[[Any], object]) -> None:
    """The methods of a class are written when one of them is wanted: until then nothing is there but their names."""

    @value
    class Fresh:
        x: int = 1

    made = object.__new__(Fresh)
    object.__setattr__(made, "x", 1)
    first(made)
    assert made == Fresh() == replace(Fresh(x=2), x=1)
    assert hash(made) == hash(Fresh())


def test_many_threads_may_want_the_first_one_at_once() -> None:
    @value
    class Fresh:
        x: int
        y: tuple[int, ...] = field(default_factory=tuple)

    together = Barrier(8)

    def make(x: int) -> Fresh:
        together.wait()
        return Fresh(x=x)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(8)))
    assert [each.x for each in made] == list(range(8))
    assert {type(each) for each in made} == {Fresh}
    assert made[3] == Fresh(x=3, y=())


@pytest.mark.untraced
def test_no_value_has_a_plain_subclass() -> None:
    """A value becomes of its own class when it is whole: of a subclass that is none, it would forget that it is one."""
    for found in pkgutil.walk_packages(hansard.__path__, "hansard."):
        if found.name.startswith(("hansard.domain", "hansard.record", "hansard.orchestration", "hansard.deliberation")):
            importlib.import_module(found.name)
    # A class with slots is made anew; until somebody collects it, the one that it was made from is a subclass, too.
    gc.collect()
    below, todo = 0, [object]
    while todo:
        for each in type.__subclasses__(todo.pop()):
            # From Python 3.13 on any dataclass has it.
            if is_dataclass(each) and "__replace__" in each.__dict__ and each.__module__.startswith("hansard."):
                for sub in each.__subclasses__():
                    if sub.__module__ == value.__module__:  # the open class, in which one is written
                        continue
                    below += 1
                    assert "__replace__" in sub.__dict__, f"{sub} is no value, {each} is"
            todo.append(each)
    assert below > 20


def test_a_fact_is_one() -> None:
    fact = TaskJudged(task="t", attempt=1, ok=True, by="checks", same_model=False, reasons=Body.text("r"))
    assert replace(fact, ok=False).ok is False
    assert type(fact) is TaskJudged
    with pytest.raises(FrozenInstanceError):
        fact.ok = False  # type: ignore[misc]
