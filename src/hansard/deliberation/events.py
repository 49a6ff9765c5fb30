"""The calls of a session as lines for its observability log: who was asked, what came of it, what it took. No text of anybody."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from hansard.domain.council import (
    PanelSelected,
    SessionEnded,
    ToolsCalled,
    ToolsReturned,
    TurnAsked,
    TurnFailed,
    TurnTaken,
)
from hansard.domain.fact import Fact
from hansard.record.codec import shape_of
from hansard.record.encoder import fastest

_EVENTS: tuple[type[Fact], ...] = (
    *(TurnAsked, TurnFailed, TurnTaken, PanelSelected, SessionEnded),
    *(ToolsCalled, ToolsReturned),
)
_ON_RECORD_ONLY = ("jitter_seed", "latency_us")
"""A pinned session writes the same directory each time, however long its calls took."""
_NAMES: Mapping[type[Fact], tuple[str, ...]] = {
    kind: tuple(field.name for field in shape_of(kind).data if field.name not in _ON_RECORD_ONLY) for kind in _EVENTS
}
_OPTIONAL: Mapping[type[Fact], tuple[str, ...]] = {
    kind: tuple(field.name for field in shape_of(kind).data if field.optional and field.name in names)
    for kind, names in _NAMES.items()
}
_SHOWN = {kind: attrgetter(*names) for kind, names in _NAMES.items()}
_encode = fastest()


Event = tuple[type[Fact], int, tuple[Any, ...]]
"""What is kept of a fact until the line is written: its kind, where it stands, and its values without the bodies."""


def event_of(seq: int, fact: Fact) -> Event | None:
    """The fact as an event; None for what is no event of the session."""
    kind = type(fact)
    shown = _SHOWN.get(kind)
    return (kind, seq, shown(fact)) if shown else None


def line_of(event: Event) -> bytes:
    """The event as a line of the log."""
    kind, seq, values = event
    said = dict(zip(_NAMES[kind], values, strict=True))
    for name in _OPTIONAL[kind]:
        if said[name] is None:
            del said[name]
    said["event"], said["seq"] = kind.KIND, seq
    return _encode(said) + b"\n"
