"""The verifier with the fastest tools at hand; without them it is the same verifier, slower."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hansard.ledger.verify import Tools
from hansard.record.encoder import fast_parser, fastest


def tools() -> Tools:
    """orjson for parsing and encoding where installed; signatures are few and stay with the standard library."""
    loads = fast_parser()
    return Tools() if loads is None else Tools(loads=loads, dumps=fastest())


@contextmanager
def readable(location: str) -> Iterator[str]:
    """The location itself, or for a ledger in a database server a throw-away export of it, which is what gets verified."""
    if not location.startswith(("postgresql://", "postgres://")):
        yield location
        return
    from hansard.app.wiring import open_store
    from hansard.record.export import export

    with tempfile.TemporaryDirectory(prefix="hansard-verify-") as folder:
        store = open_store(location, reading=True)
        try:
            export(store, Path(folder) / "export")
        finally:
            store.close()
        yield str(Path(folder) / "export")
