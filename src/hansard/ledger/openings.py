"""Verification of a receipt ([P1]-[P3]): one entry, its place in the log, who signed, and the parts it opens.

Nothing in `extra` is believed that does not re-hash. It needs no ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .anchors import Kept
from .body import opens
from .canonical import Malformed, decode
from .cosigned import Shown, witnessed
from .entry import GENESIS, HASH, Entry, parse
from .events import ROTATED, Genesis, Noted, Rotated, epoch_name, read_event, read_note
from .limits import not_proven
from .merkle import leaf_hash, verify_inclusion
from .note import VerifierKey, from_base64, open_note
from .receipt import MAX_RECEIPT, PAGE, Proof, carried, parse_proof
from .report import Anchor, Findings, Receipt, Report, Signed
from .seals import Pin
from .sources.base import CannotRead, open_regular
from .tools import STANDARD, Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A line that a receipt carries, with the path that should lead from it to the root."""

    index: int
    line: bytes
    path: tuple[bytes, ...]
    entry: Entry

    @property
    def leaf(self) -> bytes:
        return leaf_hash(self.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A part as the receipt discloses it."""

    salt: bytes
    media: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A receipt taken apart, nothing in it believed yet."""

    noted: Noted
    entry: Placed
    genesis: Placed
    epoch: Placed | None
    opened: dict[str, Opening] = field(default_factory=dict)


def verify_receipt(
    path: Path, *, pin: Pin | None, against: Sequence[Kept], witnesses: Sequence[VerifierKey] = (), tools: Tools
) -> Report:
    """Verify one receipt file; CannotRead when the file itself cannot be had."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_RECEIPT + 1)
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {error.strerror or error}") from error
    return check_receipt(data, path=str(path), pin=pin, against=against, witnesses=witnesses, tools=tools)


def check_receipt(
    data: bytes,
    *,
    path: str = "",
    pin: Pin | None = None,
    against: Sequence[Kept] = (),
    witnesses: Sequence[VerifierKey] = (),
    tools: Tools = STANDARD,
) -> Report:
    """Verify the bytes of a receipt; any bytes give a report."""
    findings = Findings()
    report = Report(path=path, form="receipt")
    try:
        if len(data) > MAX_RECEIPT:
            raise Malformed(f"larger than {MAX_RECEIPT} bytes")
        contents = read_receipt(carried(data))
    except Malformed as error:
        findings.add("receipt", "structure", f"[P1] not a receipt of a ledger: {error}")
    else:
        report = _Check(contents, findings, pin, tools).report(report, against)
        own = Shown("the checkpoint of the receipt", contents.noted)
        same = [Shown(kept.what, kept.noted) for kept in against if kept.noted.checkpoint == own.noted.checkpoint]
        report = replace(report, witnessed=witnessed(witnesses, [own, *same], findings, tools.ed25519))
    limits = not_proven(report, pinned=pin is not None, anchored=bool(against), deep=True)
    if data.startswith(PAGE):
        limits = (
            "that the page shows what its receipt says: the receipt in it was read, and nothing else of it",
            *limits,
        )
    return replace(report, findings=findings.all(), more_findings=findings.more, not_proven=limits)


def read_receipt(data: bytes) -> Contents:
    """Take a receipt apart; Malformed names what is not of its form."""
    proof = parse_proof(data)
    if proof.extra is None:
        raise Malformed("[P2] it has no extra line, so it does not say which entry it is about")
    extra = decode(proof.extra)
    wanted = {"genesis", "line", "open", "v"}
    if type(extra) is not dict or set(extra) - {"epoch"} != wanted or type(extra["v"]) is not int or extra["v"] != 1:
        raise Malformed("[P2] extra is not an object with genesis, line, open and v 1")
    return Contents(
        noted=read_note(proof.checkpoint),
        entry=_entry(proof, extra["line"]),
        genesis=_placed(extra["genesis"], ("line", "path"), "genesis"),
        epoch=_placed(extra["epoch"], ("index", "line", "path"), "epoch") if "epoch" in extra else None,
        opened=_openings(extra["open"]),
    )


class _Check:
    """The checks of [P3], in their order."""

    def __init__(self, contents: Contents, findings: Findings, pin: Pin | None, tools: Tools) -> None:
        self._contents = contents
        self._findings = findings
        self._pin = pin
        self._tools = tools

    def report(self, report: Report, against: Sequence[Kept]) -> Report:
        contents, checkpoint = self._contents, self._contents.noted.checkpoint
        entry = contents.entry.entry
        if entry.seq != contents.entry.index:
            self._bad("index", f"it says index {contents.entry.index}, and its entry says seq {entry.seq}")
        genesis, epoch = self._read_genesis(), self._read_epoch()
        if genesis and genesis.origin != checkpoint.origin:
            self._bad(
                "origin", f"its checkpoint is of {checkpoint.origin!r:.80}, its genesis of {genesis.origin!r:.80}"
            )
        keys = self._keys(genesis, epoch)
        signers = self._signers(keys, genesis)
        self._check_inclusion()
        identity = genesis.identity.text() if genesis and genesis.identity else None
        pinned = self._pin is not None and genesis is not None and self._agrees(self._pin, genesis)
        return replace(
            report,
            size=checkpoint.size,
            head=contents.entry.leaf.hex(),
            root=checkpoint.root.hex(),
            origin=checkpoint.origin,
            genesis=genesis.leaf if genesis else None,
            custody=genesis.custody if genesis else None,
            signed=Signed(
                sealed_to=checkpoint.size if len(signers) == 2 else 0,
                newest=checkpoint.size,
                checkpoints=1,
                checked=len(signers),
                identity=identity,
                keys="pinned" if pinned else "self-asserted" if identity else "none",
                epochs=epoch.epoch + 1 if epoch else 1 if identity else 0,
            ),
            anchors=tuple(anchor for kept in against if (anchor := self._compare(kept))),
            receipt=self._receipt(entry, signers),
        )

    def _read_genesis(self) -> Genesis | None:
        placed = self._contents.genesis
        try:
            if placed.entry.kind != GENESIS or placed.entry.seq != 0:
                raise Malformed(f"it is not {GENESIS}")
            genesis = read_event(GENESIS, 0, placed.leaf.hex(), placed.entry.data)
        except Malformed as error:
            self._bad("genesis", f"the genesis that it carries: {error}")
            return None
        assert isinstance(genesis, Genesis)
        return genesis

    def _read_epoch(self) -> Rotated | None:
        placed = self._contents.epoch
        if placed is None:
            return None
        try:
            if placed.entry.kind != ROTATED or placed.entry.seq != placed.index:
                raise Malformed(f"it is not {ROTATED}")
            rotated = read_event(ROTATED, placed.entry.seq, placed.leaf.hex(), placed.entry.data)
        except Malformed as error:
            self._bad("epoch", f"the rotation that it carries: {error}")
            return None
        assert isinstance(rotated, Rotated)
        return rotated

    def _keys(self, genesis: Genesis | None, epoch: Rotated | None) -> list[VerifierKey]:
        """The identity key and the epoch key, by the pin where there is one."""
        if genesis is None or genesis.identity is None or genesis.epoch_key is None:
            if genesis:
                self._bad("unsigned", "[C10] the log is unsigned and cannot give receipts")
            if self._pin:
                self._findings.add("pin_identity", "anchor", "[C8] the identity key is not the pinned one")
            return []
        if self._pin and not self._agrees(self._pin, genesis):
            self._findings.add("pin", "anchor", "[C8] identity key or genesis are not the pinned ones")
        epoch_key = epoch.key if epoch else genesis.epoch_key
        if epoch and (epoch.epoch == 0 or epoch_key.name != epoch_name(genesis.origin, epoch.epoch)):
            self._bad("epoch", "[C4] the epoch key is not named after its origin and epoch")
        if epoch and epoch.seq + 1 >= self._contents.noted.size:
            self._bad("epoch", f"[C5] the epoch key of its rotation is in force past size {epoch.seq + 1} only")
            return [genesis.identity]
        return [genesis.identity, epoch_key]

    def _signers(self, keys: list[VerifierKey], genesis: Genesis | None) -> list[VerifierKey]:
        if not keys or genesis is None or genesis.epoch_key is None:
            return []
        # The first epoch key is known from the genesis that it carries, retired or not ([C3]).
        known = dict.fromkeys([*keys, genesis.epoch_key])
        try:
            verified = open_note(self._contents.noted.note, known, self._tools.ed25519).verified
        except Malformed as error:
            self._findings.add("signature", "signature", f"[C3] its checkpoint is rejected: {error}")
            return []
        for key in keys:
            if key not in verified:
                self._findings.add("signature", "signature", f"[C6] its checkpoint is not signed by {key.name!r:.80}")
        return [key for key in keys if key in verified]

    def _check_inclusion(self) -> None:
        checkpoint = self._contents.noted.checkpoint
        carried = {"entry": self._contents.entry, "genesis": self._contents.genesis, "epoch": self._contents.epoch}
        for name, placed in carried.items():
            if placed is None:
                continue
            try:
                verify_inclusion(placed.leaf, placed.index, checkpoint.size, placed.path, checkpoint.root)
            except Malformed as error:
                self._bad("inclusion", f"the {name} is not in the log that was signed: {error}")

    def _receipt(self, entry: Entry, signers: list[VerifierKey]) -> Receipt:
        opened = []
        for part, opening in self._contents.opened.items():
            if part not in entry.body:
                self._bad("opening", f"[P2] it opens the part {part!r:.40}, which the entry does not have")
            elif opens(entry.body[part], opening.salt, opening.media, opening.body):
                opened.append(part)
            else:
                message = "[B2] what it discloses does not give the commitment: it was changed"
                self._findings.add("opening", "structure", message, seq=entry.seq, part=part)
        return Receipt(
            index=self._contents.entry.index,
            kind=entry.kind,
            actor=entry.actor,
            run=entry.run,
            ts=entry.ts,
            opened=tuple(sorted(opened)),
            closed=tuple(sorted(set(entry.body) - set(self._contents.opened))),
            signed_by=tuple(key.name for key in signers),
        )

    def _compare(self, kept: Kept) -> Anchor | None:
        """An anchor says something about a receipt only where both speak of the same size; None where they do not."""
        mine, seen = self._contents.noted.checkpoint, kept.noted.checkpoint
        if mine.origin != seen.origin:
            self._findings.add("anchor_origin", "anchor", f"{kept.what}: it saw the log {seen.origin!r:.80}")
        elif mine.size != seen.size:
            message = f"{kept.what}: it is of size {seen.size} and the receipt of size {mine.size}; only the ledger can compare them"
            self._findings.add("anchor_unused", "grade", message)
            return None
        elif mine.root != seen.root:
            self._findings.add("fork", "anchor", f"{kept.what}: it saw another root at the same size: a fork")
        return Anchor(what=kept.what, size=seen.size, ok=(mine.origin, mine.root) == (seen.origin, seen.root))

    def _agrees(self, pin: Pin, genesis: Genesis) -> bool:
        return genesis.identity is not None and (pin.identity, pin.genesis) == (genesis.identity.text(), genesis.leaf)

    def _bad(self, code: str, message: str) -> None:
        self._findings.add(code, "structure", message)


def _entry(proof: Proof, line: Any) -> Placed:
    if type(line) is not str:
        raise Malformed("[P2] the line is not text")
    data = line.encode()
    return Placed(index=proof.index, line=data, path=proof.path, entry=parse(data))


def _placed(value: Any, members: Sequence[str], what: str) -> Placed:
    if type(value) is not dict or sorted(value) != sorted(members):
        raise Malformed(f"[P2] {what} is not an object with {', '.join(members)}")
    line, path, index = value["line"], value["path"], value.get("index", 0)
    if type(line) is not str or type(path) is not list or type(index) is not int or index < 0:
        raise Malformed(f"[P2] {what} has a line, a path or an index that is not of its form")
    if not all(type(each) is str for each in path):
        raise Malformed(f"[P2] the path of {what} is not an array of base64")
    data = line.encode()
    hashes = tuple(from_base64(each, f"[P2] a hash of {what}") for each in path)
    return Placed(index=index, line=data, path=hashes, entry=parse(data))


def _openings(value: Any) -> dict[str, Opening]:
    if type(value) is not dict:
        raise Malformed("[P2] open is not an object")
    return {part: _opening(part, each) for part, each in value.items()}


def _opening(part: str, value: Any) -> Opening:
    if type(value) is not dict or sorted(value) != ["body", "media", "salt"]:
        raise Malformed(f"[P2] the opening of {part!r:.40} is not an object with body, media and salt")
    if not all(type(each) is str for each in value.values()) or not HASH.fullmatch(value["salt"]):
        raise Malformed(f"[P2] the opening of {part!r:.40} is not of its form")
    body = from_base64(value["body"], f"[P2] the body of {part!r:.40}")
    return Opening(salt=bytes.fromhex(value["salt"]), media=value["media"], body=body)
