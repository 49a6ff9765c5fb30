"""The full JSON Canonicalization Scheme (RFC 8785), and the digest of a transcript that is made over it (§7.7).

Unlike the ledger's own form it has fractions: numbers are written as ECMAScript writes them, and names are ordered by their
UTF-16 code units. Values that not every program reads as the same are refused.
"""

import hashlib
from collections.abc import Iterable
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

from hansard.deliberation.documents.breach import Invalid
from hansard.ledger.canonical import MAX_INT, Malformed
from hansard.record.encoder import fastest

RULE = "R-7.7-1"
HALF = "holds half of a surrogate pair, which is no character"
TOO_DEEP = "is nested too deeply"
NO_NAME = "holds a name that is no text"
LONG = 64
DEEPEST = 100
MOST_KNOWN, LONGEST_KNOWN = 256, 512
Members = tuple[tuple[str, str], ...]
"""The names of an object in their order, each with what is written before its value."""


def jcs(value: Any) -> bytes:
    """The canonical bytes of a JSON value. Invalid where it has none."""
    try:
        return _text(value).encode()
    except UnicodeEncodeError:
        raise Invalid(HALF, rule=RULE) from None
    except RecursionError:
        raise Invalid(TOO_DEEP, rule=RULE) from None


def unrepresentable(value: Any) -> str | None:
    """Why this value has no canonical bytes, or None when it has. Looks without writing them."""
    try:
        _check(value, 0)
    except Invalid as error:
        return error.message
    except UnicodeEncodeError:
        return HALF
    return None


def _check(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise Invalid(TOO_DEEP, rule=RULE)
    kind = type(value)
    if kind is str:
        value.isascii() or value.encode()
    elif kind is dict:
        for name, each in value.items():
            if not isinstance(name, str):
                raise Invalid(NO_NAME, rule=RULE)
            name.isascii() or name.encode()
            _check(each, depth + 1)
    elif kind is list or kind is tuple:
        for each in value:
            _check(each, depth + 1)
    elif kind is int:
        _whole(value)
    elif kind is float:
        number(value)
    elif value is not None and kind is not bool:
        raise Invalid(f"holds a Python {kind.__name__}, which is no JSON", rule=RULE)


def transcript_bytes(messages: Iterable[bytes]) -> bytes:
    """The canonical bytes of a transcript, from those of its messages."""
    return b"[" + b",".join(messages) + b"]"


def transcript_digest(messages: Iterable[Any]) -> str:
    """The digest of a transcript: over messages as they are stored, never over a copy that was read and written again."""
    return digest_of(jcs(message) for message in messages)


def digest_of(messages: Iterable[bytes]) -> str:
    """The digest of a transcript, from the canonical bytes of its messages."""
    found, separator = hashlib.sha256(b"["), b""
    for message in messages:
        found.update(separator)
        found.update(message)
        separator = b","
    found.update(b"]")
    return found.hexdigest()


def content_hash(value: Any) -> str:
    """SHA-256 over the canonical bytes of a value."""
    return hashlib.sha256(jcs(value)).hexdigest()


def _text(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return encode_basestring(value) if len(value) < LONG else _long(value)
    if kind is dict:
        names = tuple(value)
        parts = []
        for name, before in _KNOWN.get(names) or _members(names):
            each = value[name]
            # By far the most members are short texts and numbers, for which a call costs more than the writing.
            if type(each) is str and len(each) < LONG:
                parts.append(before + encode_basestring(each))
            elif type(each) is int and -MAX_INT <= each <= MAX_INT:
                parts.append(f"{before}{each}")
            else:
                parts.append(before + _text(each))
        return f"{{{','.join(parts)}}}"
    if kind is list or kind is tuple:
        return f"[{','.join([_text(each) for each in value])}]"
    if kind is int:
        return _whole(value)
    if kind is float:
        return number(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    raise Invalid(f"holds a Python {kind.__name__}, which is no JSON", rule=RULE)


_encode = fastest()


def _long(text: str) -> str:
    """The same as for short ones, by the fastest encoder at hand: what agents say is most of a message."""
    try:
        return _encode(text).decode()
    except (TypeError, Malformed):
        return encode_basestring(text)


_KNOWN: dict[tuple[str, ...], Members] = {}


def _members(names: tuple[Any, ...]) -> Members:
    """Remembered where they are short: the protocol's documents have few sets of names."""
    try:
        joined = "".join(names)
    except TypeError:
        raise Invalid(NO_NAME, rule=RULE) from None
    plain = joined.isascii()
    ordered = sorted(names) if plain else sorted(names, key=lambda name: name.encode("utf-16-be"))
    members = tuple((name, f"{encode_basestring(name)}:") for name in ordered)
    if plain and len(joined) <= LONGEST_KNOWN:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[names] = members
    return members


def _whole(value: int) -> str:
    if -MAX_INT <= value <= MAX_INT:
        return str(value)
    raise Invalid("holds an integer beyond 2^53-1, which not every program reads as the same number", rule=RULE)


def number(value: float) -> str:
    """A number as ECMAScript writes it (Number::toString)."""
    if not isfinite(value):
        raise Invalid("holds a number that is not finite", rule=RULE)
    if value == 0:
        return "0"
    if value < 0:
        return f"-{number(-value)}"
    # Python's repr has the same shortest digits, and arranges them otherwise only where it takes an exponent.
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    whole, _, fraction = mantissa.partition(".")
    return _arranged(whole + fraction, len(whole) + int(exponent))


def _arranged(digits: str, point: int) -> str:
    """The digits with the decimal point after `point` of them, or with an exponent where that is far away."""
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"
