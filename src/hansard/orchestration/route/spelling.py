"""Finds the known word behind one that nobody wrote down: a slip of the finger, or another ending. Pure."""

from bisect import bisect_left
from collections.abc import Iterable

SHORTEST, SHORTEST_PREFIX = 5, 5
# A word that was guessed at is worth less than one that stands there.
SLIP_WORTH, ENDING_WORTH, MIN_SHARE = 0.8, 0.8, 0.7
NOTHING = ("", 0.0)


class Spelling:
    """Known words, by their length and first letter and in order, so that looking near one is quick."""

    def __init__(self, known: Iterable[str]) -> None:
        self._sorted = sorted({word for word in known if len(word) >= SHORTEST and word.isalpha()})
        self._shelves: dict[tuple[int, str], list[str]] = {}
        for word in self._sorted:
            self._shelves.setdefault((len(word), word[0]), []).append(word)

    def nearest(self, word: str) -> tuple[str, float]:
        """The known word that this one stands for, and what it is worth then; ("", 0.0) where there is none."""
        if len(word) < SHORTEST or not word.isalpha():
            return NOTHING
        # One slip leaves the first or the last half as it was, which is quicker to see than the slip itself.
        half = (len(word) - 2) // 2
        start, end = word[:half], word[len(word) - half :]
        slips = [
            known
            for length in (len(word), len(word) - 1, len(word) + 1)
            for known in self._shelves.get((length, word[0]), ())
            if (known.startswith(start) or known.endswith(end)) and is_slip(word, known)
        ]
        if slips:
            # Swapped letters are the commonest slip; then the word that agrees for longest.
            return max(
                slips, key=lambda known: (sorted(known) == sorted(word), _shared_start(word, known), known)
            ), SLIP_WORTH
        return self._by_beginning(word)

    def _by_beginning(self, word: str) -> tuple[str, float]:
        place = bisect_left(self._sorted, word)
        near = self._sorted[max(place - 1, 0) : place + 1]
        length, known = max(((_shared_start(word, each), each) for each in near), default=(0, ""))
        share = length / max(len(word), len(known), 1)
        return (known, share * ENDING_WORTH) if length >= SHORTEST_PREFIX and share >= MIN_SHARE else NOTHING


def is_slip(one: str, other: str) -> bool:
    """Whether one letter too many, too few, wrong, or two swapped, make the difference."""
    start = _shared_start(one, other)
    one, other = one[start:], other[start:]
    end = _shared_start(one[::-1], other[::-1])
    left, right = one[: len(one) - end], other[: len(other) - end]
    return max(len(left), len(right)) <= 1 or (len(left) == 2 and left == right[::-1])


def _shared_start(one: str, other: str) -> int:
    for place, (mine, its) in enumerate(zip(one, other, strict=False)):
        if mine != its:
            return place
    return min(len(one), len(other))
