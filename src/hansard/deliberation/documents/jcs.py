"""The full JSON Canonicalization Scheme (RFC 8785), and the digest of a transcript that is made over it (§7.7).

Unlike the ledger's own form it has fractions: numbers are written as ECMAScript writes them, and names are ordered by their
UTF-16 code units. Values that not every program reads as the same are refused.
"""

import hashlib
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

from hansard.deliberation.documents.breach import Invalid
from hansard.ledger.canonical import MAX_INT
from hansard.record.encoder import fast_with_pieces

RULE = "R-7.7-1"
HALF = "holds half of a surrogate pair, which is no character"
TOO_DEEP = "is nested too deeply"
NO_NAME = "holds a name that is no text"
DEEPEST = 100
_QUICK = fast_with_pieces()
_PLAIN = frozenset((str, int, bool, type(None)))


def jcs(value: Any) -> bytes:
    """The canonical bytes of a JSON value. Invalid where it has none."""
    try:
        return (_quickly(value) if _QUICK else None) or _text(value).encode()
    except UnicodeEncodeError:
        raise Invalid(HALF, rule=RULE) from None
    except RecursionError:
        raise Invalid(TOO_DEEP, rule=RULE) from None


def unrepresentable(value: Any) -> str | None:
    """Why this value has no canonical bytes from which it can be read again, or None when it has. Looks without writing them."""
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
        # Below 10^21 it would be written, and then be read, as a whole number.
        _whole(int(value)) if MAX_INT < abs(value) < 1e21 else number(value)
    elif value is not None and kind is not bool:
        raise Invalid(f"holds a Python {kind.__name__}, which is no JSON", rule=RULE)


def transcript_bytes(messages: Iterable[bytes]) -> bytes:
    """The canonical bytes of a transcript, from those of its messages."""
    return b"[%b]" % b",".join(messages)


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
    """The definition."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is dict:
        if not all(isinstance(name, str) for name in value):
            raise Invalid(NO_NAME, rule=RULE)
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return f"{{{','.join([f'{encode_basestring(name)}:{_text(value[name])}' for name in names])}}}"
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


def _quickly(value: Any) -> bytes | None:
    """The same in a tenth of the time; None where it might be something else, which the definition then decides."""
    assert _QUICK is not None
    encode, piece = _QUICK
    try:
        return encode(_pieced(value, piece))
    except (TypeError, RecursionError):
        return None


def _pieced(value: Any, piece: Callable[[str], object]) -> Any:
    """The value with its fractions as pieces, since only they are written otherwise; TypeError where names may be ordered otherwise."""
    kind = type(value)
    if kind is dict:
        if not "".join(value).isascii():
            raise TypeError
        made = value
        for name, each in value.items():
            if type(each) not in _PLAIN and (other := _pieced(each, piece)) is not each:
                made = {**value} if made is value else made
                made[name] = other
        return made
    if kind is list or kind is tuple:
        return [each if type(each) in _PLAIN else _pieced(each, piece) for each in value] if value else value
    if kind is float:
        return piece(number(value))
    if kind in _PLAIN:
        return value
    raise TypeError


def _whole(value: int) -> str:
    if -MAX_INT <= value <= MAX_INT:
        return str(value)
    raise Invalid("holds an integer beyond 2^53-1, which not every program reads as the same number", rule=RULE)


def number(value: float) -> str:
    """A number as ECMAScript writes it (Number::toString)."""
    if value == 0:
        return "0"
    if not isfinite(value):
        raise Invalid("holds a number that is not finite", rule=RULE)
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
