"""The service: one open ledger with its recorder. Every surface, and Python itself, comes in through here."""

from typing import Self

from hansard.app.ledger import LedgerService
from hansard.app.settings import Settings, read_settings
from hansard.app.wiring import Opened, open_or_found
from hansard.record.recorder import Recorder
from hansard.store.base import Claim, Store

LEASE_S = 15.0


class Hansard:
    """An open ledger that can be recorded into. Use it as an async context manager."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.recorder = Recorder(opened.store, sealing=opened.sealer)
        self.ledger = LedgerService(opened)

    @classmethod
    def open(cls, ledger: str | None = None, *, settings: Settings | None = None) -> Self:
        """Open the ledger at a path or URL, or make it when nothing is there."""
        return cls(open_or_found(settings or read_settings(ledger)))

    @property
    def store(self) -> Store:
        return self._opened.store

    def claim(self, run: str) -> Claim:
        """Take the right to drive a run; whoever drove it before is fenced off."""
        return self.store.claim(run, LEASE_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.recorder.close()
        self._opened.close()
