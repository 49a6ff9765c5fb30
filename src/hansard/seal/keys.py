"""The private keys of one log, in a folder of the user's state: identity.key, epoch-<n>.key. Knows no log and no store.

Which epoch is in force is written in the log, never here; whoever holds the log's `seal` claim says which files are dead.
"""

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from hansard.errors import StoreError
from hansard.ledger.events import epoch_name
from hansard.seal import private
from hansard.seal.signing import SigningKey

LOCK_WAIT_S = 5.0
_LOCK_POLL_S = 0.02
_EPOCH_FILE = re.compile(r"epoch-(0|[1-9][0-9]{0,8})\.key")


class KeyRing:
    """A folder of private keys. Nothing is loaded until it is asked for, and nothing is kept here."""

    def __init__(self, folder: Path, origin: str) -> None:
        self.folder = folder
        self.origin = origin

    @classmethod
    def create(cls, folder: Path, origin: str) -> Self:
        """Make a log's identity key and its epoch key 0; StoreError when keys are there already."""
        ring = cls(folder, origin)
        private.make_folder(folder)
        private.create(ring._identity_file, SigningKey.generate(origin).pem())
        ring.make_epoch(0)
        return ring

    @classmethod
    def open(cls, folder: Path, origin: str) -> Self:
        """The keys that are there; StoreError when there are none or others can read them."""
        if not folder.is_dir():
            raise StoreError(f"no keys of {origin} at {folder}; bring the folder back")
        private.check_folder(folder)
        return cls(folder, origin)

    @property
    def identity(self) -> SigningKey:
        """The identity key, read from its file."""
        key = self._load(self._identity_file, self.origin)
        if key is None:
            raise StoreError(
                f"the identity key of {self.origin} is not at {self._identity_file}; bring the file back. If it is gone for "
                f"good, nobody can sign this log any more: go on in a new one that names it, with `hansard ledger adopt`"
            )
        return key

    def epoch(self, number: int) -> SigningKey | None:
        """An epoch key, read from its file; None when it is not there."""
        return self._load(self._epoch_file(number), epoch_name(self.origin, number))

    def epochs(self) -> list[int]:
        """The numbers of the epoch key files that are there."""
        try:
            names = os.listdir(self.folder)
        except OSError as error:
            raise StoreError(f"cannot read {self.folder}: {error.strerror}") from error
        return sorted(int(found[1]) for name in names if (found := _EPOCH_FILE.fullmatch(name)))

    def make_epoch(self, number: int) -> SigningKey:
        """Make an epoch key; it is durable before anyone can name it, and an existing one is never overwritten."""
        key = SigningKey.generate(epoch_name(self.origin, number))
        private.create(self._epoch_file(number), key.pem())
        return key

    def destroy_epoch(self, number: int) -> None:
        """Overwrite and remove an epoch key, if it is there."""
        private.destroy(self._epoch_file(number))

    def destroy(self) -> None:
        """Overwrite and remove every key, and the folder: for a log that was never made."""
        for number in self.epochs():
            self.destroy_epoch(number)
        private.destroy(self._identity_file)
        with suppress(OSError):
            self.folder.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time makes or destroys keys: one that froze over it must not do so over its successor's."""
        with private.lock_file(self.folder / "lock") as fd:
            self._wait_for(fd)
            yield

    def _wait_for(self, fd: int) -> None:
        until = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise StoreError(
                        f"another process changes the keys in {self.folder} and does not end; end it, and try again"
                    ) from error
                time.sleep(_LOCK_POLL_S)

    def _load(self, path: Path, name: str) -> SigningKey | None:
        pem = private.read(path)
        return None if pem is None else SigningKey.from_pem(name, pem)

    @property
    def _identity_file(self) -> Path:
        return self.folder / "identity.key"

    def _epoch_file(self, number: int) -> Path:
        return self.folder / f"epoch-{number}.key"
