"""A fact made ready for a store: salted, committed to, encoded. Needs no store, no loop and no clock."""

import os
from binascii import hexlify
from collections.abc import Callable

from hansard.domain.fact import Fact
from hansard.errors import UsageError
from hansard.ledger.body import SALT_BYTES, digest, salted
from hansard.ledger.canonical import Json, Malformed, dump
from hansard.ledger.entry import new, sketch
from hansard.record import codec
from hansard.record.codec import Shape
from hansard.record.quick import Quick, compile_check
from hansard.store.base import Draft, Part

_POOL_BYTES = 8192
_KNOWN: dict[type[Fact], tuple[Shape, Quick]] = {}
"""For the whole process, which may have many drafters: compiling a check takes longer than recording."""


class Drafter:
    """Makes drafts. Holds a pool of random bytes, since asking the system for 32 at a time costs more than hashing them."""

    def __init__(self, encode: Callable[[Json], bytes] = dump) -> None:
        self._encode = encode
        self._pool = b""
        self._at = 0

    def draft(self, fact: Fact, actor: str, run: str, causes: tuple[int, ...], fence: tuple[str, int] | None) -> Draft:
        """The draft of one fact; UsageError when it breaks a rule of the format."""
        shape, quick = _KNOWN.get(type(fact)) or _learned(type(fact))
        if fence is None and shape.driven:
            raise UsageError(f"{shape.kind} may be written only by the driver that holds the run's claim")
        data, bodies = quick(fact) or codec.encode(fact)[1:]
        parts, committed = [], []
        try:
            for name, given in bodies:
                media, body, at = given.media, given.data or b"", self._at
                if at == len(self._pool):
                    self._pool, at = os.urandom(_POOL_BYTES), 0
                self._at = at + SALT_BYTES
                salt = self._pool[at : at + SALT_BYTES]
                inner = digest(media, body)
                parts.append(new(Part, (name, media, salt, body, inner)))
                committed.append(b'"%b":"%b"' % (name.encode(), hexlify(salted(salt, inner))))
            made = sketch(shape.kind, actor, run, self._encode(data), b",".join(committed))
        except (Malformed, TypeError) as error:
            raise UsageError(f"{shape.kind} cannot be recorded: {error}") from error
        return new(Draft, (run, made, causes, tuple(parts), fence))


def _learned(kind: type[Fact]) -> tuple[Shape, Quick]:
    shape = codec.shape_of(kind)
    _KNOWN[kind] = shape, compile_check(shape)
    return _KNOWN[kind]
