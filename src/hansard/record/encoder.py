"""The fastest canonical encoder at hand. orjson, when installed, is used only where it gives the bytes of the definition."""

from collections.abc import Callable

from hansard.errors import Broken
from hansard.ledger.canonical import Json, Malformed, dump

CHECKED_OUTPUTS = 32


def fastest() -> Callable[[Json], bytes]:
    """orjson with its first outputs checked against the definition, or the definition itself."""
    try:
        import orjson
    except ImportError:
        return dump
    options = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
    fast, left = orjson.dumps, CHECKED_OUTPUTS

    def encode(value: Json) -> bytes:
        nonlocal left
        try:
            data = fast(value, None, options)
        except TypeError as error:
            raise Malformed(f"[E3] {error}") from error
        if left:
            left -= 1
            if data != dump(value):
                raise Broken(f"orjson {orjson.__version__} does not encode canonically; uninstall it and report this")
        return data

    return encode


def fast_parser() -> Callable[[str], Json] | None:
    """orjson's parser for the verifier, which re-checks whatever it gives; None without orjson."""
    try:
        import orjson
    except ImportError:
        return None
    return orjson.loads
