"""The calls of a session as lines for its observability log: who was asked, what came of it, what it took. No text of anybody."""

from collections.abc import Mapping

from hansard.domain.council import PanelSelected, SessionEnded, TurnAsked, TurnFailed, TurnTaken
from hansard.domain.fact import Fact
from hansard.record.codec import shape_of
from hansard.record.encoder import fastest

_EVENTS: tuple[type[Fact], ...] = (TurnAsked, TurnFailed, TurnTaken, PanelSelected, SessionEnded)
_SHOWN: Mapping[type[Fact], tuple[str, ...]] = {
    kind: tuple(field.name for field in shape_of(kind).data if field.name != "jitter_seed") for kind in _EVENTS
}
_encode = fastest()


def event_line(seq: int, fact: Fact) -> bytes | None:
    """The fact without its bodies; None for what is no event of the session."""
    names = _SHOWN.get(type(fact))
    if names is None:
        return None
    event: dict[str, object] = {"event": fact.KIND, "seq": seq}
    for name in names:
        value = getattr(fact, name)
        if value is not None:
            event[name] = value
    return _encode(event) + b"\n"
