"""Body lines ([J2]): written, read, and found by bisecting the file, which their order makes possible without an index."""

import os
import re
from base64 import b64decode, b64encode
from binascii import hexlify
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from functools import lru_cache

from hansard.ledger.canonical import Malformed, decode, dump
from hansard.ledger.sources.lines import MAX_BODY_LINE
from hansard.store.base import Part, StoredBody
from hansard.store.jsonl.files import line_start, pieces, whole_end

# Keys are sorted: what identifies a body stands in front of `text` and behind `b64`, and its length is bounded.
_NAMES = rb'"media":"(?:[^"\\]|\\.)*","part":"([a-z][a-z0-9_]{0,31})","salt":"[0-9a-f]{64}","seq":(\d{1,16})'
_TEXT = re.compile(rb"\{" + _NAMES + rb',"text":"')
_B64 = re.compile(rb'",' + _NAMES + rb"\}\Z")
_B64_BEGINS = b'{"b64":"'
_B64_LINE = b'{"b64":"%b","media":%b,"part":"%b","salt":"%b","seq":%d}\n'
_TEXT_LINE = b'{"media":%b,"part":"%b","salt":"%b","seq":%d,"text":%b}\n'
_NAMES_BYTES = 512

Encode = Callable[[object], bytes]
"""What gives the bytes of `dump`, and may be faster."""
Key = tuple[int, str]
"""What orders body lines: the seq of the entry, and the name of the part."""


def encode_body(seq: int, part: Part, encode: Encode = dump) -> bytes:
    """One part as a line, LF included. Its members are put together here, in their order: only texts need an encoder."""
    name, media, salt, body, _ = part
    try:
        text = encode(body.decode())
    except UnicodeDecodeError:
        coded = b64encode(body)
        return _B64_LINE % (coded, _media(media), name.encode(), hexlify(salt), seq)
    return _TEXT_LINE % (_media(media), name.encode(), hexlify(salt), seq, text)


@lru_cache(256)
def _media(media: str) -> bytes:
    return dump(media)


def decode_body(line: bytes) -> StoredBody:
    """The inverse of encode_body, without the LF; Malformed for anything else."""
    members = decode(line)
    match members:
        case {"media": str(media), "part": str(part), "salt": str(salt), "seq": int(seq), "text": str(text)}:
            body = text.encode()
        case {"b64": str(coded), "media": str(media), "part": str(part), "salt": str(salt), "seq": int(seq)}:
            body = _from_base64(coded)
        case _:
            raise Malformed("[J2] not a body line")
    if len(members) != 5:
        raise Malformed("[J2] a body line has five members")
    try:
        return StoredBody(seq=seq, part=part, media=media, salt=bytes.fromhex(salt), body=body)
    except ValueError as error:
        raise Malformed("[J2] the salt of a body is not hex") from error


def find_body(fd: int, key: Key) -> tuple[int, int] | None:
    """Where a body's line begins and ends, its LF included; None when there is none."""
    end = whole_end(fd)
    try:
        at = _bisect(fd, end, key)
        if at == end or key_at(fd, at) != key:
            return None
        return at, line_start(fd, at + 1)
    except Malformed:
        # A damaged line misled the search; looking at every line still finds the others.
        return _look_at_all(fd, end, key)


def find_everywhere(fd: int, keys: Set[Key]) -> tuple[dict[tuple[int, int], Key], int | None]:
    """The lines of these bodies, wherever they lie, and where the first line begins that cannot be told whose it is."""
    found: dict[tuple[int, int], Key] = {}
    at, end, strange = 0, whole_end(fd), None
    while at < end:
        behind = line_start(fd, at + 1)
        try:
            if (key := key_at(fd, at)) in keys:
                found[at, behind] = key
        except Malformed:
            strange = at if strange is None else strange
        at = behind
    return found, strange


def read_body(fd: int, place: tuple[int, int]) -> StoredBody:
    if place[1] - place[0] > MAX_BODY_LINE:
        raise Malformed(f"[J2] its line is longer than {MAX_BODY_LINE} bytes")
    return decode_body(b"".join(pieces(fd, place[0], place[1] - 1)))


def all_but(fd: int, places: Sequence[tuple[int, int]], end: int) -> Iterator[bytes]:
    """The file without these lines, which come in the order in which they lie."""
    at = 0
    for begin, behind in places:
        yield from pieces(fd, at, begin)
        at = behind
    yield from pieces(fd, at, end)


def _bisect(fd: int, end: int, key: Key) -> int:
    """The beginning of the first line that is not before the key."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        start = line_start(fd, middle)
        if start < end and key_at(fd, start) < key:
            low = start + 1
        else:
            high = middle
    return line_start(fd, low)


def _look_at_all(fd: int, end: int, key: Key) -> tuple[int, int] | None:
    at = 0
    while at < end:
        behind = line_start(fd, at + 1)
        with suppress(Malformed):
            if key_at(fd, at) == key:
                return at, behind
        at = behind
    return None


def key_at(fd: int, at: int) -> Key:
    """Which body's line begins here, without reading the body; Malformed when it is none."""
    first = os.pread(fd, _NAMES_BYTES, at)
    if not first.startswith(_B64_BEGINS):
        return _key(first, b"")
    end = line_start(fd, at + 1) - 1
    start = max(at, end - _NAMES_BYTES)
    return _key(first, os.pread(fd, end - start, start))


def _key(first: bytes, last: bytes) -> Key:
    found = _B64.search(last) if first.startswith(_B64_BEGINS) else _TEXT.match(first)
    if found is None:
        raise Malformed("[J2] not a body line")
    return int(found[2]), found[1].decode()


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise Malformed("[J2] b64 is not base64") from error
