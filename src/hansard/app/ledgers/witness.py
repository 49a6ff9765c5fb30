"""Being a witness, for every surface: whom it knows, and what it cosigns. The key stays in `seal`."""

import os
import time
from pathlib import Path

from hansard.app.settings import read_text
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.note import VerifierKey
from hansard.ledger.seals import Pin
from hansard.ledger.witness import Refused
from hansard.seal.witness import Watched, Witness

__all__ = ["Refused", "Service", "key_text", "witness_folder"]


def witness_folder(state: Path) -> Path:
    """Where a witness lives unless it is told otherwise."""
    return state / "witness"


class Service:
    """A witness that surfaces speak with."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self._witness = Witness.open(folder, name)

    @property
    def key(self) -> str:
        """What others check its cosignatures with."""
        return self._witness.key.text()

    def trust(self, said: str) -> View:
        """Know a log by its pin or its identity key, or by a file that holds one of them."""
        return _view(self._witness.trust(_log_key(said)))

    def logs(self) -> list[View]:
        return [_view(each) for each in self._witness.logs()]

    def cosign(self, data: bytes) -> str:
        """The answer to an add-checkpoint body; Refused says why there is none."""
        return self._witness.cosign(data, lambda: int(time.time()))

    def newest(self, id: str) -> str | None:
        """The newest note that was cosigned for the log of this id."""
        known = self._witness.log(id)
        return known.newest if known else None


def _view(known: Watched) -> View:
    seen = known.checkpoint
    return {"origin": known.origin, "id": known.id, "key": known.key.text(), "size": seen.size if seen else None}


def key_text(said: str) -> str:
    """What was said, or what the file of this name holds; keys and pins have a `+`, and so may the name of a file."""
    if os.path.lexists(said):
        return read_text(Path(said)).strip()
    if "+" not in said:
        raise UsageError(f"{said[:80]!r} is neither a key or a pin, which have a `+`, nor a file that holds one")
    return said


def _log_key(said: str) -> VerifierKey:
    text = key_text(said)
    try:
        return VerifierKey.parse(Pin.parse(text).identity if "@" in text.rpartition("+")[2] else text)
    except Malformed as error:
        raise UsageError(
            f"{said[:80]!r} is neither a pin nor a verifier key: {error}; see: hansard ledger pin"
        ) from error
