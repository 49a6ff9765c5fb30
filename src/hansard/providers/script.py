"""A neutral script for the scripted provider: what to answer, to whom, in which order. Knows no protocol.

    mode = "keyed"                # each question takes the first unused entry that matches it

    [[entries]]
    match = { role = "validator", task = "t1" }
    structured = { ok = true, reason = "fits" }

    [[entries]]
    match = { role = "worker" }
    failure = { kind = "rate_limit", retry_after_s = 2 }

    [[entries]]
    match = { role = "researcher" }
    calls = [{ id = "c1", name = "look", arguments = { at = "Paris" } }]   # for tools that the question offers

`match` names metadata of the exchange, and `schema` for the name of the shape that is asked for.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Self

from hansard.domain.exchange import Exchange
from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.errors import UsageError, plainly
from hansard.providers.reply import Reply

Mode = Literal["sequential", "keyed"]
Exhaustion = Literal["error", "loop"]


@value
class Entry:
    """One answer, whom it is for, and how long it takes. No constraint means anybody."""

    reply: Reply
    match: Mapping[str, str | int] = field(default_factory=dict)
    latency_s: float = 0.0
    comment: str = ""

    def mismatch(self, exchange: Exchange) -> str | None:
        """The first constraint that this exchange does not meet, or None."""
        for name, wanted in self.match.items():
            found = _said(exchange, name)
            # 1 and "1" are different answers to who asks, and so are 1 and True.
            if type(found) is not type(wanted) or found != wanted:
                return f"{name}: expected {wanted!r}, got {found!r}"
        return None


@value
class Script:
    """The whole script. Sequential: call N gets entry N, whose constraints are asserted. Keyed: the first that matches."""

    entries: tuple[Entry, ...]
    mode: Mode = "keyed"
    on_exhaustion: Exhaustion = "error"
    name: str = "script"

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a .json or .toml file."""
        try:
            text = path.read_text("utf-8-sig")
            table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"cannot read the script {path}: {plainly(error)}") from error
        return cls.of(table, where=str(path))

    @classmethod
    def of(cls, table: Mapping[str, Any], *, where: str = "script") -> Self:
        """From plain values. UsageError names the entry and the key that is wrong."""
        fields = Fields(table, where)
        script = cls(
            entries=tuple(_read_entry(each) for each in fields.tables("entries")),
            mode=fields.choice("mode", ("sequential", "keyed"), "keyed"),
            on_exhaustion=fields.choice("on_exhaustion", ("error", "loop"), "error"),
            name=fields.text("name", "script"),
        )
        fields.done()
        if not script.entries:
            raise UsageError(f"{where}: entries must hold at least one answer")
        return script


def _read_entry(fields: Fields) -> Entry:
    match = fields.table("match")
    for name, wanted in match.items():
        if not isinstance(wanted, str | int) or isinstance(wanted, bool):
            raise UsageError(f"{fields.where}: match.{name} must be a text or a whole number, not {wanted!r}")
    reply = Reply.read(fields)
    entry = Entry(
        reply=reply, match=match, latency_s=fields.number("latency_s", 0.0) or 0.0, comment=fields.text("comment")
    )
    fields.done()
    return entry


def _said(exchange: Exchange, name: str) -> str | int | None:
    if name == "schema" and "schema" not in exchange.metadata:
        return exchange.schema_name if exchange.schema is not None else None
    return exchange.metadata.get(name)
