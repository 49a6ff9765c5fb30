"""Who vouches for the log: its keys, their rotations, its checkpoints, and how far it is sealed ([C3]-[C10]).

Takes the events of a walk in order. It knows neither lines nor files, and trusts no key that the log did not introduce.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from .canonical import Malformed
from .entry import HASH
from .events import Genesis, Noted, Rotated, epoch_name
from .note import Check, VerifierKey, open_note
from .report import Findings, Signed

_KEPT = 1_000
LOOK_BACK = 16
"""How many checkpoints of an epoch are tried, newest first, to find one that seals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a verifier keeps outside the log ([C8])."""

    identity: str
    genesis: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `<identity verifier key>@<hex leaf hash of entry 0>`."""
        identity, at, genesis = text.strip().rpartition("@")
        if not at or not HASH.fullmatch(genesis):
            raise Malformed("a pin is <identity verifier key>@<64 hex digits>")
        VerifierKey.parse(identity)
        return cls(identity=identity, genesis=genesis)


class Seals:
    """Follows the keys of one log through its epochs."""

    def __init__(self, findings: Findings, *, pin: Pin | None, all_signatures: bool, check: Check) -> None:
        self._findings = findings
        self._pin = pin
        self._all = all_signatures
        self._check = check
        self.genesis: Genesis | None = None
        self._known: dict[str, VerifierKey] = {}
        self._since: dict[str, int] = {}
        """By name: the size that ends with the entry that introduced a key. At a smaller one it is not known ([C3])."""
        self._epoch = 0
        self._rotation: Rotated | None = None
        self._rotation_sealed = False
        self._whole = True
        self._candidates: deque[Noted] = deque(maxlen=LOOK_BACK)
        self._newest: Noted | None = None
        self._newest_checked = False
        self._sealed_to = 0
        self._checked = 0
        self._unsealed: list[int] = []
        self._agreed = 0
        self._differing: list[int] = []
        self._half_signed: list[int] = []

    def begin(self, genesis: Genesis) -> None:
        """Take the first keys from entry 0, and hold it against the pin."""
        self.genesis = genesis
        if genesis.identity and genesis.epoch_key:
            self._known = {key.name: key for key in (genesis.identity, genesis.epoch_key)}
            self._since = dict.fromkeys(self._known, 0)
        if self._pin is None:
            return
        if genesis.identity is None or genesis.identity.text() != self._pin.identity:
            self._findings.add("pin_identity", "anchor", "[C8] the identity key is not the pinned one", seq=0)
        elif genesis.leaf != self._pin.genesis:
            message = "[C8] entry 0 is not the pinned one: this log was begun anew under the same key"
            self._findings.add("pin_genesis", "anchor", message, seq=0)

    @property
    def in_force_from(self) -> int:
        """The size past which the epoch key in force is in force."""
        return max(self._since[key.name] for key in self._in_force()) if self._known else 0

    def adopt(self, event: Rotated) -> None:
        """Take over an epoch key from a prefix that is not read: whether its rotation was sealed is not judged."""
        self.rotated(event)
        self._rotation_sealed = self._rotation is not None
        self._end_rotation()

    def rotated(self, event: Rotated) -> None:
        """Take over the next epoch key, if it is the next one."""
        self._end_rotation()
        if self.genesis is None:
            return
        expected = self._epoch + 1
        if not self._known or event.epoch != expected or event.key.name != epoch_name(self.genesis.origin, expected):
            message = f"[C5] it does not introduce epoch key {expected} of this log"
            self._findings.add("rotation", "structure", message, seq=event.seq)
            return
        self._rotation = event
        self._known[event.key.name], self._since[event.key.name] = event.key, event.seq + 1

    def noted(self, event: Noted) -> None:
        """Take a kept checkpoint whose root has been compared."""
        if self._rotation and event.size > self._rotation.seq + 1:
            self._end_rotation()
        self._compare(event)
        if self.genesis is None or not self._belongs(event, self.genesis):
            return
        self._newest, self._newest_checked = event, False
        ends_epoch = self._rotation is not None and event.size == self._rotation.seq + 1
        if self._claims_to_be_signed(event) and event.agrees:
            if ends_epoch:
                self._rotation_sealed |= self._seals(event)
            elif self._all:
                self._seals(event)
            else:
                self._candidates.append(event)
        elif self._all:
            self._signers(event)

    def finish(self, size: int, checkpoints: int) -> Signed:
        """Settle what was left open at the end of the log."""
        self._end_rotation()
        self._seal_by_candidates()
        newest = self._newest
        if newest and not self._newest_checked:
            self._signers(newest)
        self._tell_differing()
        self._tell_half_signed()
        genesis = self.genesis
        identity = genesis.identity.text() if genesis and genesis.identity else None
        return Signed(
            sealed_to=min(self._sealed_to, size),
            newest=newest.size if newest else None,
            checkpoints=checkpoints,
            checked=self._checked,
            identity=identity,
            keys=self._whose_keys(identity),
            epochs=self._epoch + 1 if identity else 0,
            unsealed_rotations=tuple(self._unsealed),
        )

    def bad_signature(self, noted: Noted) -> str | None:
        """Why a note from elsewhere is doubtful: a key of this log signed it, and the signature does not hold."""
        try:
            open_note(noted.note, self._keys_for(noted), self._check)
        except Malformed as error:
            return str(error)
        return None

    def _whose_keys(self, identity: str | None) -> Literal["pinned", "self-asserted", "none"]:
        if identity is None or self.genesis is None:
            return "none"
        pinned = self._pin is not None and (self._pin.identity, self._pin.genesis) == (identity, self.genesis.leaf)
        return "pinned" if pinned else "self-asserted"

    def _compare(self, event: Noted) -> None:
        if event.agrees:
            if not self._differing:
                self._agreed = event.size
        elif len(self._differing) < _KEPT:
            self._differing.append(event.size)

    def _belongs(self, event: Noted, genesis: Genesis) -> bool:
        if not self._known:
            message = f"[C10] the log is unsigned, and a checkpoint of size {event.size} is kept"
            self._findings.add("checkpoint_of_unsigned", "structure", message)
        elif genesis.origin != event.checkpoint.origin:
            message = f"[C1] the checkpoint of size {event.size} is of another log: {event.checkpoint.origin!r:.80}"
            self._findings.add("checkpoint_origin", "structure", message)
        else:
            return True
        return False

    def _claims_to_be_signed(self, event: Noted) -> bool:
        """Whether signature lines of the identity key and of the epoch key in force stand there, checked or not."""
        names = {(each.name, each.key_id) for each in event.note.signatures}
        claimed = [(key.name, key.key_id) in names for key in self._in_force()]
        if not any(claimed):
            message = f"[C6] no key in force signed the checkpoint of size {event.size}"
            self._findings.add("checkpoint_unsigned", "signature", message)
        elif not all(claimed) and len(self._half_signed) < _KEPT:
            self._half_signed.append(event.size)
        return all(claimed)

    def _seals(self, event: Noted) -> bool:
        sealed = set(self._in_force()) <= set(self._signers(event))
        if sealed and self._whole:
            self._sealed_to = max(self._sealed_to, event.size)
        return sealed

    def _signers(self, event: Noted) -> Sequence[VerifierKey]:
        self._newest_checked |= event is self._newest
        keys = self._keys_for(event)
        self._checked += len(keys)
        try:
            return open_note(event.note, keys, self._check).verified
        except Malformed as error:
            message = f"[C3] the checkpoint of size {event.size} is rejected: {error}"
            self._findings.add("checkpoint_signature", "signature", message)
            return ()

    def _keys_for(self, noted: Noted) -> list[VerifierKey]:
        # Retired keys are known too: a bad signature by one of them rejects a note like any other.
        signed = {(each.name, each.key_id) for each in noted.note.signatures}
        named = {name: self._known[name] for name, _ in signed if self._since.get(name, noted.size + 1) <= noted.size}
        return [key for key in named.values() if (key.name, key.key_id) in signed]

    def _in_force(self) -> tuple[VerifierKey, VerifierKey]:
        assert self.genesis is not None
        origin = self.genesis.origin
        return self._known[origin], self._known[epoch_name(origin, self._epoch)]

    def _end_rotation(self) -> None:
        """The log has passed a rotation: one that was not sealed at its own size stays unsealed for good ([C7])."""
        if self._rotation is None:
            return
        if not self._rotation_sealed:
            self._seal_by_candidates()
            self._whole = False
            if len(self._unsealed) < _KEPT:
                self._unsealed.append(self._rotation.seq)
        self._epoch += 1
        self._rotation, self._rotation_sealed = None, False
        self._candidates.clear()

    def _seal_by_candidates(self) -> None:
        while self._candidates:
            if self._seals(self._candidates.pop()):
                break

    def _tell_differing(self) -> None:
        if not self._differing:
            return
        first, others = self._differing[0], len(self._differing) - 1
        message = f"[C9] the root at size {first} is not that of its checkpoint: an entry from {self._agreed} to {first - 1} was changed"
        message += f"; {others} later checkpoints differ too" if others else ""
        self._findings.add("root", "structure", message, seq=max(0, first - 1))

    def _tell_half_signed(self) -> None:
        if self._half_signed:
            sizes = ", ".join(map(str, self._half_signed[:5]))
            message = f"[C6] {len(self._half_signed)} checkpoints lack one of the two keys in force and seal nothing (sizes {sizes})"
            self._findings.add("half_signed", "warning", message)
