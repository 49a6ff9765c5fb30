"""The fastest canonical encoder at hand. orjson, when installed, is used only where it gives the bytes of the definition."""

from collections.abc import Callable

from hansard.errors import Broken
from hansard.ledger.canonical import Json, dump

SAMPLES: tuple[Json, ...] = (
    {},
    {"b": 1, "a": [True, False, None, {"z": -1, "y": 2**53 - 1}]},
    {"controls": "".join(map(chr, range(32))) + "\x7f\x80", "quotes": '"\\/'},
    {"wide": "\u0085\u2028\u2029\ufeff\uffff\U0001f600é", "": ""},
    {chr(code): code for code in range(33, 127)},
)


LONG = 512


def kept(found: bytes) -> bytes:
    """For whoever keeps what an encoder gave: orjson's bytes hold on to a buffer of up to sixteen times their length."""
    return found if len(found) < LONG else b"%b" % found


def fastest() -> Callable[[Json], bytes]:
    """orjson, once it has given the bytes of the definition for every sample; otherwise the definition itself.

    What it refuses, it refuses with a TypeError.
    """
    try:
        import orjson
    except ImportError:
        return dump
    dumps, options = orjson.dumps, orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER

    def encode(value: Json) -> bytes:
        # By position: a partial with a keyword takes half as long again.
        return dumps(value, None, options)

    for sample in SAMPLES:
        if encode(sample) != dump(sample):
            raise Broken(f"orjson {orjson.__version__} does not encode canonically; uninstall it and report this")
    return encode


def fast_with_pieces() -> tuple[Callable[[object], bytes], Callable[[str], object]] | None:
    """The same encoder, and what makes a piece of JSON that it takes inside of a value as it is; None without orjson."""
    encode = fastest()
    if encode is dump:
        return None
    from orjson import Fragment

    return encode, Fragment


def fast_parser() -> Callable[[str], Json] | None:
    """orjson's parser for the verifier, which re-checks whatever it gives; None without orjson."""
    try:
        import orjson
    except ImportError:
        return None
    return orjson.loads


def fast_dumper() -> Callable[[object], bytes] | None:
    """orjson for what is shown and not recorded: it refuses odd numbers and texts with a TypeError. None without orjson."""
    try:
        import orjson
    except ImportError:
        return None
    return orjson.dumps
