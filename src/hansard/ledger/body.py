"""Salted commitments to bodies ([B1], [B2]). Knows bytes only: not where they sleep, not what they say."""

import re
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest

from .canonical import Malformed

SALT_BYTES = 32
LARGE_BYTES = 64 * 1024
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
BYTES = "application/octet-stream"

PREFIX = b"hansard-body/v1\n"
_MEDIA = re.compile(r"[\x20-\x7e]{1,127}")


def commitment(salt: bytes, media: str, body: bytes) -> bytes:
    """The 32 bytes that an entry commits to for one part; Malformed when the media type is not of its form."""
    return salted(salt, digest(media, body))


def salted(salt: bytes, inner: bytes) -> bytes:
    """The commitment to a body whose digest is known."""
    return sha256(PREFIX + salt + inner).digest()


def digest(media: str, body: bytes) -> bytes:
    """The unsalted inner digest; it must never leave the place where the body itself lies ([S4])."""
    if len(body) < LARGE_BYTES:
        return sha256(_first_line(media) + body).digest()
    # Not put together with its first line, which is quicker where it is short: it would take its room twice.
    found = sha256(_first_line(media))
    found.update(body)
    return found.digest()


def opens(committed: str, salt: bytes, media: str, body: bytes) -> bool:
    """Whether salt, media type and body give the committed hex digest; total over any input."""
    if len(salt) != SALT_BYTES or not _MEDIA.fullmatch(media):
        return False
    return compare_digest(commitment(salt, media, body), _unhex(committed))


@lru_cache(256)
def _first_line(media: str) -> bytes:
    if not _MEDIA.fullmatch(media):
        raise Malformed(f"[B1] media type {media[:40]!r} is not 1 to 127 printable ASCII characters")
    return media.encode() + b"\n"


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
