"""What a log of three epochs of life hands out, as files: for programs that other people wrote."""

from pathlib import Path

from hansard.record.export import export
from hansard.record.receipts import make_consistency, make_receipt
from signed_log import SignedLog


class Handed:
    """Two checkpoints of one log, a receipt, proofs for a witness, and an export."""

    def __init__(self, folder: Path) -> None:
        log = SignedLog.create(folder / "log")
        log.ask_many(10)
        self.old = log.checkpoint()
        self.line = log.store.entry(5).line
        log.ask_many(600)
        log.rotate()
        log.ask_many(3)
        self.new = log.checkpoint()
        self.receipt = make_receipt(log.store, 5)
        self.first = make_consistency(log.store, 0, self.old)
        self.second = make_consistency(log.store, self.old.size, self.new)
        self.key = log.identity
        self.tiles = folder / "out"
        export(log.store, self.tiles)
        log.store.close()
        (folder / "key").write_text(f"{self.key}\n")
        (folder / "old").write_text(self.old.note)


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
