"""What drivers of this process record, for those who look on: each entry as far as a screen or a client needs it."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, Protocol

Text = Callable[[str], str | None]
"""Gives the text of a part of the entry, None where it is not at hand."""


class Event(NamedTuple):
    """One entry of a run, as far as a screen needs it. `ts` is in microseconds."""

    run: str
    kind: str
    data: Mapping[str, Any]
    text: Text
    ts: int


class Watcher(Protocol):
    """Somebody who is told of a run."""

    def take(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def close(self) -> None: ...


class Nobody:
    """Nobody looks."""

    def take(self, event: Event) -> None:
        return

    def tick(self) -> None:
        return

    def close(self) -> None:
        return


def listener(watching: Watcher) -> Callable[[str, Any], None]:
    """Tells a watcher what drivers of this process record."""

    def heard(run: str, recorded: Any) -> None:
        fact = recorded.fact
        values = {each.name: getattr(fact, each.name) for each in fields(fact)}

        def text(part: str) -> str | None:
            return values[part].as_text() if values.get(part) else None

        watching.take(Event(run, fact.KIND, values, text, recorded.ts))

    return heard
