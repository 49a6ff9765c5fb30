"""The calls of a session as lines for its observability log: who was asked, what came of it, what it took. No text of anybody."""

from collections.abc import Mapping
from operator import attrgetter

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
_NAMES: Mapping[type[Fact], tuple[str, ...]] = {
    kind: tuple(field.name for field in shape_of(kind).data if field.name != "jitter_seed") for kind in _EVENTS
}
_SHOWN = {kind: attrgetter(*names) for kind, names in _NAMES.items()}
_encode = fastest()


def event_line(seq: int, fact: Fact) -> bytes | None:
    """The fact without its bodies; None for what is no event of the session."""
    kind = type(fact)
    names = _NAMES.get(kind)
    if names is None:
        return None
    event = {name: value for name, value in zip(names, _SHOWN[kind](fact), strict=True) if value is not None}
    event["event"], event["seq"] = kind.KIND, seq
    return _encode(event) + b"\n"
