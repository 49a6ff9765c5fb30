"""Which kinds of providers there are besides ours: those that a program registers, those that installed packages bring.

A factory builds and does not connect. It takes the provider's name, its table of hansard.toml without the keys that are
the same for all, and the environment that it may read; it may also take `prices` and `progress` by name.
"""

from collections.abc import Callable
from typing import Any

from hansard.errors import UsageError, told_of
from hansard.providers.base import Provider

GROUP = "hansard.providers"
"""The entry points that bring further kinds: the name is the kind, the object a Factory."""

OURS = frozenset(
    {
        *("openai", "anthropic", "command", "claude-cli", "codex-cli", "gemini-cli", "cli-auto"),
        *("scripted", "replayed", "local"),
    }
)

Factory = Callable[..., Provider]
"""factory(id, options, environment) -> Provider"""


class Registry:
    """Kinds that were registered, and those that installed packages bring."""

    def __init__(self) -> None:
        self._registered: dict[str, Factory] = {}

    def register(self, kind: str, factory: Factory) -> None:
        """Make a kind known. A name that is taken is refused: one word with two meanings would end in the record."""
        if kind in OURS or self._registered.get(kind, factory) is not factory:
            raise UsageError(f"the provider kind {kind!r} is taken; register yours under another name")
        self._registered[kind] = factory

    def kinds(self) -> list[str]:
        """Every kind that can be named, ours included, without loading any."""
        return sorted({*OURS, *self._registered, *_installed()})

    def find(self, kind: str) -> Factory:
        """The factory of a kind that is not ours."""
        if kind in self._registered:
            return self._registered[kind]
        found = _installed().get(kind)
        if found is None:
            raise UsageError(f"there is no provider kind {kind!r}; known are {', '.join(self.kinds())}")
        try:
            factory: Factory = found.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            why = told_of(error)
            raise UsageError(f"the provider kind {kind!r} ({found.value}) cannot be loaded: {why}") from error
        if not callable(factory):
            raise UsageError(f"the provider kind {kind!r} ({found.value}) is no factory")
        return factory


def _installed() -> dict[str, Any]:
    # Imported when it is used: it costs as much as all the rest of this floor.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


REGISTRY = Registry()


def register(kind: str, factory: Factory) -> None:
    """Make a kind of provider known to this process: `factory(id, options, environment) -> Provider`."""
    REGISTRY.register(kind, factory)
