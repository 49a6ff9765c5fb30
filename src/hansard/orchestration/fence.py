"""Data blocks that cannot be forged. Pure.

What a model or a person wrote enters a prompt between two lines that carry a nonce, and never as instructions. The nonce is
derived from the run's own, the task, the attempt and the block: whoever writes the data cannot know it, and a re-run makes
the same one. A text that should hold it all the same gets another.
"""

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256

NONCE_CHARACTERS = 24
_HALVES = re.compile("[\ud800-\udfff]")
_ODD_IN_A_NAME = re.compile('["<>= ]')
_ODD_IN_QUOTES = re.compile('["<>]')


class Fences:
    """The fences of one prompt. Each block is named once."""

    def __init__(self, run_nonce: str, task: str, attempt: int, turn: str = "") -> None:
        self._key = run_nonce.encode()
        self._about = f"{task}|{attempt}|{turn}"

    def nonce(self, block: str, text: str = "") -> str:
        """The nonce of a block, which does not occur in its text."""
        count = 0
        while True:
            about = f"{self._about}|{block}|{count}" if count else f"{self._about}|{block}"
            found = hmac.new(self._key, about.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:NONCE_CHARACTERS]
            if found not in text:
                return found
            count += 1

    def block(self, name: str, text: str, provenance: Mapping[str, str | int] | None = None) -> str:
        """The text as data, between its two lines. Provenance stands outside of what its writer controls.

        Half of a surrogate pair is no character, and no provider could be asked with it: a mark stands in its place.
        """
        text = _HALVES.sub("\ufffd", text)
        nonce = self.nonce(name, text)
        about = "".join(f" {key}={_quoted(value)}" for key, value in (provenance or {}).items())
        return f"<<<DATA {nonce} {_named(name)}{about}>>>\n{text}\n<<<END {nonce}>>>"


def capped(text: str, characters: int) -> str:
    """The text, or its beginning with a word on how much is missing."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}\n[cut here: {len(text) - characters:,} more characters stand in the record]"


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
