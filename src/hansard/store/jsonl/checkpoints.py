"""Checkpoint lines ([J3]). Knows where a note says its size, and nothing of signatures."""

from hansard.errors import UsageError
from hansard.ledger.canonical import Malformed, decode, encode
from hansard.ledger.checkpoint import parse_decimal
from hansard.store.base import StoredCheckpoint
from hansard.store.jsonl.files import LF


def encode_checkpoint(checkpoint: StoredCheckpoint) -> bytes:
    """One checkpoint as a line, LF included. The size is not kept beside the note, so the note must say it."""
    try:
        line = encode({"note": checkpoint.note})
        same = decode_checkpoint(line) == checkpoint
    except Malformed as error:
        raise UsageError(f"not a checkpoint: {error}") from error
    if not same:
        raise UsageError(f"the note of the checkpoint speaks of another size than {checkpoint.size}")
    return line + LF


def decode_checkpoint(line: bytes) -> StoredCheckpoint:
    """The inverse of encode_checkpoint, without the LF; Malformed for anything else."""
    match decode(line):
        case {"note": str(note), **rest} if not rest:
            _, _, behind = note.partition("\n")
            size, _, _ = behind.partition("\n")
            return StoredCheckpoint(size=parse_decimal(size, "the size of the checkpoint"), note=note)
        case _:
            raise Malformed("[J3] not a checkpoint line")
