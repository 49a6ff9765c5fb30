"""The verifier with the fastest tools at hand; without them it is the same verifier, slower."""

from hansard.ledger.verify import Tools
from hansard.record.encoder import fast_parser, fastest


def tools() -> Tools:
    """orjson for parsing and encoding where installed; signatures are few and stay with the standard library."""
    loads = fast_parser()
    return Tools() if loads is None else Tools(loads=loads, dumps=fastest())
