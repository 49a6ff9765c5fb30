"""The anchors that a log has recorded of itself, each held against the root that it names ([V7]).

Where witnesses are asked there is about one a minute, so they are kept in flat memory.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from .events import Anchored
from .report import Bracket, Findings
from .scratch import Scratch

MOST_SHOWN = 1_000
_AT_ONCE = 50_000

Roots = Callable[[list[int]], dict[int, bytes]]
"""The log's roots at these rising sizes; those that cannot be had are left out."""


class Brackets(Scratch):
    """Takes what the walk tells, and is asked when it is over."""

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE anchored(seq INTEGER PRIMARY KEY, by, size, root, time_us, agrees DEFAULT 0)",
            "CREATE INDEX by_size ON anchored(size)",
        )

    def add(self, event: Anchored) -> None:
        row = (event.seq, event.by, event.size, event.root, event.time_us)
        self._db.execute("INSERT OR IGNORE INTO anchored(seq, by, size, root, time_us) VALUES(?, ?, ?, ?, ?)", row)

    def judge(self, roots: Roots, findings: Findings) -> None:
        """Find out which of them saw the log that they stand in; the others are told."""
        reader = self._db.cursor()
        sizes = (row[0] for row in reader.execute("SELECT DISTINCT size FROM anchored WHERE size <= seq ORDER BY size"))
        while some := list(islice(sizes, _AT_ONCE)):
            rows = ((size, root.hex()) for size, root in roots(some).items())
            self._db.executemany("UPDATE anchored SET agrees = 1 WHERE size = ? AND root = ? AND size <= seq", rows)
        for seq, size in self._db.execute("SELECT seq, size FROM anchored WHERE NOT agrees ORDER BY seq"):
            message = f"[V7] the recorded anchor saw another log at size {size}"
            findings.add("anchored_root", "structure", message, seq=seq)

    def first(self) -> tuple[Bracket, ...]:
        """The first of those that agree."""
        query = f"SELECT seq, by, size, time_us FROM anchored WHERE agrees ORDER BY seq LIMIT {MOST_SHOWN}"
        found = self._db.execute(query)
        return tuple(Bracket(seq=seq, by=by, size=size, time_us=time_us) for seq, by, size, time_us in found)

    def by_witnesses(self) -> Iterator[int]:
        """The seqs of all that agree and are of witnesses, rising."""
        reader = self._db.cursor()
        for (seq,) in reader.execute("SELECT seq FROM anchored WHERE agrees AND by = 'witness' ORDER BY seq"):
            yield seq

    def seen(self, seq: int) -> tuple[int, str]:
        """Which size and root the anchor of this entry saw."""
        size, root = self._db.execute("SELECT size, root FROM anchored WHERE seq = ?", (seq,)).fetchone()
        return size, root
