"""Known secrets, and their removal from whatever is about to be recorded, logged or shown.

A secret is found as it is and as programs commonly write it: url-encoded, in JSON, in base64 at any offset. What is not
known here cannot be found: only values that were configured are removed. Never prints a value, not even in an error.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Any, overload
from urllib.parse import quote, quote_plus

from hansard.errors import UsageError

SHORTEST = 8
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_TREE_DEPTH = 4


class Secrets:
    """The secret values of one configuration, by name."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, str] = {}
        self._text: re.Pattern[str] | None = None
        self._bytes: re.Pattern[bytes] | None = None
        for name, value in (values or {}).items():
            self.add(name, value)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(set(self._names.values())))})"

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, name: str, value: str) -> None:
        """Know one more. A value that may occur in ordinary text by chance is refused."""
        if len(value) < SHORTEST:
            raise UsageError(
                f"the secret {name} has {len(value)} characters: too few to be told from ordinary text; "
                f"use one with {SHORTEST} or more"
            )
        for form in _forms(value):
            self._names.setdefault(form, name)
        self._text = self._bytes = None

    @overload
    def scrub(self, text: str) -> str: ...
    @overload
    def scrub(self, text: bytes) -> bytes: ...
    def scrub(self, text: str | bytes) -> str | bytes:
        """The text with `[secret NAME]` in place of every known secret."""
        if not self._names:
            return text
        if isinstance(text, str):
            return self._pattern().sub(lambda found: self._mark(found[0]), text)
        return self._byte_pattern().sub(lambda found: self._mark(found[0].decode()).encode(), text)

    def scrub_json(self, value: Any) -> Any:
        """The same for every text in a JSON value, keys included."""
        match value:
            case str() | bytes():
                return self.scrub(value)
            case Mapping():
                return {self.scrub_json(key): self.scrub_json(each) for key, each in value.items()}
            case list() | tuple():
                return [self.scrub_json(each) for each in value]
            case _:
                return value

    def found_in(self, text: str | bytes) -> str | None:
        """The name of a secret that this text holds, or None."""
        if not self._names:
            return None
        found = self._pattern().search(text) if isinstance(text, str) else self._byte_pattern().search(text)
        return self._names[found[0].decode() if isinstance(found[0], bytes) else found[0]] if found else None

    def _mark(self, form: str) -> str:
        return f"[secret {self._names[form]}]"

    def _pattern(self) -> re.Pattern[str]:
        if self._text is None:
            self._text = re.compile(_alternatives(list(self._names)))
        return self._text

    def _byte_pattern(self) -> re.Pattern[bytes]:
        if self._bytes is None:
            self._bytes = re.compile(_alternatives(list(self._names)).encode())
        return self._bytes


def _alternatives(forms: list[str], depth: int = 0) -> str:
    """One pattern for all of them, the longest first, as a tree of how they begin.

    Without the tree each place of the text would be tried against each form.
    """
    if depth == _TREE_DEPTH or len(forms) == 1:
        return f"(?:{'|'.join(re.escape(form) for form in sorted(forms, key=len, reverse=True))})"
    groups: dict[str, list[str]] = {}
    for form in forms:
        groups.setdefault(form[0], []).append(form[1:])
    branches = (f"{re.escape(first)}{_alternatives(rests, depth + 1)}" for first, rests in sorted(groups.items()))
    return f"(?:{'|'.join(branches)})"


def _forms(value: str) -> Iterator[str]:
    """The value in every writing in which it is looked for."""
    yield value
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield encoded
        yield _ESCAPE.sub(lambda found: found[0].lower(), encoded)
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield repr(value)[1:-1]
    data = value.encode()
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(data).decode()
        for offset in range(3):
            yield _inner(encode(bytes(offset) + data).decode(), offset, len(data))


def _inner(encoded: str, offset: int, size: int) -> str:
    """The characters of a base64 text that depend on the secret alone, and not on what stands before or after it."""
    first = -(-offset * 8 // 6)
    last = (offset + size) * 8 // 6
    return encoded[first:last]
