"""A fact made ready for a store: salted, committed to, encoded. Needs no store, no loop and no clock."""

import os
from collections.abc import Callable, Iterable

from hansard.domain.fact import Body, Fact
from hansard.errors import UsageError
from hansard.ledger.body import SALT_BYTES, commitment
from hansard.ledger.canonical import Json, Malformed, dump
from hansard.ledger.entry import sketch
from hansard.record import codec
from hansard.store.base import Draft, Part

_POOL_BYTES = 8192


class Drafter:
    """Makes drafts. Holds a pool of random bytes, since asking the system for 32 at a time costs more than hashing them."""

    def __init__(self, encode: Callable[[Json], bytes] = dump, random: Callable[[int], bytes] = os.urandom) -> None:
        self._encode = encode
        self._random = random
        self._pool = b""
        self._at = 0

    def draft(self, fact: Fact, *, actor: str, run: str, causes: Iterable[int], fence: tuple[str, int] | None) -> Draft:
        """The draft of one fact; UsageError when it breaks a rule of the format."""
        shape, data, bodies = codec.encode(fact)
        if shape.driven and fence is None:
            raise UsageError(f"{shape.kind} may be written only by the driver that holds the run's claim")
        try:
            parts = [self._part(name, body) for name, body in bodies]
            made = sketch(
                kind=shape.kind,
                actor=actor,
                run=run,
                data=self._encode(data),
                body=[(name, commitment(salt, media, body).hex()) for name, media, salt, body in parts],
            )
        except Malformed as error:
            raise UsageError(f"{shape.kind} cannot be recorded: {error}") from error
        return Draft(run, made, tuple(causes), tuple(parts), fence)

    def _part(self, name: str, body: Body) -> Part:
        at = self._at
        if at >= len(self._pool):
            self._pool, at = self._random(_POOL_BYTES), 0
        self._at = at + SALT_BYTES
        return Part(name, body.media, self._pool[at : at + SALT_BYTES], body.data or b"")
