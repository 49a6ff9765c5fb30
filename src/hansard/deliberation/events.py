"""The calls of a session as lines for its observability log: who was asked, what came of it, what it took. No text of anybody."""

import json
from typing import Any

from hansard.domain.council import PanelSelected, SessionEnded, TurnAsked, TurnFailed, TurnTaken
from hansard.domain.fact import Body, Fact


def event_of(seq: int, fact: Fact) -> dict[str, Any] | None:
    """The fact without its bodies; None for what is no event of the session."""
    if not isinstance(fact, TurnAsked | TurnFailed | TurnTaken | PanelSelected | SessionEnded):
        return None
    values = {name: getattr(fact, name) for name in fact.__dataclass_fields__}
    shown = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and not isinstance(value, Body) and name != "jitter_seed"
    }
    return {"event": fact.KIND, "seq": seq, **shown}


def as_lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in events)
