"""The writer's end of the three files: what is written together is kept together, and synced as the durability asks.

Knows bytes and the order in which they must reach the disk: a body before its entry, an entry before its checkpoint.
"""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, NoReturn

from hansard.durable import sync
from hansard.errors import OutcomeUnknown, StoreError, Unavailable
from hansard.store.base import verify_of
from hansard.store.jsonl.files import NotSynced, Paths, Tail, spare

Durability = Literal["each", "batched"]
SYNC_ENTRIES = 1_000
SYNC_S = 1.0
LOOK_S = 0.05


class Writer:
    """Holds the files open until `close`. `trouble` says why nothing more may be written, once that is so."""

    def __init__(self, paths: Paths, durability: Durability, mutex: threading.RLock) -> None:
        self._paths = paths
        self._each = durability == "each"
        self._mutex = mutex
        self._unsynced = 0
        self._look_s = 0.0
        self._timer: threading.Timer | None = None
        self._closed = False
        self.trouble: str | None = None
        for each in (paths.bodies, paths.claims):
            # What a crash left of a rewriting may hold what was erased since.
            spare(each).unlink(missing_ok=True)
        self._tails = []
        try:
            for path in (paths.bodies, paths.entries, paths.checkpoints):
                self._tails.append(Tail(path))
            if not (self.bodies.kept and self.checkpoints.kept):
                # Before anything is written there: to sync a file that is new does not make its name durable.
                sync(paths.bodies.parent)
        except OSError:
            self.close()
            raise

    @property
    def bodies(self) -> Tail:
        return self._tails[0]

    @property
    def entries(self) -> Tail:
        return self._tails[1]

    @property
    def checkpoints(self) -> Tail:
        return self._tails[2]

    def _displaced(self) -> Path | None:
        """Which of the files does not lie where it did: what rotates logs may take the bodies alone. Looked at now and then:
        what was written meanwhile into a file that was moved is in that file, and a file that is gone is noticed each time.
        """
        now = time.monotonic()
        if now < self._look_s:
            return None
        self._look_s = now + LOOK_S
        return next((tail.path for tail in self._tails if not tail.is_at_its_path()), None)

    def _taken_away(self, why: str) -> StoreError:
        self.trouble = why
        return StoreError(f"nothing was written: {why}; {verify_of(str(self._paths.entries))}")

    def write(self, count: int, bodies: bytes, lines: bytes, note: bytes) -> None:
        """Write so many entries, their bodies and what seals them: one write to each file that grows, kept all or none."""
        pieces = (bodies, lines, note)
        for tail, data in zip(self._tails, pieces, strict=True):
            if data and (moved := tail.moved()):
                raise self._taken_away(moved)
        if displaced := self._displaced():
            raise self._taken_away(f"{displaced} was deleted, moved or replaced while it was open")
        durable = self._each or bool(note) or self._unsynced + count >= SYNC_ENTRIES
        try:
            for tail, data in zip(self._tails, pieces, strict=True):
                if data:
                    tail.append(data)
                if durable:
                    tail.sync()
        except BaseException as error:  # noqa: BLE001 - _take_back always raises
            self._take_back(error)
        for tail in self._tails:
            tail.keep()
        self._unsynced = 0 if durable else self._unsynced + count
        if self._unsynced and self._timer is None:
            self._timer = threading.Timer(SYNC_S, self._sync_late)
            self._timer.daemon = True
            self._timer.start()

    def cut(self, *, bodies: int, entries: int, checkpoints: int) -> None:
        """Give up what lies behind these places, and make the rest durable."""
        for tail, end in zip(self._tails, (bodies, entries, checkpoints), strict=True):
            tail.cut(end)
            tail.sync()

    def sync(self) -> None:
        """Return when everything written is durable."""
        try:
            for tail in self._tails:
                tail.sync()
        except NotSynced as error:
            self._not_synced(error)
            raise StoreError(f"{self._paths.entries}: {self.trouble}") from error
        self._unsynced = 0

    def reopen_bodies(self) -> None:
        """Go on with the file that was put in the place of the bodies."""
        old = self.bodies
        try:
            self._tails[0] = Tail(self._paths.bodies)
        except OSError as error:
            self.trouble = f"{self._paths.bodies} was rewritten and cannot be opened: {error.strerror}"
            raise StoreError(f"{self.trouble}; open the ledger again") from error
        old.close()

    def close(self) -> None:
        self._closed = True
        if self._timer:
            self._timer.cancel()
        for tail in self._tails:
            tail.close()

    def _take_back(self, error: BaseException) -> NoReturn:
        place = self._paths.entries
        try:
            for tail in reversed(self._tails):
                tail.take_back()
        except OSError as second:
            self.trouble = f"a write failed ({error}) and could not be taken back ({second})"
            raise OutcomeUnknown(
                f"{place}: {self.trouble}; its entries may or may not be there: open the ledger again and read the head"
            ) from error
        if isinstance(error, NotSynced):
            self._not_synced(error)
        if isinstance(error, OSError):
            raise Unavailable(f"nothing was written to {place}: {error.strerror}") from error
        raise error

    def _not_synced(self, error: NotSynced) -> None:
        # The kernel forgets what it could not write and lets the next sync succeed: nothing may be built on that.
        self.trouble = (
            f"the disk did not keep what was written ({error.strerror}); open the ledger again to see what is there"
        )

    def _sync_late(self) -> None:
        with self._mutex, suppress(StoreError):
            self._timer = None
            if not self._closed:
                self.sync()
