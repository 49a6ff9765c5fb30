"""What a verifier kept outside the log, read from its files: checkpoints, receipts and consistency files ([P4], [V5]).

Holds them against the roots of a walk. A signature on an anchor is not needed, since the verifier kept it himself.
"""

import os
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .canonical import Malformed
from .events import Noted, read_note
from .merkle import verify_consistency
from .note import COSIGNATURE_V1, VerifierKey
from .receipt import HEADER, MAX_RECEIPT, carried, parse_proof
from .report import Anchor, Findings
from .seals import Pin, Seals
from .sources.base import CannotRead, open_regular
from .witness import split_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A checkpoint that was kept elsewhere; with `old` also the proof that it extends an older size."""

    what: str
    noted: Noted
    old: int = 0
    proof: tuple[bytes, ...] = ()

    def sizes(self) -> Iterator[int]:
        """The sizes whose roots are needed to judge it."""
        yield self.noted.size
        if self.old:
            yield self.old


def load_kept(path: str) -> Kept:
    """Read a file of --against or --since; CannotRead when it is none of the three forms."""
    try:
        data = carried(_read(path))
        if data.startswith(HEADER.encode()):
            return Kept(what=path, noted=read_note(parse_proof(data).checkpoint))
        if data.startswith(b"old "):
            return _consistency(path, data)
        return Kept(what=path, noted=read_note(data))
    except Malformed as error:
        raise CannotRead(f"{path} is neither a checkpoint, a receipt nor a consistency file: {error}") from error


def load_pin(text: str) -> Pin:
    """The pin itself, or the file that holds it."""
    try:
        return Pin.parse(text)
    except Malformed as error:
        if not os.path.isfile(text):
            raise CannotRead(f"{text[:120]!r} is neither a pin nor a file that holds one: {error}") from error
    try:
        return Pin.parse(_read(text).decode())
    except (Malformed, UnicodeDecodeError) as error:
        raise CannotRead(f"{text} does not hold a pin: {error}") from error


def load_witness(text: str) -> VerifierKey:
    """The verifier key of a witness, or the file that holds it."""
    try:
        key = VerifierKey.parse(text if "+" in text and not os.path.isfile(text) else _read(text).decode().strip())
        if key.algorithm != COSIGNATURE_V1:
            raise Malformed(f"{key.name} signs a log and cosigns nothing")
    except (Malformed, UnicodeDecodeError) as error:
        raise CannotRead(f"{text[:120]!r} is not the key of a witness, nor a file that holds one: {error}") from error
    return key


def compare(kept: Kept, *, roots: Mapping[int, bytes], size: int, seals: Seals, findings: Findings) -> Anchor:
    """Hold one anchor against the log: same origin, not longer, same root."""
    checkpoint = kept.noted.checkpoint
    problem = _contradiction(kept, roots, size, seals)
    if problem:
        findings.add(problem[0], "anchor", f"{kept.what}: {problem[1]}")
    doubt = seals.bad_signature(kept.noted)
    if doubt:
        findings.add("anchor_signature", "warning", f"{kept.what}: {doubt}")
    return Anchor(what=kept.what, size=checkpoint.size, ok=problem is None)


def _contradiction(kept: Kept, roots: Mapping[int, bytes], size: int, seals: Seals) -> tuple[str, str] | None:
    seen = kept.noted.checkpoint
    if seals.genesis is not None and seals.genesis.origin != seen.origin:
        return "anchor_origin", f"it is of the log {seen.origin!r:.80}, and this is {seals.genesis.origin!r:.80}"
    if seen.size > size:
        return "rollback", f"it saw {seen.size} entries, and the log has {size}: it was rolled back or cut"
    if roots.get(seen.size) != seen.root:
        return "fork", f"it saw another log of {seen.size} entries: this one was rewritten or forked"
    # From size 0 there is nothing to prove, and a proof of it fits no log ([P4]).
    if kept.old or kept.proof:
        try:
            verify_consistency(kept.old, seen.size, kept.proof, roots.get(kept.old, b""), seen.root)
        except Malformed as error:
            return "consistency", f"its proof does not fit this log: {error}"
    return None


def _consistency(path: str, data: bytes) -> Kept:
    old, proof, note = split_request(data)
    return Kept(what=path, noted=read_note(note), old=old, proof=proof)


def _read(path: str) -> bytes:
    """A file that somebody kept, without the mark that some editors begin it with."""
    try:
        with open_regular(Path(path)) as file:
            data = file.read(MAX_RECEIPT + 1)
    except (OSError, ValueError) as error:
        raise CannotRead(f"cannot read {path[:200]!r}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_RECEIPT:
        raise CannotRead(f"{path} is larger than {MAX_RECEIPT} bytes")
    return data.removeprefix(BOM_UTF8)
