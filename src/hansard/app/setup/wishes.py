"""What a caller wants of one run, and whom he wants asked."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from types import UnionType
from typing import Any

from hansard.app.pool import FLAGGED
from hansard.app.settings import LIMITS, working_folder
from hansard.app.spelling import spelled
from hansard.domain.roster import Policy, Roster
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.orchestration.config import Answering, Judge
from hansard.providers.programs.environment import argument_from

BOUNDED = (*LIMITS, "max_parallel")
"""Of what a caller of a server wants, the flags and the file say how much there is."""


@value
class Wishes:
    """What a caller wants of one run, besides what is configured. None leaves it to the settings."""

    provider: str | None = None
    cmd: str | None = None
    chat_url: str | None = None
    model: str | None = None
    api: str | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: str | None = None
    max_seconds: float | None = None
    judge: Judge | None = None
    answer: Answering | None = None
    max_parallel: int | None = None
    ladder: tuple[str, ...] | None = None
    roster: Roster | None = None
    policy: Policy | None = None
    gates: tuple[str, ...] = ()
    """Gates besides those of the settings: `plan`, `task:ID`, `lane:NAME`."""
    context: tuple[str, ...] = ()
    """Runs whose capsules are given as context: `last`, or a run's id."""
    verifier: str | None = None
    judge_intent: bool = False
    revise: bool = False
    profile: str | None = None
    bare: tuple[str, ...] | None = None
    """Of the providers that a session can do with and no table names (agent programs, APIs whose key is in the environment)
    those that may be asked; None is all of them. Callers of a server bring none.
    """
    typed: bool = False
    """Whether these are flags that somebody typed. What is wrong with one is told by the name that he used."""

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            if not isinstance(given := getattr(self, name), kind | None):
                raise UsageError(f"{self.named(name)} must be {_told(kind)}, not {given!r:.80}")

    def named(self, name: str) -> str:
        return spelled(name, typed=self.typed)

    def asking(self, provider: str | None) -> "Wishes":
        """The same with this provider, or nobody, in place of whom the flags name. What they allow to spend stays."""
        return replace(self, provider=provider, cmd=None, chat_url=None, model=None, api=None)

    def for_caller(self, provider: str | None, **wanted: Any) -> "Wishes":
        """The flags of a server, and over them what a caller wants: he chooses among what is configured, and spends no more
        than they allow."""
        base = self if provider is None else self.asking(provider)
        wanted = {name: value for name, value in wanted.items() if value is not None}
        for name in BOUNDED:
            if name in wanted and (most := getattr(base, name)) is not None:
                wanted[name] = min(most, wanted[name], key=lambda each: Decimal(str(each)))
        return replace(base, **wanted)


KINDS: Mapping[str, type | UnionType] = {
    **dict.fromkeys(("provider", "cmd", "chat_url", "model", "api", "judge", "answer", "verifier", "profile"), str),
    **dict.fromkeys(("gates", "context", "ladder"), tuple | list),
    "roster": Roster,
    "policy": Policy,
}
"""Of what type a wish is. Numbers are looked at where they are read."""


def _told(kind: type | UnionType) -> str:
    if kind is str:
        return "text"
    return f"made with {kind.__name__}(…)" if isinstance(kind, type) else "a tuple of texts"


def flagged(wishes: Wishes) -> tuple[str | None, dict[str, dict[str, Any]]]:
    """The provider that flags ask for, as its name and its table."""
    given = [name for name in ("provider", "cmd", "chat_url", "api") if getattr(wishes, name) is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(map(wishes.named, given))} both say whom to ask; keep one")
    if wishes.model is not None and wishes.chat_url is None:
        model, url, provider = map(wishes.named, ("model", "chat_url", "provider"))
        raise UsageError(f"{model} belongs to {url}; with {provider} write NAME:MODEL")
    if wishes.cmd is not None:
        return FLAGGED, {FLAGGED: {"kind": "command", "argv": words_of(wishes.cmd, wishes.named("cmd"))}}
    if wishes.chat_url is not None:
        if wishes.model is None:
            url, model = wishes.named("chat_url"), wishes.named("model")
            raise UsageError(f"{url} needs {model}: the server has to know which model is meant")
        return FLAGGED, {FLAGGED: {"kind": "openai", "base_url": wishes.chat_url, "model": wishes.model}}
    if wishes.api is not None:
        kind = "anthropic" if wishes.api.startswith("claude") else "openai"
        return FLAGGED, {FLAGGED: {"kind": kind, "model": wishes.api}}
    return wishes.provider, {}


def words_of(command: str, where: str) -> list[str]:
    """A command as somebody types it, as its program and its arguments. Paths are taken from here: it may be run elsewhere."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{where} {command!r}: {error}") from error
    if not words:
        raise UsageError(f"{where} needs a program to run")
    (program, *arguments), here = words, working_folder()
    return [str(here / program) if "/" in program else program, *(argument_from(here, each) for each in arguments)]
