"""A small signed ledger in a real SQLite file, for tests of what is handed out and carried away."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from hansard.domain.custody import BodyRedacted, KeyRotated
from hansard.domain.fact import Body, Fact
from hansard.domain.work import RunRequested
from hansard.record.draft import Drafter
from hansard.record.recorder import Recorded, Step, record_now
from hansard.seal.genesis import found
from hansard.seal.keys import KeyRing
from hansard.seal.signing import sign_checkpoint
from hansard.store.base import Store, StoredCheckpoint
from hansard.store.sqlite import SqliteStore

ORIGIN = "log.example/tests"


@dataclass(slots=True, kw_only=True)
class SignedLog:
    """A store, the keys of its log, and the epoch in force."""

    store: Store
    ring: KeyRing | None
    epoch: int = 0

    @classmethod
    def create(cls, folder: Path, *, signed: bool = True) -> "SignedLog":
        folder.mkdir(parents=True, exist_ok=True)
        genesis, ring = found(lambda nonce: folder / "keys" / nonce, ORIGIN, "hansard test", signed=signed)
        draft = Drafter().draft(genesis, actor="log", run="", causes=(), fence=None)
        return cls(store=SqliteStore.create(folder / "log.db", draft), ring=ring)

    def copy(self, folder: Path) -> "SignedLog":
        """The same log with the same keys in another folder, opened there; this one is closed."""
        self.store.close()
        shutil.copytree(self.path.parent, folder)
        ring = self.ring and KeyRing.open(folder / self.ring.folder.relative_to(self.path.parent), ORIGIN)
        return SignedLog(store=SqliteStore.open(folder / "log.db"), ring=ring, epoch=self.epoch)

    @property
    def path(self) -> Path:
        return Path(self.store.place)

    @property
    def identity(self) -> str:
        assert self.ring
        return self.ring.identity.verifier.text()

    def ask(self, text: str | bytes, plan: bytes | None = None) -> int:
        """Record one request; its seq."""
        request = Body.text(text) if isinstance(text, str) else Body.raw(text)
        fact = RunRequested(mode="request", surface="cli", request=request, plan=Body.json(plan) if plan else None)
        return self._record(fact, run="r1").seq

    def ask_many(self, count: int) -> None:
        """Record many small requests in one commit."""
        facts = [
            RunRequested(mode="request", surface="cli", request=Body.text(f"question {each}")) for each in range(count)
        ]
        record_now(self.store, [Step(fact, "human:k7") for fact in facts], run="r1")

    def checkpoint(self) -> StoredCheckpoint:
        """Sign the log as it stands and keep the checkpoint."""
        assert self.ring
        epoch_key = self.ring.epoch(self.epoch)
        assert epoch_key
        head = self.store.head()
        note = sign_checkpoint(ORIGIN, head.size, head.root, [self.ring.identity, epoch_key])
        kept = StoredCheckpoint(size=head.size, note=note)
        claim = self.store.claim("seal", 60)
        self.store.add_checkpoint(kept, claim.epoch)
        self.store.release(claim)
        return kept

    def rotate(self) -> int:
        """Bring in the next epoch key, sealed by the retiring one ([C5]); the seq of key.rotated."""
        assert self.ring
        key = self.ring.make_epoch(self.epoch + 1)
        fact = KeyRotated(epoch=self.epoch + 1, key=key.verifier.text(), reason="asked")
        seq = self._record(fact).seq
        self.checkpoint()
        self.ring.destroy_epoch(self.epoch)
        self.epoch += 1
        return seq

    def rotate_unsealed(self) -> int:
        """Bring in the next epoch key after the retiring one was lost ([C7])."""
        assert self.ring
        key = self.ring.make_epoch(self.epoch + 1)
        seq = self._record(KeyRotated(epoch=self.epoch + 1, key=key.verifier.text(), reason="lost")).seq
        self.epoch += 1
        return seq

    def bury(self, seq: int, part: str) -> int:
        """Record the tombstone of a part and leave its body: a redaction that is pending."""
        commitment = self.store.entry(seq).body[part]
        fact = BodyRedacted(seq=seq, part=part, commitment=commitment, reason="secret")
        return self._record(fact, causes=(seq,)).seq

    def redact(self, seq: int, part: str) -> int:
        """Record the tombstone of a part and erase its body ([B3])."""
        tombstone = self.bury(seq, part)
        self.store.erase((seq, part))
        return tombstone

    def _record(self, fact: Fact, *, run: str = "", causes: tuple[int, ...] = ()) -> Recorded[Fact]:
        [recorded] = record_now(self.store, [Step(fact, "human:k7", causes)], run=run)
        return recorded


def some_of_everything(folder: Path) -> SignedLog:
    """A log with bodies that are no text, shared or redacted, with a rotation, and with entries behind its last checkpoint."""
    made = SignedLog.create(folder)
    made.ask("plain", plan=b'{"tasks": []}')
    made.ask(b"\xff\x00\x80")
    for _ in range(2):
        made.ask("shared " * 4000)
    # The second part stays: its row must keep its place when the first one's is gone.
    made.redact(made.ask("kept", plan=b"secret"), "plan")
    made.ask_many(300)
    made.rotate()
    made.ask_many(5)
    made.checkpoint()
    made.ask("tail")
    return made
