"""C2SP tlog-witness: what a log hands to a witness, and whether the witness may cosign it ([W1]-[W3]).

Rules only: it has no key, no clock and no file. Whoever cosigns keeps the newest checkpoint of each log, and nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from . import ed25519
from .canonical import Malformed
from .checkpoint import Checkpoint, parse_checkpoint, parse_decimal
from .merkle import EMPTY_ROOT, HASH, verify_consistency
from .note import Check, Note, VerifierKey, from_base64, open_note, parse_note

_OLD = "old "
_MOST_HASHES = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An add-checkpoint body taken apart, nothing in it believed yet: a checkpoint, and the proof that it extends `old`."""

    old: int
    proof: tuple[bytes, ...]
    note: Note
    checkpoint: Checkpoint


class Refused(Exception):
    """Why a witness does not cosign, with the status that the protocol has for it; `size` is the newest that it cosigned."""

    def __init__(self, status: int, message: str, *, size: int | None = None) -> None:
        super().__init__(message)
        self.status, self.size = status, size


def split_request(data: bytes) -> tuple[int, tuple[bytes, ...], str]:
    """The old size, the proof, and the note as text ([P4]); Malformed for whatever strays from the form."""
    try:
        head, blank, note = data.decode().partition("\n\n")
    except UnicodeDecodeError as error:
        raise Malformed("not UTF-8") from error
    first, *proof = head.split("\n")
    if not blank or not first.startswith(_OLD):
        raise Malformed("[P4] it is not an old size, a proof, a blank line and a checkpoint")
    if len(proof) > _MOST_HASHES:
        raise Malformed(f"[P4] the proof has {len(proof)} hashes; nobody may send more than {_MOST_HASHES}")
    old = parse_decimal(first.removeprefix(_OLD), "[P4] the old size")
    hashes = tuple(from_base64(line, "[P4] a hash of the proof") for line in proof)
    if any(len(each) != HASH for each in hashes):
        raise Malformed(f"[P4] a hash of the proof is not {HASH} bytes long")
    return old, hashes, note


def parse_request(data: bytes) -> Request:
    """Read an add-checkpoint body."""
    old, proof, text = split_request(data)
    note = parse_note(text)
    return Request(old=old, proof=proof, note=note, checkpoint=parse_checkpoint(note.text))


def check_request(
    request: Request, keys: Iterable[VerifierKey], newest: Checkpoint | None, check: Check = ed25519.verify
) -> None:
    """Refused unless this checkpoint may be cosigned: by a trusted key of its log, and an extension of the newest one."""
    seen = request.checkpoint
    _check_signed(request.note, keys, check)
    if request.old > seen.size:
        raise Refused(400, f"the old size {request.old} is beyond the checkpoint's own {seen.size}")
    size, root = (newest.size, newest.root) if newest else (0, EMPTY_ROOT)
    if request.old != size:
        raise Refused(409, f"the newest checkpoint here is of size {size}, and not {request.old}", size=size)
    if seen.size == size and seen.root != root:
        raise Refused(409, f"another root was cosigned at size {size}: the log was rewritten or forked", size=size)
    if seen.size == size or size == 0:
        if request.proof:
            raise Refused(422, "between these sizes there is nothing to prove, so the proof is empty")
        return
    try:
        verify_consistency(size, seen.size, request.proof, root, seen.root)
    except Malformed as error:
        raise Refused(422, f"it does not extend the log of size {size} that was cosigned here: {error}") from error


def _check_signed(note: Note, keys: Iterable[VerifierKey], check: Check) -> None:
    try:
        signed = open_note(note, keys, check).verified
    except Malformed as error:
        raise Refused(403, f"it is not signed as it should be: {error}") from error
    if not signed:
        raise Refused(403, "no key that is trusted for this log has signed it")
