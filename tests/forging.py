"""What someone who can write a ledger's file can do to it, with the keys he is said to hold and with nothing of ours but
the format. Every derived row is put right as well as he can, so that only what he cannot do gives him away."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hansard.ledger.canonical import encode
from hansard.ledger.entry import FIRST_PREV
from hansard.ledger.merkle import Frontier, leaf_hash, root_of
from hansard.seal.signing import SigningKey, sign_checkpoint

Members = dict[str, Any]


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def read(path: Path) -> list[Members]:
    with database(path) as found:
        return [json.loads(line) for (line,) in found.execute("SELECT line FROM entries ORDER BY seq")]


def chain(entries: Sequence[Members]) -> list[bytes]:
    """The lines of these entries, with seq and prev as their places ask for."""
    lines: list[bytes] = []
    prev = FIRST_PREV
    for seq, entry in enumerate(entries):
        lines.append(encode(entry | {"seq": seq, "prev": prev}))
        prev = leaf_hash(lines[-1]).hex()
    return lines


def write(path: Path, lines: Sequence[bytes]) -> None:
    """Put these lines in the place of the log's own, and make everything that is derived from lines agree with them."""
    frontier, nodes, causes = Frontier(), [], set()
    for seq, line in enumerate(lines):
        nodes += frontier.push(leaf_hash(line))
        causes |= {(seq, cause) for cause in json.loads(line)["causes"]}
    with database(path) as into:
        for table in ("entries", "causes", "nodes"):
            into.execute(f"DELETE FROM {table}")
        into.executemany("INSERT INTO entries(seq, line) VALUES (?, ?)", enumerate(line.decode() for line in lines))
        into.executemany("INSERT INTO causes VALUES (?, ?)", sorted(causes))
        into.executemany("INSERT INTO nodes VALUES (?, ?, ?)", nodes)
        head = (len(lines), leaf_hash(lines[-1]), json.loads(lines[-1])["ts"], frontier.to_bytes())
        into.execute("UPDATE head SET size = ?, leaf = ?, ts = ?, frontier = ?", head)
        into.execute("DELETE FROM bodies WHERE id >= ?", (len(lines) << 8,))


def drop_checkpoints(path: Path, above: int = 0) -> None:
    with database(path) as into:
        into.execute("DELETE FROM checkpoints WHERE size > ?", (above,))


def cut(path: Path, size: int) -> None:
    """Cut the tail off and leave the checkpoints where they are."""
    write(path, chain(read(path)[:size]))


def sign(path: Path, origin: str, size: int, *keys: SigningKey) -> None:
    """Keep a checkpoint of what now stands in the file."""
    root = root_of([leaf_hash(line) for line in chain(read(path)[:size])])
    with database(path) as into:
        into.execute(
            "INSERT INTO checkpoints(size, note) VALUES (?, ?)", (size, sign_checkpoint(origin, size, root, keys))
        )


def falsify(entries: Sequence[Members], first: int = 1) -> list[Members]:
    """Another history: from `first` on, every act is somebody else's."""
    return [
        entry | ({"actor": "human:forged"} if seq >= first and entry["kind"] != "key.rotated" else {})
        for seq, entry in enumerate(entries)
    ]


def swap_body(path: Path, kind: str, part: str, body: str) -> int:
    """Put another body in the place of the one that the newest entry of a kind commits to; gives that entry's seq."""
    with database(path) as into:
        seq, line = into.execute("SELECT seq, line FROM entries WHERE kind = ? ORDER BY seq DESC", (kind,)).fetchone()
        at = seq << 8 | sorted(json.loads(line)["body"]).index(part)
        into.execute("UPDATE bodies SET body = ?, shared = NULL WHERE id = ?", (body.encode(), at))
    return int(seq)


def sql(*statements: str) -> Callable[[Path], None]:
    """An attack with a database tool."""

    def attack(path: Path) -> None:
        with database(path) as into:
            into.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                assert into.execute(statement).rowcount, statement

    return attack
