"""Restricted RFC 8785 JSON: the one byte form of an entry.

Knows nothing of entries. The model is smaller than JSON so that every honest encoder agrees on the bytes: no floats,
integers within +-(2^53-1), ASCII keys, no lone surrogates, no duplicate keys (rules [E2], [E3] of docs/ledger-format.md).
"""

import json
import json.encoder
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

MAX_INT = 2**53 - 1
MAX_DEPTH = 32

Json = Any
"""A value of the restricted model: dict, list, str, int, bool or None."""


class Malformed(ValueError):
    """Bytes or values that do not follow the format; the text says which rule, where it can."""


def encode(value: Json) -> bytes:
    """The canonical bytes of a value, after checking that it lies inside the model."""
    check(value)
    return dump(value)


def dump(value: Json) -> bytes:
    """The canonical bytes of a value that is already known to lie inside the model, lone surrogates excepted."""
    try:
        return write(value).encode()
    except UnicodeEncodeError as error:
        raise Malformed("[E3] a string holds a lone surrogate, which UTF-8 cannot carry") from error
    except RecursionError as error:
        raise Malformed(f"[E3] nested deeper than {MAX_DEPTH} levels") from error


def check(value: Json, depth: int = 0) -> None:
    """Raise Malformed unless the value lies inside the model, lone surrogates excepted (encoding finds those)."""
    if depth > MAX_DEPTH:
        raise Malformed(f"[E3] nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return
    if kind is int:
        if not -MAX_INT <= value <= MAX_INT:
            raise Malformed(f"[E3] integer beyond 2^53-1 ({value.bit_length()} bits)")
    elif kind is dict:
        for key, member in value.items():
            if type(key) is not str or not key.isascii():
                raise Malformed(f"[E3] key {key!r:.80} is not ASCII text")
            # Most members are texts, and a call for each would take longer than all else here.
            if type(member) is not str or depth == MAX_DEPTH:
                check(member, depth + 1)
    elif kind is list or kind is tuple:
        for member in value:
            check(member, depth + 1)
    else:
        raise Malformed(f"[E3] {kind.__name__} is outside the model (use integers, booleans, text, lists, objects)")


def decode(data: bytes) -> Json:
    """Parse bytes that must already be canonical; Malformed names the first rule that they break."""
    value = parse(data)
    if dump(value) != data:
        raise Malformed("[E2] not in canonical form (order of keys, spacing, escapes or a repeated key)")
    return value


def parse(data: bytes) -> Json:
    """Parse JSON text of the restricted model without asking for canonical form."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"[E1] not UTF-8 at byte {error.start}") from error
    try:
        value, end = _DECODER.raw_decode(text)
    except Malformed:
        raise
    except RecursionError as error:
        raise Malformed(f"[E3] nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise Malformed(f"[E1] not JSON: {_brief(error)}") from error
    if end != len(text):
        raise Malformed(f"[E1] text after the JSON value, at character {end}")
    check(value)
    return value


def _brief(error: ValueError) -> str:
    return re.sub(r"\s+", " ", str(error))[:120]


def _no_float(text: str) -> NoReturn:
    raise Malformed(f"[E3] {text[:32]} is not an integer")


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise Malformed(f"[E3] the key {twice!r:.80} stands twice")
    return members


def _make_decoder(pairs: Callable[[list[tuple[str, Json]]], Json] | None) -> json.JSONDecoder:
    return json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float, object_pairs_hook=pairs, strict=True)


def _refuse_value(value: object) -> NoReturn:
    raise Malformed(f"[E3] {type(value).__name__} is outside the model")


def make_writer() -> Callable[[Json], str]:
    """One C encoder that is kept: JSONEncoder.encode makes a new one for each call. The plain way where there is none."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
    pieces = make(None, _refuse_value, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(pieces(value, 0))


write = make_writer()
"""The text of dump(), without its care for errors."""
_DECODER = _make_decoder(_pairs)
