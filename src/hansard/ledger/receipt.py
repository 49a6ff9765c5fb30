"""C2SP tlog-proof: one entry's place in a log, as a file that can be handed out.

Form only: nothing here is checked against anything, and `extra` is not to be trusted before it re-hashes.
"""

import re
from dataclasses import dataclass

from .canonical import Malformed
from .checkpoint import parse_decimal
from .merkle import HASH, MAX_PROOF
from .note import from_base64, to_base64

HEADER = "c2sp.org/tlog-proof@v1"
MAX_RECEIPT = 256 << 20
"""A larger file is not read, and so never made ([P1])."""
PAGE = b"<!doctype html>"
_CARRIED = re.compile(rb'<script type="text/plain" id="receipt">([A-Za-z0-9+/]+={0,2})</script>')


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """An entry's index, its inclusion path, the signed checkpoint, and what its issuer chose to add."""

    extra: bytes | None
    index: int
    path: tuple[bytes, ...]
    checkpoint: str


def carried(data: bytes) -> bytes:
    """The receipt in a page that shows one ([P1]); what is no page is as it came."""
    if not data.startswith(PAGE):
        return data
    found = _CARRIED.findall(data)
    if len(found) != 1:
        raise Malformed(f"the page carries {'several receipts' if found else 'no receipt'}")
    return from_base64(found[0].decode(), "the receipt of the page")


def parse_proof(data: bytes) -> Proof:
    """Read a proof; the checkpoint is kept verbatim and not looked into."""
    try:
        head, blank, checkpoint = data.decode().partition("\n\n")
    except UnicodeDecodeError as error:
        raise Malformed(f"the proof is not UTF-8 at byte {error.start}") from error
    if not blank or not checkpoint.endswith("\n"):
        raise Malformed("the proof does not hold a blank line and then a checkpoint that ends in a newline")
    header, *lines = head.split("\n")
    if header != HEADER:
        raise Malformed(f"the proof does not start with {HEADER}")
    extra = _parse_extra(lines)
    word, _, index = lines.pop(0).partition(" ") if lines else ("", "", "")
    if word != "index":
        raise Malformed("the proof has no index line")
    return Proof(
        extra=extra,
        index=parse_decimal(index, "the index of the proof"),
        path=_parse_path(lines),
        checkpoint=checkpoint,
    )


def format_proof(proof: Proof) -> str:
    """Write a proof; Malformed unless it would be read back the same."""
    extra = [] if proof.extra is None else [f"extra {to_base64(proof.extra)}"]
    lines = [HEADER, *extra, f"index {proof.index}", *map(to_base64, proof.path), "", proof.checkpoint]
    written = "\n".join(lines)
    if parse_proof(written.encode(errors="surrogatepass")) != proof:
        raise Malformed("these values do not make a proof that reads back the same")
    return written


def _parse_extra(lines: list[str]) -> bytes | None:
    if not lines or not lines[0].startswith("extra "):
        return None
    return from_base64(lines.pop(0).removeprefix("extra "), "the extra data of the proof")


def _parse_path(lines: list[str]) -> tuple[bytes, ...]:
    if len(lines) > MAX_PROOF:
        raise Malformed(f"the proof has {len(lines)} hashes; no tree needs more than {MAX_PROOF}")
    path = tuple(from_base64(line, "a hash of the proof") for line in lines)
    if any(len(each) != HASH for each in path):
        raise Malformed(f"a hash of the proof is not {HASH} bytes long")
    return path
