"""A pattern of a schema, looked for in a text in time that grows with the text and never faster.

A schema may come from a model's plan or from somebody's tool, and the text from a model: a search that tries one way after
the other could take for ever between the two. So it is searched like that only where even the worst text of this length is
done with at once; otherwise the pattern becomes a net that is walked once, in all its ways at the same time. What no such walk
decides (looking ahead, referring back), and what makes a large net, is searched in texts of some length, which costs steps; what
no walk decides is not looked for in a long one.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import log, prod
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Literal

from hansard.errors import UsageError
from hansard.providers.schema.rule import Said, TooMuch, Walk, show

FEW_NODES = 100
MOST_NODES = 10_000
MOST_KEPT = 50_000
"""Nodes of all states that one net remembers."""
NODES_A_STEP = 2
FEW_TRIES = 10_000
MOST_TRIES = 1_000_000
PIECES_A_TRY = 30
STEPS_A_SEARCH = 5_000
MOST_TIMES = 1_000
NEVER = -1

_PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_TIMES = re.compile(r"(?:\)|\\[1-9]\d?)\{(\d{0,10}),?(\d{0,10})")
"""How often a group is repeated, or what refers to one: either may be empty, and is then repeated on no text at all."""
_SPACED = re.compile(r"\(\?[A-Za-z-]*x")
"""May begin a pattern with spaces in it that do not count: then nothing here sees what is repeated."""
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SETS = {
    _constants.CATEGORY_DIGIT: frozenset("0123456789"),
    _constants.CATEGORY_SPACE: frozenset(" \t\n\r\f\v"),
    _constants.CATEGORY_WORD: _WORD,
}
_OTHERS = {
    _constants.CATEGORY_NOT_DIGIT: _constants.CATEGORY_DIGIT,
    _constants.CATEGORY_NOT_SPACE: _constants.CATEGORY_SPACE,
    _constants.CATEGORY_NOT_WORD: _constants.CATEGORY_WORD,
}
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
_BEGINNING = (_constants.AT, _constants.AT_BEGINNING)
_AHEAD = (_constants.ASSERT, _constants.ASSERT_NOT)
_EDGES = (
    _constants.AT_BEGINNING,
    _constants.AT_BEGINNING_STRING,
    _constants.AT_END_STRING,
    _constants.AT_BOUNDARY,
)

Test = Callable[[str], bool]
Beside = Literal["edge", "word", "other"]
"""What stands beside a place in the text."""


class Expression:
    """A pattern as ECMA reads it: `$` is the end itself and not a newline before it, \\d and \\w are ASCII."""

    def __init__(self, text: str) -> None:
        """re.error, OverflowError or RecursionError where it is no pattern."""
        pieces = _PIECES.findall(text)
        self._pattern = re.compile("".join(r"\Z" if piece == "$" else piece for piece in pieces), re.ASCII)
        self._quick, self._tame = _tame(text, pieces, FEW_TRIES), _tame(text, pieces, MOST_TRIES)
        self._nets: list[tuple[_Net, bool]] | None = None

    def is_in(self, text: str, walk: Walk) -> bool:
        """Whether the text holds it. TooMuch where that could take too long."""
        if len(text) <= self._quick:
            return self._pattern.search(text) is not None
        if self._nets is None:
            self._nets = self._woven()
            walk.step(self._nodes)
        if len(text) <= self._tame and not 0 < self._nodes <= FEW_NODES:
            walk.step(int(STEPS_A_SEARCH * (len(text) / self._tame) ** 2))
            return self._pattern.search(text) is not None
        if not self._nets:
            raise TooMuch
        return all(net.leads_through(text, walk) is wanted for net, wanted in self._nets)

    @property
    def _nodes(self) -> int:
        return sum(net.nodes for net, _ in self._nets or ())

    def _woven(self) -> "list[tuple[_Net, bool]]":
        try:
            return _nets(_parser.parse(self._pattern.pattern, re.ASCII))
        except _Undecided:
            return []


def _tame(text: str, pieces: Sequence[str], most: int) -> int:
    """How long a text may be so that any search of it is soon done: the number of tries is a power of its length, or worse.

    One try may look at all of the pattern.
    """
    tries = most / max(1, len(pieces) / PIECES_A_TRY)
    if prod(max(map(int, filter(None, found)), default=1) for found in _TIMES.findall(text)) > MOST_TIMES:
        return NEVER
    if _SPACED.search(text):
        return NEVER
    choices = sum(piece in "|?" for piece in pieces)
    repeats = 1 + sum(piece in "*+{" or piece[1:].isdecimal() for piece in pieces)
    if any(before == ")" and piece in "*+{" for before, piece in pairwise(pieces)):
        return int(log(max(1.0, tries), 2 + choices + repeats))
    return int((tries * 0.5**choices) ** (1 / repeats))


class _Undecided(Exception):
    """A pattern that one walk through a text does not decide."""


def _nets(parsed: Any) -> "list[tuple[_Net, bool]]":
    """The pattern, and beside it what it asks for or forbids at the very beginning by looking ahead."""
    if parsed.state.flags & ~(re.ASCII | re.UNICODE):
        raise _Undecided
    parts, found = list(parsed), []
    beginning = parts[:1]
    while beginning == [_BEGINNING] and len(parts) > 1 and parts[1][0] in _AHEAD and parts[1][1][0] > 0:
        what, (_, ahead) = parts.pop(1)
        found.append((_Net([*beginning, *ahead]), what is _constants.ASSERT))
    return [(_Net(parts), True), *found]


class _State(dict[str, "_State"]):
    """Where a walk can be: in these nodes, behind such a character. Holds the states that characters lead to."""

    __slots__ = ("behind", "nodes")

    def __init__(self, nodes: frozenset[int], behind: Beside) -> None:
        self.nodes, self.behind = nodes, behind


_FOUND = _State(frozenset(), "other")


class _Net:
    """The nodes of a pattern: each takes a character, asks for an edge, or leads on to others."""

    def __init__(self, parts: Any) -> None:
        self._tests: list[Test | None] = [None]
        self._edges: list[Any] = [None]
        self._next: list[Sequence[int]] = [()]
        self._start = self._sequence(parts, 0)
        self._knows_words = _constants.AT_BOUNDARY in self._edges
        self._states: dict[tuple[frozenset[int], Beside], _State] = {}
        self._kept = 0

    @property
    def nodes(self) -> int:
        return len(self._next)

    def leads_through(self, text: str, walk: Walk) -> bool:
        state = self._state((), "edge")
        for char in text:
            after = state.get(char)
            if after is None:
                after = self._step(state, char, walk)
            if after is _FOUND:
                return True
            state = after
        return 0 in self._reached(state, "edge", walk)

    def _step(self, state: _State, char: str, walk: Walk) -> _State:
        beside: Beside = "word" if self._knows_words and char in _WORD else "other"
        reached = self._reached(state, beside, walk)
        if 0 in reached:
            after = _FOUND
        else:
            taken = [node for node in reached if (test := self._tests[node]) is not None and test(char)]
            after = self._state([self._next[node][0] for node in taken], beside)
        if self._kept >= MOST_KEPT:
            self._states.clear()
            self._kept = 0
        else:
            state[char] = after
            self._kept += 1 + len(after.nodes)
        return after

    def _state(self, nodes: Iterable[int], behind: Beside) -> _State:
        key = frozenset((*nodes, self._start)), behind
        return self._states.setdefault(key, _State(*key))

    def _reached(self, state: _State, before: Beside, walk: Walk) -> set[int]:
        """All nodes that can be reached here without taking a character. The last one is 0."""
        open_now, reached = list(state.nodes), set(state.nodes)
        while open_now:
            node = open_now.pop()
            if self._tests[node] is None and _is_edge(self._edges[node], state.behind, before):
                more = [each for each in self._next[node] if each not in reached]
                reached.update(more)
                open_now += more
        walk.step(1 + len(reached) // NODES_A_STEP)
        return reached

    def _add(self, *following: int, test: Test | None = None, edge: Any = None) -> int:
        if len(self._next) >= MOST_NODES:
            raise _Undecided
        self._tests.append(test)
        self._edges.append(edge)
        self._next.append(following)
        return len(self._next) - 1

    def _sequence(self, parts: Any, then: int) -> int:
        for what, said in reversed(list(parts)):
            then = self._part(what, said, then)
        return then

    def _part(self, what: Any, said: Any, then: int) -> int:
        if what is _constants.BRANCH:
            return self._add(*[self._sequence(each, then) for each in said[1]])
        if what is _constants.SUBPATTERN and not said[1] and not said[2]:
            return self._sequence(said[3], then)
        if what in _REPEATS:
            least, most, part = said
            return self._repeat(least, most, part, then)
        if what is _constants.AT and said in _EDGES:
            return self._add(then, edge=said)
        return self._add(then, test=_test(what, said))

    def _repeat(self, least: int, most: int, part: Any, then: int) -> int:
        if most is _constants.MAXREPEAT:
            start = self._add(then)
            self._next[start] = (self._sequence(part, start), then)
        else:
            start = then
            for _ in range(most - least):
                start = self._add(self._sequence(part, start), then)
        for _ in range(least):
            before, start = start, self._sequence(part, start)
            if start == before:
                # It takes nothing, however often.
                break
        return start


def _is_edge(edge: Any, behind: Beside, before: Beside) -> bool:
    if edge is None:
        return True
    if edge is _constants.AT_BOUNDARY:
        return (behind == "word") != (before == "word")
    return (before if edge is _constants.AT_END_STRING else behind) == "edge"


def _test(what: Any, said: Any) -> Test:
    """What one character must be."""
    if what is _constants.LITERAL:
        return chr(said).__eq__
    if what is _constants.NOT_LITERAL:
        return chr(said).__ne__
    if what is _constants.ANY:
        return "\n".__ne__
    if what is not _constants.IN:
        raise _Undecided
    return _set(said)


def _set(members: Any) -> Test:
    """That it is one of these, found without a look at each: there may be as many as there are characters."""
    wanted = True
    ranges: list[tuple[str, str]] = []
    sets: list[frozenset[str]] = []
    others: list[frozenset[str]] = []
    for what, said in members:
        if what is _constants.NEGATE:
            wanted = False
        elif what is _constants.LITERAL:
            ranges.append((chr(said), chr(said)))
        elif what is _constants.RANGE:
            ranges.append((chr(said[0]), chr(said[1])))
        elif what is _constants.CATEGORY and said in _SETS:
            sets.append(_SETS[said])
        elif what is _constants.CATEGORY and said in _OTHERS:
            others.append(_SETS[_OTHERS[said]])
        else:
            raise _Undecided
    named = frozenset[str]().union(*sets)
    # Of `not these` or `not those`, only what is among both is left out.
    left_out = frozenset.intersection(*others) if others else None
    firsts, lasts = _apart(ranges)

    def test(char: str) -> bool:
        at = bisect_right(firsts, char) - 1
        among = char in named or (left_out is not None and char not in left_out) or (at >= 0 and char <= lasts[at])
        return among is wanted

    return test


def _apart(ranges: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The same characters in ranges that do not overlap, by their first and their last ones."""
    firsts: list[str] = []
    lasts: list[str] = []
    for first, last in sorted(ranges):
        if lasts and first <= lasts[-1]:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    return firsts, lasts


def expression_of(text: Any, said: Said) -> Expression:
    """What a schema says as an expression."""
    if not isinstance(text, str):
        raise said.refuse("a regular expression")
    try:
        return Expression(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"schema #{said.where}: {said.keyword} {show(text)} is no regular expression: {error}"
        ) from error
