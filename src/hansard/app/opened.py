"""An open ledger, and whether this process may seal it: with the keys of a signed log, and the lease. Names no back end."""

import shlex
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hansard.app.settings import Settings
from hansard.errors import Fenced, StoreError
from hansard.ledger.entry import NONCE
from hansard.store.base import Store

if TYPE_CHECKING:
    from hansard.record.recorder import Sealing
    from hansard.record.sealer import Sealer


class Opened:
    """An open ledger. Its sealer is taken at the first word that is to be written, so that looking changes nothing."""

    def __init__(
        self, store: Store, settings: Settings, *, writing: bool, lost_key: bool = False, is_new: bool = False
    ) -> None:
        self.store = store
        self.settings = settings
        self.is_new = is_new
        """Whether this process has just made it."""
        self._writing = writing
        self._lost_key = lost_key
        self._looked = False
        self._others = False
        self._sealer: Sealer | None = None
        self._folder: Path | None = None
        """Where the keys of a signed log belong."""
        self.custody = self._custody()

    @property
    def sealer(self) -> "Sealer | None":
        """The sealer when this process may hold the keys and the lease, else None; `custody` says why.

        StoreError when the log was rolled back or forked since it was last signed here: then nothing may be written.
        """
        if not self._looked and not self.store.broken:
            self._sealer = self._take()
            # Only now: whoever asks again after a refusal is refused again.
            self._looked = True
        return self._sealer

    @property
    def is_left_to_others(self) -> bool:
        """Whether this log has its keys here, and another process signs it at present."""
        can_be_signed = self._folder is not None and not self._keyless
        return can_be_signed and self.sealer is None and (self._others or not self._writing)

    def extending(self) -> "Sealer | None":
        """The same for whoever is about to extend the log; StoreError too where nobody could seal what is written ([C11])."""
        sealer = self.sealer
        if sealer is None and self._writing and self._keyless and not self.store.broken:
            self._refuse_unless_sealed()
        return sealer

    def sealing(self) -> "Sealing | None":
        """The same for a process that stays: it seals as soon as another one that does so is gone, or, without the keys, writes
        no more then."""
        sealer = self.extending()
        if not self._writing or self._folder is None or self.store.broken:
            return sealer
        from hansard.record.deputy import Deputy, Onlooker

        return Onlooker(self._look_for_sealer) if self._keyless else Deputy(sealer, self._again)

    def _again(self) -> "Sealer | None":
        self._sealer = self._take()
        return self._sealer

    def check_lines(self) -> None:
        """For a repair, before it writes: StoreError unless the lines are those that were signed, and it can be sealed."""
        if self._folder is None:
            self._refuse_adopted()
            return
        if self._keyless:
            raise self._unsealable()
        from hansard.record.recovery import refuse_other_lines

        refuse_other_lines(self.store, self._folder)

    def check(self) -> None:
        """StoreError where `sealer` would say that nothing may be written, found without taking or changing anything."""
        if self._folder is None:
            self._refuse_adopted()
            return
        from hansard.record.recovery import check_keys, refuse_rollback
        from hansard.seal.keys import KeyRing

        if self._keyless:
            if self._folder.is_dir():
                refuse_rollback(self.store, self._folder)
            raise StoreError(f"{self.store.place} is signed, and {self._keyless}")
        check_keys(self.store, KeyRing.open(self._folder, self._origin), self._folder)

    def sign_no_more(self) -> None:
        """Give up sealing, so that closing does not fail where signing has."""
        with suppress(StoreError):
            if self._sealer:
                self._sealer.let_go()

    def close(self) -> None:
        """Sign what is unsigned, where this process may, and close."""
        try:
            if self._sealer:
                self._sealer.close()
        finally:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _custody(self) -> str:
        genesis = self.store.entry(0).data
        # A stranger's log may name anything: only a nonce ([E6]) becomes the name of a folder, and no other has keys here.
        nonce = str(genesis.get("nonce", ""))
        folder = self._state = self.settings.log_folder(nonce if NONCE.fullmatch(nonce) else "none")
        if genesis.get("custody") != "file":
            return "none: this log is unsigned"
        self._folder, self._origin = folder, str(genesis.get("origin", ""))
        return f"files in {folder}" if folder.is_dir() else f"its keys are not on this machine (looked in {folder})"

    @cached_property
    def _keyless(self) -> str | None:
        """Why this process cannot sign a log that is signed, and what to do; None where it can, and for an unsigned one."""
        if self._folder is None:
            return None
        if not self._folder.is_dir():
            return (
                f"{self.custody}; name the state folder that has them with HANSARD_STATE, or write where they are. If they "
                f"are gone for good, go on in a new log that names this one: "
                f"hansard ledger adopt {shlex.quote(self.store.place)} --ledger NEW.db"
            )
        from hansard.seal.signing import available

        return None if available() else "`cryptography` is not installed: pip install cryptography"

    def _refuse_unless_sealed(self) -> None:
        """A process without the keys may write while one that has them seals the log."""
        if not self._is_sealed_elsewhere():
            raise self._unsealable()

    def _look_for_sealer(self) -> None:
        if not self._is_sealed_elsewhere():
            raise StoreError(f"nobody seals {self.store.place} at present, and this process cannot: {self._keyless}")

    def _is_sealed_elsewhere(self) -> bool:
        from hansard.record.sealer import CLAIM

        try:
            # For no time at all: whoever can seal and comes now must not be kept from it.
            self.store.release(self.store.claim(CLAIM, 0.0))
        except Fenced as error:
            self.custody = f"another process seals: {error}"
            return True
        return False

    def _unsealable(self) -> StoreError:
        return StoreError(f"nothing was written to {self.store.place}: it is signed, and {self._keyless}")

    def _refuse_adopted(self) -> None:
        """Superseded where an unsigned log was adopted: of one that is signed, its sealer asks that."""
        if self._state.is_dir():
            from hansard.seal.anchors import refuse_ended

            refuse_ended(self._state, self.store.place)

    def _take(self) -> "Sealer | None":
        if not self._writing:
            return None
        if self._folder is None:
            self._refuse_adopted()
            return None
        if self._keyless:
            from hansard.record.recovery import refuse_rollback

            if self._folder.is_dir():
                refuse_rollback(self.store, self._folder)
            self.custody = self._keyless
            return None
        from hansard.record.sealer import Sealer
        from hansard.seal.keys import KeyRing

        try:
            ring = KeyRing.open(self._folder, self._origin)
            sealer = Sealer.take(self.store, ring, self._folder, lost_key_rotates=self._lost_key)
            self.custody, self._others = f"files in {self._folder}", False
            return sealer
        except Fenced as error:
            self.custody, self._others = f"another process seals: {error}", True
            return None
