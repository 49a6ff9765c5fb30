"""How far each receiver of webhooks has heard, in a file of the daemon's: what it missed is told when the daemon is back."""

import fcntl
import hashlib
import json
import os
import threading
from contextlib import suppress
from pathlib import Path

from hansard.errors import StoreError
from hansard.seal import private
from hansard.store.base import Store


class Marks:
    """The last entry that each receiver was told of, on one ledger. A file that cannot be read or written is as good as none.

    All daemons of a user share it, whatever their ledgers and receivers are.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._path = folder / "webhook-marks.json"
        self._ledger = next(store.lines(0, 1), b"")
        self._lock = threading.Lock()
        self._seqs = self._kept()

    def of(self, url: str) -> int | None:
        """The seq, or None for a receiver that is new here."""
        return self._seqs.get(self._name(url))

    def move(self, url: str, seq: int) -> None:
        """Everything up to this entry was told, or given up."""
        with self._lock:
            self._seqs[self._name(url)] = seq
            beside = self._path.with_suffix(".new")
            with suppress(OSError, StoreError), private.lock_file(self._path.with_name("lock")) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                beside.write_text(json.dumps(self._kept() | {self._name(url): seq}), "ascii")
                os.replace(beside, self._path)

    def _kept(self) -> dict[str, int]:
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(self._path.read_bytes())
            if isinstance(found, dict):
                return {name: seq for name, seq in found.items() if type(seq) is int}
        return {}

    def _name(self, url: str) -> str:
        """The receiver on this ledger. A URL may hold what lets somebody in, so it is not kept."""
        return hashlib.sha256(self._ledger + b"\n" + url.encode()).hexdigest()[:32]
