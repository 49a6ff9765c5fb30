"""The one process that signs a log: it holds the `seal` claim, loads the private keys, and keeps the anchor.

Everybody may append; the sealer covers what it finds. A signature is durable together with or after the entries that it
covers, and the anchor after both. Belongs to one writer thread.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from hansard.errors import Fenced, HansardError, StoreError
from hansard.ledger.entry import checked_sketch
from hansard.ledger.events import ROTATED
from hansard.ledger.note import VerifierKey
from hansard.record.epochs import Epoch, LogKeys, read_keys
from hansard.record.recovery import (
    check_anchor,
    newest_checkpoint,
    no_epoch_key,
    own_identity,
    refuse_older_copy,
    refuse_rollback,
    seal_rotation,
    settle_keys,
)
from hansard.seal import anchors
from hansard.seal.cadence import CHECKPOINT_S, DAY_S, ROTATION_ENTRIES, due, passed, rotation_due, utc_day
from hansard.seal.keys import KeyRing
from hansard.seal.signing import SigningKey, sign_checkpoint
from hansard.store.base import Claim, Draft, Seal, Store, StoredCheckpoint

LEASE_S = 15.0
RENEW_S = 5.0
ANCHOR_S = 1.0
CLAIM = "seal"
NO_LULL = (0.0, 0.0, 0)
"""Since when, until when and below which size nothing is due, where that is not known."""

Reason = Literal["day", "size", "asked", "lost"]


class Sealer:
    """Signs one log for as long as nobody takes the claim over; then checkpoint, rotate and tick raise Fenced."""

    def __init__(
        self, store: Store, ring: KeyRing, folder: Path, claim: Claim, identity: SigningKey, clock: Callable[[], float]
    ) -> None:
        """For take(): a sealer made here has not looked at its log yet."""
        self._store = store
        self._ring = ring
        self._folder = folder
        self._claim = claim
        self._seal = Seal(claim.epoch, self._sign_if_due, self._due)
        self._clock = clock
        self._identity: SigningKey | None = identity
        self._epoch_key: SigningKey | None = None
        self._keys: LogKeys
        self._since_day: int
        self._knows_log = False
        self._size = 0
        self._last: StoredCheckpoint | None = None
        self._last_s: float | None = None
        self._pending: StoredCheckpoint | None = None
        self._anchored: str | None = None
        self._anchored_s: float | None = None
        self._renewed_s = clock()
        self._lull = NO_LULL
        self.trouble: StoreError | None = None
        """Why the last upkeep after a commit failed; the entries themselves are durable."""

    @classmethod
    def take(
        cls,
        store: Store,
        ring: KeyRing,
        anchors_folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        lost_key_rotates: bool = False,
    ) -> Self:
        """Become the log's sealer. Fenced when another process is; StoreError when the log was rolled back or keys are wrong.

        When the epoch key in force is gone, only `lost_key_rotates` goes on, with a rotation that stays unsealed for good
        ([C7]).
        """
        refuse_rollback(store, anchors_folder)
        keys = read_keys(store)
        claim = store.claim(CLAIM, LEASE_S)
        try:
            sealer = cls(store, ring, anchors_folder, claim, own_identity(store, ring, keys), clock)
            sealer._read_log(lost=lost_key_rotates)
            if sealer._epoch_key is None:
                sealer._rotate("lost")
        except BaseException:
            with suppress(StoreError):
                store.release(claim)
            raise
        return sealer

    @property
    def holds(self) -> bool:
        """Whether this is still the log's sealer, as far as it knows."""
        return self._identity is not None

    @property
    def newest(self) -> StoredCheckpoint | None:
        """The newest checkpoint that is durable in the log."""
        return self._last

    @property
    def epoch(self) -> int:
        """The number of the epoch key in force."""
        return self._keys.epoch.number

    def seal(self) -> Seal | None:
        """What to hand to store.append; None when this process may not sign now. After the commit call committed()."""
        self._pending = None
        if not self.holds or not self._knows_log:
            return None
        return self._seal

    def committed(self) -> None:
        """The append that was given seal() is durable."""
        since_s, until_s, size = self._lull
        if self._pending:
            self._adopt(self._pending)
        elif since_s <= self._clock() < until_s and self._size < size:
            return
        self._keep_up()

    def upkeep(self) -> None:
        """tick() in idle times, with whatever is unsigned signed: what others have left too, who cannot ask for it here."""
        self._last_s = None
        self._keep_up()

    def _keep_up(self) -> None:
        """tick(). When it fails, that is kept in `trouble`: the entries stand."""
        if not self.holds:
            return
        try:
            self.tick()
            self.trouble = None
        except StoreError as error:
            self.trouble = error

    def tick(self) -> None:
        """Upkeep, cheap when nothing is due: the lease, the cadence, rotation, the anchor. Also for idle times."""
        self._lull = NO_LULL
        self._ensure_log_is_known()
        now = self._clock()
        if passed(now, self._renewed_s, RENEW_S):
            self._renew()
        if passed(now, self._last_s, CHECKPOINT_S):
            self.checkpoint()
        self._since_day = min(self._since_day, utc_day(now))
        reason = rotation_due(self._size, now, (self._keys.epoch.size, self._since_day))
        if reason:
            self._rotate(reason)
            return
        if passed(now, self._anchored_s, ANCHOR_S):
            self._keep_anchor()
        self._lull = self._lull_from(now)

    def checkpoint(self) -> StoredCheckpoint:
        """Sign the whole log now, unless it is signed already: the newest checkpoint, durable and anchored."""
        self._ensure_log_is_known()
        head = self._store.head()
        self._size, self._last_s = head.size, self._clock()
        # At the size of a rotation the retiring key was in force; the new one has nothing to say about it ([C5]).
        if self._last is None or head.size > self._last.size:
            self._store.sync()
            made = StoredCheckpoint(size=head.size, note=self._sign(head.size, head.root))
            with self._while_ours():
                self._store.add_checkpoint(made, self._claim.epoch)
            self._adopt(made)
        self._keep_anchor()
        assert self._last is not None
        return self._last

    def rotate(self, reason: Literal["day", "size", "asked"] = "asked") -> StoredCheckpoint:
        """Retire the epoch key ([C5]); gives the checkpoint that seals it."""
        self._ensure_log_is_known()
        return self._rotate(reason)

    def close(self) -> None:
        """Sign what is unsigned, give the claim back, and forget the keys."""
        try:
            if self.holds:
                self.checkpoint()
        except Fenced:
            return
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Give the claim back and forget the keys; what is unsigned stays so."""
        if self.holds:
            self._drop()
            self._store.release(self._claim)

    def _read_log(self, *, lost: bool = False) -> None:
        """Learn from the log which key is in force, finish what a crash interrupted, and destroy the dead keys."""
        assert self._identity is not None
        with self._ring.locked(), self._while_ours():
            self._renew()
            keys = read_keys(self._store)
            newest_checkpoint(self._store)
            seal_rotation(self._store, self._ring, keys, self._identity, self._claim.epoch)
            key = settle_keys(self._store, self._ring, keys.epoch, lost=lost)
        if key is None and not lost:
            raise no_epoch_key(self._store, self._ring, keys)
        self._in_force(keys, key)
        self._last = newest_checkpoint(self._store)
        self._size = self._store.head().size
        self._knows_log = True

    def _rotate(self, reason: Reason) -> StoredCheckpoint:
        """The new key is durable before the log names it; the old one is destroyed when the log has done so."""
        self._lull, number = NO_LULL, self.epoch + 1
        signers = [key for key in (self._identity, self._epoch_key) if key]
        made: list[StoredCheckpoint] = []

        def sign(size: int, root: bytes) -> str:
            note = sign_checkpoint(self._keys.origin, size, root, signers)
            made.append(StoredCheckpoint(size=size, note=note))
            return note

        with self._ring.locked(), self._while_ours():
            self._renew()
            # A copy of this log may have gone on with the same keys; those are its own by now, and not ours to destroy.
            refuse_rollback(self._store, self._folder)
            refuse_older_copy(self._store, self._ring, self._keys.epoch, lost=reason == "lost")
            # Left over from an attempt that failed: the log does not name it, and under lock and claim nobody else will.
            self._ring.destroy_epoch(number)
            key = self._ring.make_epoch(number)
            # From here to the answer nobody knows which key is in force; should it fail, the log is read again.
            self._knows_log = False
            draft = self._rotation(number, key.verifier, reason)
            [outcome] = self._store.append([[draft]], Seal(self._claim.epoch, sign))
            if isinstance(outcome, HansardError):
                self._ring.destroy_epoch(number)
                raise outcome
            self._store.sync()
            self._ring.destroy_epoch(number - 1)
        [sealed] = made
        epoch = Epoch(number=number, key=key.verifier, size=sealed.size, ts=outcome[0].ts, reason=reason)
        self._in_force(replace(self._keys, epoch=epoch, retired=self._keys.epoch), key)
        self._adopt(sealed)
        self._knows_log = True
        self._keep_anchor()
        return sealed

    def _in_force(self, keys: LogKeys, key: SigningKey | None) -> None:
        """From now on this epoch key signs. A log that a clock ahead has written tells a day that is yet to come."""
        self._keys, self._epoch_key = keys, key
        self._since_day = min(utc_day(keys.epoch.ts / 1_000_000), utc_day(self._clock()))

    def _rotation(self, number: int, key: VerifierKey, reason: Reason) -> Draft:
        data = {"epoch": number, "key": key.text(), "reason": reason}
        sketch = checked_sketch(kind=ROTATED, actor="sealer", run="", data=data, body={})
        return Draft("", sketch, (), (), (CLAIM, self._claim.epoch))

    def _lull_from(self, now: float) -> tuple[float, float, int]:
        """From a moment in which all was seen to: until the first of it is due again, a commit need not look at each."""
        if self._last_s is None or self._since_day < utc_day(now):
            return NO_LULL
        dues = [self._renewed_s + RENEW_S, self._last_s + CHECKPOINT_S, (self._since_day + 1) * DAY_S]
        if self._last is not None and self._last.note != self._anchored:
            dues.append((self._anchored_s or now) + ANCHOR_S)
        return now, min(dues), self._keys.epoch.size + ROTATION_ENTRIES

    def _due(self, size: int) -> bool:
        self._size = size
        return due(size, self._clock(), self._last.size if self._last else 0, self._last_s)

    def _sign_if_due(self, size: int, root: bytes) -> str | None:
        if not self._due(size):
            return None
        self._pending = StoredCheckpoint(size=size, note=self._sign(size, root))
        return self._pending.note

    def _sign(self, size: int, root: bytes) -> str:
        assert self._identity is not None
        assert self._epoch_key is not None
        return sign_checkpoint(self._keys.origin, size, root, (self._identity, self._epoch_key))

    def _adopt(self, durable: StoredCheckpoint) -> None:
        self._last, self._last_s, self._pending = durable, self._clock(), None
        self._size = max(self._size, durable.size)

    def _keep_anchor(self) -> None:
        """Move the anchor up to the newest durable checkpoint. One that this process did not put there must agree."""
        if self._last is None or self._last.note == self._anchored:
            return
        self._store.sync()
        found = anchors.read(self._folder)
        if found and found.note != self._anchored:
            check_anchor(found, self._store)
        if found is None or found.checkpoint.size < self._last.size:
            anchors.keep(self._folder, self._last.note)
        self._anchored, self._anchored_s = self._last.note, self._clock()

    def _ensure_log_is_known(self) -> None:
        if not self.holds:
            raise Fenced(f"this process no longer seals {self._store.place}; another one has taken over")
        if not self._knows_log:
            self._read_log()

    def _renew(self) -> None:
        # It may have been adopted since: then whoever stays is told within these seconds, and not when he starts anew.
        anchors.refuse_ended(self._folder, self._store.place)
        with self._while_ours():
            self._store.renew(self._claim, LEASE_S)
        self._renewed_s = self._clock()

    @contextmanager
    def _while_ours(self) -> Iterator[None]:
        try:
            yield
        except Fenced:
            self._drop()
            raise

    def _drop(self) -> None:
        self._identity = self._epoch_key = self._pending = None
