"""Stored bodies against the commitments in the entries ([B2]-[B4]), and what became of those that are gone.

Both run in flat memory: bodies are merged with the walk in order, and tombstones, which come in any order, are
reconciled in a temporary database that nobody else sees.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256

from .body import PREFIX, SALT_BYTES, opens
from .canonical import Malformed
from .entry import parse
from .events import Absent, Tombstone
from .report import Bodies, Findings
from .scratch import Scratch
from .sources.base import Source, Stored

_REMEMBERED = 1_000


class BodyWalk:
    """Merges the stored bodies with the entries of one walk."""

    def __init__(self, stored: Iterator[Stored], findings: Findings, tell: Callable[[Absent], None]) -> None:
        self._stored = stored
        self._findings = findings
        self._tell = tell
        self._next = next(stored, None)
        self.opened = 0
        self._medias: dict[str, bytes] = {}

    def block(self, bodied: Iterable[tuple[int, Mapping[str, str]]]) -> None:
        """Open what is stored for these entries, (seq, body) each, and tell what is not there."""
        # As in the walk, what the loop needs lives in local names.
        found, stored, known, opened = self._next, self._stored, self._medias.get, 0
        for seq, body in bodied:
            if found is not None and found[0] == seq and len(body) == 1:
                # Nearly every entry: one part, and its body is there. Whatever else lies under this seq is passed over later.
                _, part, salt, media, content = found
                [name] = body
                first = known(media)
                if first is not None and (part == 0 or part == name) and len(salt) == SALT_BYTES:
                    inner = sha256(first + content).digest()
                    if sha256(PREFIX + salt + inner).hexdigest() == body[name]:
                        opened += 1
                        found = next(stored, None)
                        continue
            self._next = found
            self._pass_over(seq)
            self._merge(seq, body)
            found = self._next
        self._next = found
        self.opened += opened

    def _merge(self, seq: int, body: Mapping[str, str]) -> None:
        names = sorted(body) if len(body) > 1 else list(body)
        seen = set()
        while (found := self._next) is not None and found.seq == seq:
            name = _name(found.part, names)
            if name is None:
                self._unreferenced(found)
            elif self._opens(body[name], found.salt, found.media, found.body):
                seen.add(name)
                self.opened += 1
            else:
                seen.add(name)
                message = "[B4] the stored body does not give its commitment: it was swapped or changed"
                self._findings.add("body_changed", "structure", message, seq=seq, part=name)
            self._next = next(self._stored, None)
        if len(seen) < len(names):
            for name in names:
                if name not in seen:
                    self._tell(Absent(seq=seq, part=name, commitment=body[name]))

    def finish(self, size: int, leftovers_are_torn: bool) -> None:
        """Account for what lies behind the last entry; in JSON lines that is a torn write ([J4])."""
        if not leftovers_are_torn:
            self._pass_over(None)
            return
        self._pass_over(size)
        left = 0
        while self._next is not None:
            left += 1
            self._next = next(self._stored, None)
        if left:
            message = (
                f"[J4] {left} body lines past the last entry: leftovers of a torn write; the next writer drops them"
            )
            self._findings.add("leftover_bodies", "warning", message)

    def _opens(self, committed: str, salt: bytes, media: str, content: bytes) -> bool:
        """As body.opens, remembering the media types of what opened."""
        if not opens(committed, salt, media, content):
            return False
        if len(self._medias) < _REMEMBERED:
            self._medias[media] = media.encode() + b"\n"
        return True

    def _pass_over(self, seq: int | None) -> None:
        while self._next is not None and (seq is None or self._next.seq < seq):
            self._unreferenced(self._next)
            self._next = next(self._stored, None)

    def _unreferenced(self, stored: Stored) -> None:
        message = f"[B4] a body is stored (part {stored.part!r:.40}) that no entry commits to"
        self._findings.add("body_unreferenced", "structure", message, seq=stored.seq)


class Redactions(Scratch):
    """Reconciles parts that are gone with the tombstones that explain them ([B3])."""

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE absent(seq, part, commitment, PRIMARY KEY(seq, part)) WITHOUT ROWID",
            "CREATE TABLE tombstones(seq, part, at, commitment, PRIMARY KEY(seq, part, at)) WITHOUT ROWID",
        )

    def absent(self, event: Absent) -> None:
        self._db.execute("INSERT OR IGNORE INTO absent VALUES(?, ?, ?)", (event.seq, event.part, event.commitment))

    def tombstone(self, event: Tombstone) -> None:
        row = (event.seq, event.part, event.at, event.commitment)
        self._db.execute("INSERT OR IGNORE INTO tombstones VALUES(?, ?, ?, ?)", row)

    def settle(self, source: Source, findings: Findings, *, parts: int, opened: int, since: int, deep: bool) -> Bodies:
        """Judge every tombstone and every absence, and count the states."""
        self._drop_false_tombstones(source, findings)
        if not deep:
            return Bodies(parts=parts, unread=parts)
        told = "EXISTS (SELECT 1 FROM tombstones t WHERE t.seq = a.seq AND t.part = a.part)"
        missing = 0
        for seq, part in self._db.execute(f"SELECT seq, part FROM absent a WHERE NOT {told} ORDER BY seq, part"):
            message = "[B3] the body is gone and no entry says that it was redacted"
            findings.add("body_missing", "missing", message, seq=seq, part=part)
            missing += 1
        redacted = self._count(f"SELECT count(*) FROM absent a WHERE {told}")
        targets = self._count(
            f"SELECT count(*) FROM (SELECT DISTINCT seq, part FROM tombstones WHERE seq >= {since:d})"
        )
        pending = targets - redacted
        return Bodies(
            parts=parts,
            opened=max(0, opened - pending),
            redacted=redacted,
            pending=pending + self._still_there(source, since),
            missing=missing,
            unread=0,
        )

    def _still_there(self, source: Source, since: int) -> int:
        """How many bodies before --since are still there although an entry behind it says that they were to be erased."""
        reader = self._db.cursor()
        query = "SELECT DISTINCT seq FROM tombstones WHERE seq < ? ORDER BY seq"
        named = "SELECT count(*) FROM (SELECT 1 FROM tombstones WHERE seq = ? AND part = ? LIMIT 1)"
        found = source.stored(row[0] for row in reader.execute(query, (since,))) if since else ()
        return sum(self._db.execute(named, place).fetchone()[0] for place in found)

    def _drop_false_tombstones(self, source: Source, findings: Findings) -> None:
        """A tombstone explains a part only when an earlier entry has that part with that commitment."""
        reader = self._db.cursor()
        seqs = (row[0] for row in reader.execute("SELECT DISTINCT seq FROM tombstones ORDER BY seq"))
        false: list[tuple[int, str, int]] = []
        for seq, line in source.pick(seqs):
            parts = _parts_of(line)
            rows = self._db.execute("SELECT part, at, commitment FROM tombstones WHERE seq = ?", (seq,)).fetchall()
            for part, at, committed in rows:
                if at <= seq or parts.get(part) != committed:
                    message = (
                        f"[B3] the tombstone names part {part!r} of entry {seq} with a commitment that is not there"
                    )
                    findings.add("tombstone", "structure", message, seq=at)
                    false.append((seq, part, at))
        self._db.executemany("DELETE FROM tombstones WHERE seq = ? AND part = ? AND at = ?", false)

    def _count(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])


def _name(part: str | int, names: list[str]) -> str | None:
    if isinstance(part, str):
        return part if part in names else None
    return names[part] if part < len(names) else None


def _parts_of(line: bytes | None) -> Mapping[str, str]:
    try:
        return parse(line).body if line is not None else {}
    except Malformed:
        return {}
