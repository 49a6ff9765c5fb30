"""What every section works with: both sides, the shim, a folder on a disk, and ledgers that are built once."""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.process import OURS, Driver
from bench.table import Table

VERIFIED = 100_000
OPENED = 200_000


@dataclass(slots=True, kw_only=True)
class Setting:
    """One run of the bench."""

    table: Table
    folder: Path
    times: int
    quick: bool
    full: bool
    peer: Driver | None
    shim: Path | None
    _numbers: "count[int]" = field(default_factory=count)
    _ours: dict[int, Path] = field(default_factory=dict)
    _peers: dict[int, Path] = field(default_factory=dict)

    def fresh(self) -> Path:
        """A folder that nobody has used."""
        made = self.folder / f"{next(self._numbers)}"
        made.mkdir()
        return made

    def our_ledger(self, size: int) -> Path:
        """A signed SQLite ledger of this size, as the recorder would have left it. Not to be written to."""
        if size not in self._ours:
            self._build_ours(size)
        return self._ours[size]

    def peers_ledger(self, size: int) -> Path:
        """The peer's JSONL folder with as many entries. Not to be written to."""
        if size not in self._peers:
            self._build_peers(size)
        return self._peers[size]

    def _build_ours(self, size: int) -> None:
        self.table.note(f"building our ledger of {size:,} entries")
        places = [(each, self.folder / f"ours-{each}" / "ledger.db") for each in _steps(size, self._ours)]
        OURS.ask("build", ledgers=places)
        self._ours.update(places)

    def _build_peers(self, size: int) -> None:
        assert self.peer is not None
        self.table.note(f"building the peer's ledger of {size:,} entries")
        places = [(each, self.folder / f"peer-{each}") for each in _steps(size, self._peers)]
        self.peer.ask("build", ledgers=places)
        self._peers.update(places)


def _steps(size: int, made: dict[int, Path]) -> list[int]:
    """The larger ledger grows out of the smaller one, when that is not there yet either."""
    return [VERIFIED, size] if size == OPENED and VERIFIED not in made else [size]
