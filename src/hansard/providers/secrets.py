"""Known secrets, and their removal from whatever is about to be recorded, logged or shown.

A secret is found as it is and as programs commonly write it: url-encoded, in JSON, in base64 at any offset, also where that is
broken into lines. What is not known here cannot be found: only values that were configured are removed. Where a text was cut,
at its ends and beside our mark for that, half of one is found too. Never prints a value, not even in an error.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Any, overload
from urllib.parse import quote, quote_plus

from hansard.errors import UsageError

SHORTEST = 8
CUT = "…"
MOST_CUTS = 100
LONGEST_NUMBER_BITS = 8_192
"""Python writes no number of more than 4,300 digits, and the record takes none: whoever checks it says so."""
UNREADABLE = "surrogateescape"
"""How Python holds bytes of the environment that are no UTF-8."""
_BREAK = r"(?:\\+[rn]|[\r\n])*"
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


class Secrets:
    """The secret values of one configuration, by name."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._forms: dict[str, str] = {}
        self._cores: list[tuple[str, bytes]] = []
        self._in_base64: dict[str, bytes] = {}
        self._halves: dict[str, tuple[str, str]] = {}
        for name, value in (values or {}).items():
            self.add(name, value)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(set(self._forms.values())))})"

    def __bool__(self) -> bool:
        return bool(self._forms)

    def add(self, name: str, value: str) -> None:
        """Know one more. A value that may occur in ordinary text by chance is refused."""
        if len(value) < SHORTEST:
            raise UsageError(
                f"the secret {name} has {len(value)} characters: too few to be told from ordinary text; "
                f"use one with {SHORTEST} or more"
            )
        forms = sorted(set(_forms(value)), key=len)
        for form in forms:
            self._forms.setdefault(form, name)
            half = max(SHORTEST, -(-len(form) // 2))
            self._halves[form] = form[:half], form[-half:]
        # A form that holds another one is found with it.
        cores = [form for i, form in enumerate(forms) if not any(shorter in form for shorter in forms[:i])]
        self._cores += [(core, _bytes(core)) for core in cores]
        self._in_base64 |= {form: form.encode() for form in _in_base64(value)}

    @overload
    def scrub(self, text: str) -> str: ...
    @overload
    def scrub(self, text: bytes) -> bytes: ...
    def scrub(self, text: str | bytes) -> str | bytes:
        """The text with `[secret NAME]` in place of every known secret."""
        if not self._forms:
            return text
        if isinstance(text, str):
            return CUT.join(map(self._uncut, self._whole(text).split(CUT, MOST_CUTS)))
        clean, edge = self._whole(text), max(len(_bytes(form)) for form in self._forms)
        if len(clean) <= 2 * edge:
            return self._uncut_bytes(clean)
        return self._uncut_bytes(clean[:edge]) + clean[edge:-edge] + self._uncut_bytes(clean[-edge:])

    def _uncut(self, text: str) -> str:
        """The text without what a cut at one of its ends has left of a secret."""
        for form, (head, tail) in self._halves.items():
            ends = text.find(tail, 0, len(form)) + len(tail)
            if ends >= len(tail) and form.endswith(text[:ends]):
                text = self._mark(form) + text[ends:]
            begins = text.rfind(head, max(0, len(text) - len(form)))
            if begins >= 0 and form.startswith(text[begins:]):
                text = text[:begins] + self._mark(form)
        return text

    def _uncut_bytes(self, data: bytes) -> bytes:
        return self._uncut(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    @overload
    def _whole(self, text: str) -> str: ...
    @overload
    def _whole(self, text: bytes) -> bytes: ...
    def _whole(self, text: str | bytes) -> str | bytes:
        if not (names := self.found_in(text)):
            return text
        forms = sorted((form for form, name in self._forms.items() if name in names), key=len, reverse=True)
        pattern = "|".join(map(self._pattern, forms))
        if isinstance(text, str):
            return re.sub(pattern, lambda found: self._mark(found[0]), text)
        return re.sub(_bytes(pattern), lambda found: self._mark(found[0].decode(errors=UNREADABLE)).encode(), text)

    def scrub_json(self, value: Any) -> Any:
        """The same for every text in a JSON value, keys included, and for every number: a secret may be written as one."""
        match value:
            case bool():
                return value
            case int() if value.bit_length() > LONGEST_NUMBER_BITS:
                return value
            case int() | float():
                said = repr(value)
                return self.scrub(said) if self.found_in(said) else value
            case str() | bytes():
                return self.scrub(value)
            case Mapping():
                return {self.scrub_json(key): self.scrub_json(each) for key, each in value.items()}
            case list() | tuple():
                return [self.scrub_json(each) for each in value]
            case _:
                return value

    def found_in(self, text: str | bytes) -> list[str]:
        """The names of the secrets that this text holds, each once, in however many writings it does."""
        # One plain search per form: many times faster than one pattern for all of them.
        if isinstance(text, str):
            found = [self._forms[core] for core, _ in self._cores if core in text]
            joined = _joined(text) if "\n" in text or "\\" in text else ""
            return _once(found + [self._forms[form] for form in self._in_base64 if form in joined])
        found = [self._forms[core] for core, data in self._cores if data in text]
        bare = _joined_bytes(text) if b"\n" in text or b"\\" in text else b""
        return _once(found + [self._forms[form] for form, data in self._in_base64.items() if data in bare])

    def _pattern(self, form: str) -> str:
        return _BREAK.join(map(re.escape, form)) if form in self._in_base64 else re.escape(form)

    def _mark(self, form: str) -> str:
        known = self._forms.get(form) or self._forms[_joined(form)]
        return f"[secret {known}]"


def _once(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names)) if len(names) > 1 else names


def _bytes(text: str) -> bytes:
    """A text as it stands in an environment, where any bytes may stand."""
    return text.encode("utf-8", UNREADABLE)


def _joined(text: str) -> str:
    """Base64 in one line, also where JSON wrote the ends of its lines, and other JSON holds that."""
    for end in ("\\n", "\\r", "\\", "\n", "\r"):
        text = text.replace(end, "")
    return text


def _joined_bytes(text: bytes) -> bytes:
    return text.replace(b"\\n", b"").replace(b"\\r", b"").translate(None, b"\\\n\r")


def _forms(value: str) -> Iterator[str]:
    """The value in every writing in which it is looked for."""
    yield value
    # What is no UTF-8 is shown as such where it comes back as text; nothing but such marks may be anybody's.
    shown = _bytes(value).decode("utf-8", "replace")
    if len(shown.replace("\N{REPLACEMENT CHARACTER}", "")) >= SHORTEST:
        yield shown
    unreadable = {"errors": UNREADABLE}
    for encoded in (quote(value, "", **unreadable), quote(value, **unreadable), quote_plus(value, **unreadable)):
        yield encoded
        yield _ESCAPE.sub(lambda found: found[0].lower(), encoded)
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield repr(value)[1:-1]
    yield from _in_base64(value)


def _in_base64(value: str) -> Iterator[str]:
    data = _bytes(value)
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(data).decode()
        for offset in range(3):
            yield _inner(encode(bytes(offset) + data).decode(), offset, len(data))


def _inner(encoded: str, offset: int, size: int) -> str:
    """The characters of a base64 text that depend on the secret alone, and not on what stands before or after it."""
    first = -(-offset * 8 // 6)
    last = (offset + size) * 8 // 6
    return encoded[first:last]
