"""Ledgers made by hand from the format document, for the tests of the verifier and for whoever tampers with them.

It shares nothing with the stores: a mistake there must not look right here.
"""

import copy
import json
import shutil
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hansard.ledger import layout
from hansard.ledger.body import TEXT, commitment
from hansard.ledger.canonical import dump
from hansard.ledger.checkpoint import format_checkpoint
from hansard.ledger.entry import FIRST_PREV, checked_sketch
from hansard.ledger.merkle import Frontier, inclusion_proof, leaf_hash, root_of
from hansard.ledger.note import Signature, VerifierKey, format_note
from hansard.ledger.receipt import Proof, format_proof
from hansard.ledger.tiles import WIDTH, bundle_path, encode_bundle, tile_path, tiles_for
from hansard.ledger.tools import Tools

ORIGIN = "log.example.invalid/specimen"
START_US = 1_760_000_000_000_000


@dataclass(frozen=True)
class Key:
    """A signing key under a name."""

    name: str
    private: Ed25519PrivateKey

    @classmethod
    def of(cls, name: str, seed: str = "") -> "Key":
        return cls(name, Ed25519PrivateKey.from_private_bytes(sha256(f"{seed}/{name}".encode()).digest()))

    @property
    def verifier(self) -> VerifierKey:
        return VerifierKey.ed25519(self.name, self.private.public_key().public_bytes_raw())

    def sign(self, text: str) -> Signature:
        key = self.verifier
        return Signature(name=key.name, key_id=key.key_id, blob=self.private.sign(text.encode()))


def check_with_cryptography(public: bytes, message: bytes, signature: bytes) -> bool:
    """A fast stand-in for the verifier's own Ed25519."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


FAST = Tools(ed25519=check_with_cryptography)


@dataclass(frozen=True)
class Body:
    salt: bytes
    media: str
    body: bytes


@dataclass
class Log:
    """A log as it would lie on the disk; every field may be tampered with."""

    origin: str = ORIGIN
    seed: str = ""
    lines: list[bytes] = field(default_factory=list)
    bodies: dict[tuple[int, str], Body] = field(default_factory=dict)
    checkpoints: list[str] = field(default_factory=list)
    epochs: list[Key] = field(default_factory=list)
    identity: Key | None = None
    ts: int = START_US

    @classmethod
    def begun(
        cls, *, signed: bool = True, origin: str = ORIGIN, seed: str = "", epoch_seed: str | None = None
    ) -> "Log":
        """A log with its genesis. Another seed gives other keys and another nonce."""
        log = cls(origin=origin, seed=seed)
        data: dict[str, Any] = {
            "spec": 1,
            "origin": origin,
            "nonce": sha256(seed.encode()).hexdigest()[:32],
            "software": "specimen",
        }
        data |= {"custody": "file" if signed else "none"}
        if signed:
            log.identity = Key.of(origin, seed)
            log.epochs = [Key.of(f"{origin}/epoch/0", seed if epoch_seed is None else epoch_seed)]
            data |= {"identity": log.identity.verifier.text(), "epoch_key": log.epochs[0].verifier.text()}
        log.append("log.genesis", data=data, actor="hansard", run="")
        return log

    @property
    def size(self) -> int:
        return len(self.lines)

    @property
    def pin(self) -> str:
        assert self.identity is not None
        return f"{self.identity.verifier.text()}@{leaf_hash(self.lines[0]).hex()}"

    @property
    def leaves(self) -> list[bytes]:
        return [leaf_hash(line) for line in self.lines]

    def copy(self) -> "Log":
        return copy.copy(self)._with_own_lists()

    def append(
        self,
        kind: str = "task.answered",
        *,
        data: Mapping[str, Any] | None = None,
        bodies: Mapping[str, bytes] | None = None,
        causes: Sequence[int] = (),
        actor: str = "lane:backend",
        run: str = "run-1",
        media: str = TEXT,
    ) -> int:
        """Append an entry with these bodies; its seq."""
        seq = self.size
        committed = {}
        for part, body in (bodies or {}).items():
            salt = sha256(f"{self.seed}/{seq}/{part}".encode()).digest()
            self.bodies[seq, part] = Body(salt, media, body)
            committed[part] = commitment(salt, media, body).hex()
        sketch = checked_sketch(kind=kind, actor=actor, run=run, data=data or {}, body=committed)
        prev = leaf_hash(self.lines[-1]).hex() if self.lines else FIRST_PREV
        self.ts += 1_000
        self.lines.append(sketch.line(causes=list(causes), prev=prev.encode(), seq=seq, ts=self.ts))
        return seq

    def grow(self, count: int, *, bodies: bool = True) -> None:
        """Append so many ordinary entries, each caused by the one before."""
        for _ in range(count):
            seq = self.size
            parts = {"prompt": f"body {seq:>11}".encode()} if bodies else {}
            self.append(
                data={"cost_usd_nano": seq * 7, "task": f"t{seq % 3}", "ok": True}, bodies=parts, causes=[seq - 1]
            )

    def note(self, size: int | None = None, keys: Sequence[Key] | None = None) -> str:
        """A checkpoint of this size, signed by the keys of now."""
        size = self.size if size is None else size
        text = format_checkpoint(self.origin, size, root_of(self.leaves[:size]))
        assert self.identity is not None
        signers = [self.identity, self.epochs[-1]] if keys is None else keys
        return format_note(text, [key.sign(text) for key in signers])

    def checkpoint(self, keys: Sequence[Key] | None = None) -> None:
        self.checkpoints.append(self.note(keys=keys))

    def rotate(self, *, seal: bool = True, seed: str | None = None) -> int:
        """Introduce the next epoch key; sealed by the retiring one unless told otherwise."""
        key = Key.of(f"{self.origin}/epoch/{len(self.epochs)}", self.seed if seed is None else seed)
        data = {"epoch": len(self.epochs), "key": key.verifier.text(), "reason": "asked"}
        seq = self.append("key.rotated", data=data, actor="sealer", run="")
        if seal:
            self.checkpoint()
        self.epochs.append(key)
        return seq

    def redact(self, seq: int, part: str, *, erase: bool = True) -> int:
        """Write the tombstone of a part, and erase its body unless told otherwise."""
        committed = json.loads(self.lines[seq])["body"][part]
        data = {"seq": seq, "part": part, "commitment": committed, "reason": "other"}
        at = self.append("body.redacted", data=data, causes=[seq], actor="human:k7", run="")
        if erase:
            del self.bodies[seq, part]
        return at

    def cut(self, size: int) -> None:
        """Drop the entries from `size` on, and their bodies; checkpoints stay."""
        del self.lines[size:]
        self.bodies = {place: body for place, body in self.bodies.items() if place[0] < size}

    def rechain(self, start: int) -> None:
        """Make seq and prev fit again from an entry on, as a careful forger would."""
        for seq in range(start, self.size):
            members = json.loads(self.lines[seq])
            members |= {"seq": seq, "prev": leaf_hash(self.lines[seq - 1]).hex() if seq else FIRST_PREV}
            self.lines[seq] = dump(members)

    def edit(self, seq: int, change: Callable[[dict[str, Any]], object]) -> None:
        """Change an entry in place, leaving it in canonical form."""
        members = json.loads(self.lines[seq])
        change(members)
        self.lines[seq] = dump(members)

    def receipt(
        self, index: int, *, disclose: Sequence[str] = (), note: str | None = None, rotation: int | None = None
    ) -> bytes:
        """A receipt for an entry under the checkpoint of now; `rotation` is the entry that introduced its epoch key."""
        size = self.size

        def path(of: int) -> list[str]:
            return [b64encode(each).decode() for each in inclusion_proof(of, size, Leaves(self.leaves))]

        def opening(part: str) -> dict[str, str]:
            body = self.bodies[index, part]
            return {"body": b64encode(body.body).decode(), "media": body.media, "salt": body.salt.hex()}

        extra: dict[str, Any] = {
            "v": 1,
            "line": self.lines[index].decode(),
            "genesis": {"line": self.lines[0].decode(), "path": path(0)},
            "open": {part: opening(part) for part in disclose},
        }
        if rotation is not None:
            extra["epoch"] = {"index": rotation, "line": self.lines[rotation].decode(), "path": path(rotation)}
        proof = Proof(
            extra=dump(extra),
            index=index,
            path=tuple(inclusion_proof(index, size, Leaves(self.leaves))),
            checkpoint=self.note() if note is None else note,
        )
        return format_proof(proof).encode()

    def write_jsonl(self, path: Path) -> Path:
        """NAME.jsonl with its companions ([J1]-[J3])."""
        stem = path.name.removesuffix(".jsonl")
        self._write_lines(path, path.with_name(f"{stem}.bodies.jsonl"), path.with_name(f"{stem}.checkpoints.jsonl"))
        return path

    def write_export(self, folder: Path, *, published: str | None = None) -> Path:
        """An export folder ([X1]-[X3]), published at the last checkpoint."""
        folder.mkdir()
        self._write_lines(folder / "entries.jsonl", folder / "bodies.jsonl", folder / "checkpoints.jsonl")
        (folder / "README.txt").write_text("run verify.pyz\n")
        note = published or (self.checkpoints[-1] if self.checkpoints else None)
        if note is None:
            return folder
        (folder / "checkpoint").write_text(note)
        self._write_tiles(folder, int(note.split("\n")[1]))
        return folder

    def write_sqlite(self, path: Path) -> Path:
        """A database as the store leaves it when it is closed ([S1]-[S4])."""
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path, isolation_level=None)
        self.fill(db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        return path

    def fill(self, db: sqlite3.Connection) -> None:
        """Write everything into an empty database, which stays open."""
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")
        db.execute(f"PRAGMA application_id = {layout.APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {layout.USER_VERSION}")
        for text in layout.TABLES:
            db.execute(text)
        db.execute("BEGIN")
        tree = Frontier()
        for seq, line in enumerate(self.lines):
            db.execute("INSERT INTO entries(seq, line) VALUES(?, ?)", (seq, line.decode()))
            for cause in json.loads(line)["causes"]:
                db.execute("INSERT INTO causes VALUES(?, ?)", (seq, cause))
            for node in tree.push(leaf_hash(line)):
                db.execute("INSERT INTO nodes VALUES(?, ?, ?)", node)
        self._fill_bodies(db)
        for note in self.checkpoints:
            db.execute("INSERT INTO checkpoints(size, note) VALUES(?, ?)", (int(note.split("\n")[1]), note))
        if self.lines:
            ts = json.loads(self.lines[-1])["ts"]
            db.execute("INSERT INTO head VALUES(0, ?, ?, ?, ?)", (self.size, self.leaves[-1], ts, tree.to_bytes()))
        db.execute("COMMIT")

    def _fill_bodies(self, db: sqlite3.Connection) -> None:
        shared: dict[bytes, int] = {}
        for (seq, part), body in sorted(self.bodies.items()):
            place = layout.body_id(seq, sorted(json.loads(self.lines[seq])["body"]).index(part))
            if len(body.body) < layout.SHARED_FROM_BYTES:
                db.execute("INSERT INTO bodies VALUES(?, ?, ?, ?, NULL)", (place, body.salt, body.media, body.body))
                continue
            digest = sha256(body.media.encode() + b"\n" + body.body).digest()
            if digest not in shared:
                shared[digest] = len(shared) + 1
                db.execute("INSERT INTO shared VALUES(?, ?, ?)", (shared[digest], digest, body.body))
            db.execute("INSERT INTO bodies VALUES(?, ?, ?, NULL, ?)", (place, body.salt, body.media, shared[digest]))

    def _write_lines(self, entries: Path, bodies: Path, checkpoints: Path) -> None:
        entries.write_bytes(b"".join(line + b"\n" for line in self.lines))
        bodies.write_bytes(b"".join(_body_line(seq, part, body) for (seq, part), body in sorted(self.bodies.items())))
        checkpoints.write_bytes(b"".join(dump({"note": note}) + b"\n" for note in self.checkpoints))

    def _write_tiles(self, folder: Path, size: int) -> None:
        hashes = self.leaves[:size]
        for level, index, width in tiles_for(size):
            first = index * WIDTH << 8 * level
            span = 1 << 8 * level
            nodes = [root_of(hashes[at : at + span]) for at in range(first, first + width * span, span)]
            _put(folder / tile_path(level, index, width), b"".join(nodes))
            if level == 0:
                _put(folder / bundle_path(index, width), encode_bundle(self.lines[first : first + width]))

    def _with_own_lists(self) -> "Log":
        self.lines, self.bodies = list(self.lines), dict(self.bodies)
        self.checkpoints, self.epochs = list(self.checkpoints), list(self.epochs)
        return self


class Leaves:
    """The nodes of a tree, from its leaves."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._leaves = leaves

    def node(self, level: int, index: int) -> bytes:
        return root_of(self._leaves[index << level : (index + 1) << level])

    def root(self, size: int) -> bytes:
        return root_of(self._leaves[:size])


def honest(size: int = 40) -> Log:
    """A signed log of three epochs: checkpoints at 10, 16 (rotation), 25, 31 (rotation) and at the end."""
    return _honest(size).copy()


@cache
def _honest(size: int) -> Log:
    log = Log.begun()
    log.grow(9)
    log.checkpoint()
    log.grow(5)
    log.rotate()
    log.grow(9)
    log.checkpoint()
    log.grow(5)
    log.rotate()
    log.grow(size - log.size)
    log.checkpoint()
    return log


def copied(source: Path, target: Path) -> Path:
    """A copy of a ledger of any form, companions included."""
    if source.is_dir():
        shutil.copytree(source, target)
        return target
    stem = source.name.removesuffix(".jsonl")
    for each in source.parent.iterdir():
        if each.name == source.name or each.name.startswith((f"{stem}.", f"{source.name}-")):
            shutil.copyfile(each, target.with_name(each.name.replace(stem, target.name.removesuffix(".jsonl"), 1)))
    return target


def _body_line(seq: int, part: str, body: Body) -> bytes:
    members: dict[str, Any] = {"media": body.media, "part": part, "salt": body.salt.hex(), "seq": seq}
    try:
        members["text"] = body.body.decode()
    except UnicodeDecodeError:
        members["b64"] = b64encode(body.body).decode()
    return dump(members) + b"\n"


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
