"""C2SP tlog-checkpoint: the text that a log signs for one size of its tree.

The body only. Signatures are the note module's; whether two checkpoints agree is the merkle module's.
"""

import re
from dataclasses import dataclass

from .canonical import MAX_INT, Malformed
from .merkle import HASH
from .note import check_text, from_base64, to_base64

_DECIMAL = re.compile("0|[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A log's claim: at this size its tree has this root."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()


def parse_checkpoint(text: str) -> Checkpoint:
    """Read a checkpoint body (a note's text), extension lines included."""
    check_text(text)
    lines = text.split("\n")
    if lines.pop() != "" or len(lines) < 3 or "" in lines:
        raise Malformed("a checkpoint is three or more non-empty lines (origin, size, root), each ending in a newline")
    origin, size, encoded, *extensions = lines
    root = from_base64(encoded, "the root of the checkpoint")
    if len(root) != HASH:
        raise Malformed(f"the root of the checkpoint has {len(root)} bytes instead of {HASH}")
    return Checkpoint(
        origin=origin,
        size=parse_decimal(size, "the size of the checkpoint"),
        root=root,
        extensions=tuple(extensions),
    )


def format_checkpoint(origin: str, size: int, root: bytes) -> str:
    """Write a checkpoint body; Malformed unless it would be read back the same."""
    written = f"{origin}\n{size}\n{to_base64(root)}\n"
    if parse_checkpoint(written) != Checkpoint(origin=origin, size=size, root=root):
        raise Malformed("the origin of a checkpoint is one line of text")
    return written


def parse_decimal(text: str, what: str) -> int:
    """Read a count below 2^53, which every reader has exactly ([E3]), in ASCII digits without leading zeros."""
    number = int(text) if _DECIMAL.fullmatch(text) else -1
    if not 0 <= number <= MAX_INT:
        raise Malformed(f"{what} is not a decimal number below 2^53 without leading zeros: {text[:40]!r}")
    return number
