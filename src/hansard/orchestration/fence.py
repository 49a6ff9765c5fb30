"""Data blocks that cannot be forged. Pure.

What a model or a person wrote enters a prompt between two lines that carry a nonce, and never as instructions. The nonce is
derived from the run's own, the task, the attempt and the block: whoever writes the data cannot know it, and a re-run makes
the same one. A text that should hold it all the same gets another.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

NONCE_CHARACTERS = 24
_HALVES = re.compile("[\ud800-\udfff]")
_ODD_IN_A_NAME = re.compile('["<>= ]')
_ODD_IN_QUOTES = re.compile('["<>]')


class Fences:
    """The fences of one prompt. Each block is named once."""

    def __init__(self, run_nonce: str, task: str, attempt: int, turn: str = "") -> None:
        self._inner, self._outer = _keyed(run_nonce)
        self._about = f"{task}|{attempt}|{turn}"

    def nonce(self, block: str, text: str = "") -> str:
        """The nonce of a block, which does not occur in its text."""
        count = 0
        while True:
            about = f"{self._about}|{block}|{count}" if count else f"{self._about}|{block}"
            inner, outer = self._inner.copy(), self._outer.copy()
            inner.update(about.encode("utf-8", "surrogatepass"))
            outer.update(inner.digest())
            found: str = outer.hexdigest()[:NONCE_CHARACTERS]
            if found not in text:
                return found
            count += 1

    def block(self, name: str, text: str, provenance: Mapping[str, str | int] | None = None) -> str:
        """The text as data, between its two lines. Provenance stands outside of what its writer controls.

        Half of a surrogate pair is no character, and no provider could be asked with it: a mark stands in its place.
        """
        if not text.isascii():
            text = _HALVES.sub("\ufffd", text)
        nonce = self.nonce(name, text)
        about = "".join([f" {key}={_quoted(value)}" for key, value in provenance.items()]) if provenance else ""
        return f"<<<DATA {nonce} {_named(name)}{about}>>>\n{text}\n<<<END {nonce}>>>"


@lru_cache(maxsize=64)
def _keyed(run_nonce: str) -> tuple[Any, Any]:
    """HMAC-SHA-256 under a run's nonce, as far as it is the same for every block: its two halves, to be copied."""
    key = run_nonce.encode()
    key = (sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    return sha256(bytes(each ^ 0x36 for each in key)), sha256(bytes(each ^ 0x5C for each in key))


class Kept(NamedTuple):
    """The beginning of a text, and how many characters there are behind it."""

    text: str
    more: int = 0

    @classmethod
    def of(cls, text: str, characters: int) -> "Kept":
        return cls(text[:characters], max(0, len(text) - characters))

    def capped(self, characters: int) -> str:
        """So much of it, with a word on how much of the whole text is missing."""
        more = self.more + max(0, len(self.text) - characters)
        return (
            f"{self.text[:characters]}\n[cut here: {more:,} more characters stand in the record]" if more else self.text
        )


NO_TEXT = Kept("")


def capped(text: str, characters: int) -> str:
    """The text, or its beginning with a word on how much is missing."""
    return Kept(text).capped(characters)


def _named(name: str) -> str:
    """A name that ends neither itself nor its line: tasks have such ids as people give them."""
    return _without(_ODD_IN_A_NAME, name)


def _quoted(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    return f'"{_without(_ODD_IN_QUOTES, value)}"'


def _without(odd: re.Pattern[str], text: str) -> str:
    # Nearly all names are plain, and every prompt has many.
    if text.isprintable() and not odd.search(text):
        return text
    return odd.sub("?", "".join(c if c.isprintable() else "?" for c in text))
