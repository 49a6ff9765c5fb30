"""Answers through whichever agent CLI is installed. Two voices where there are two: the visionary speaks through another.

Which CLI answers whom is settled when it is opened and told by `describe`, so that a run has it in its snapshot.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hansard.domain.exchange import Completion, Exchange
from hansard.errors import UsageError, told_of
from hansard.providers.base import Provider, failed, failure
from hansard.providers.options import Options
from hansard.providers.programs.environment import found, passed_on

FIRST, OTHER = "claude-cli", "codex-cli"
PROGRAMS: Mapping[str, str] = {FIRST: "claude", OTHER: "codex"}
INSTALL = "npm install -g @anthropic-ai/claude-code (or @openai/codex)"
VISIONARY = "visionary"
WHO = ("persona", "agent", "agent_id", "role")
"""The metadata in which an exchange says who asks."""

Factory = Callable[..., Provider]
Guard = Callable[[Provider], Provider]
"""Puts a breaker before one of the CLIs: what one vendor refuses says nothing of the other."""


class CliAuto:
    """One provider in front of the CLIs. `visionary` answers that persona, `rest` everybody else."""

    unmetered = True

    def __init__(self, id: str, *, rest: Provider, visionary: Provider) -> None:
        self.id = id
        self._rest, self._visionary = rest, visionary

    def describe(self) -> Mapping[str, str]:
        said = {"id": self.id, "kind": "cli-auto"}
        for who, provider in (("rest", self._rest), (VISIONARY, self._visionary)):
            said |= {f"{who}_{name}": value for name, value in provider.describe().items() if name != "id"}
        return said | {"model": self._rest.describe().get("model", "")}

    async def complete(self, exchange: Exchange) -> Completion:
        try:
            return await self.answers(exchange).complete(exchange)
        except Exception as error:  # noqa: BLE001 - whatever stands behind us, a failure is a value
            return failed(self, exchange, failure("internal", told_of(error)))

    complete.keeps_the_contract = True  # type: ignore[attr-defined]

    def answers(self, exchange: Exchange) -> Provider:
        """Who answers this exchange."""
        who = {str(exchange.metadata[name]) for name in WHO if name in exchange.metadata}
        return self._visionary if VISIONARY in who else self._rest

    async def close(self) -> None:
        await self._rest.close()
        if self._visionary is not self._rest:
            await self._visionary.close()


def installed(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The kinds whose CLI is on the PATH, the preferred one first."""
    sees = passed_on(environment)
    return tuple(kind for kind, program in PROGRAMS.items() if found(program, sees))


def open_cli_auto(
    id: str, options: Mapping[str, Any], environment: Mapping[str, str], *, clis: Mapping[str, Factory], guard: Guard
) -> CliAuto:
    """A provider from its table in hansard.toml. `clis` opens each kind of CLI; models are given by kind.

    Claude answers all but the visionary, who speaks through Codex; where one is missing, the other answers everybody.
    """
    read = Options(id, options)
    models = {FIRST: read.text("claude_model"), OTHER: read.text("codex_model")}
    timeout_s = read.seconds("timeout_s")
    read.done()
    there = installed(environment)
    if not there:
        raise UsageError(f"{read.where}: no agent CLI is installed; run: {INSTALL}")
    common = {} if timeout_s is None else {"timeout_s": timeout_s}

    def opened(kind: str) -> Provider:
        return guard(clis[kind](id, {**common, **({"model": models[kind]} if models[kind] else {})}, environment))

    rest = opened(there[0])
    return CliAuto(id, rest=rest, visionary=opened(there[-1]) if len(there) > 1 else rest)
