"""An agent CLI as a provider: asked once, without a session, and read in its own machine format.

What all of them share: the program runs as `process` and `workspace` say, sees little of our environment, and what it
says to have cost is an estimate of what the API would have charged. Which flags and which format is the business of a
Cli. Isolation is on unless it is switched off: the answer shall not depend on the settings of whoever runs it.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol

from hansard.domain.exchange import Completion, Cost, Exchange, Failure, Finish, ToolEvent, Usage
from hansard.domain.value import value
from hansard.errors import ProviderError, UsageError
from hansard.providers import checks
from hansard.providers.base import Heard, answer, failed, failure
from hansard.providers.checks import count
from hansard.providers.options import Options
from hansard.providers.prices import Prices
from hansard.providers.programs.environment import barred, found, passed_on
from hansard.providers.programs.outcome import ended_badly, keep, tightened
from hansard.providers.programs.process import Program, Ran, need_a_system_with_processes, run
from hansard.providers.programs.spill import SPILL_BYTES, spill_of
from hansard.providers.programs.workspace import Place, Workspace, prepared, workspace_of

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""What a CLI may print: its answer and, as events, everything that it did for it."""

VERSION_TIMEOUT_S = 20.0
NESTED = frozenset(
    {
        *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SESSION_ID"),
        *("CLAUDE_CODE_EFFORT_LEVEL", "CLAUDE_EFFORT", "CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST"),
        *("AI_AGENT", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID"),
    }
)
"""Variables with which a CLI tells its children that they run inside of it. Ours do not, even where we do."""


@value
class Asking:
    """One question as a CLI takes it. The prompt is in `stdin` or in a file, never in `arguments`."""

    arguments: tuple[str, ...]
    stdin: bytes
    environment: Mapping[str, str] = field(default_factory=dict)


@value
class Told:
    """What a CLI's output says. Without usage, nothing was reported."""

    text: str = ""
    structured: Any = None
    finish: Finish = "stop"
    usage: Usage | None = None
    cost: Cost | None = None
    model: str = ""
    tool_events: tuple[ToolEvent, ...] = ()
    failure: Failure | None = None
    despite_exit: bool = False
    """An answer that is to be judged although the program calls it a failure."""


class Cli(Protocol):
    """One agent CLI: how it is asked and how it is understood."""

    @property
    def kind(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def install(self) -> str:
        """The line that installs it."""
        ...

    @property
    def variables(self) -> frozenset[str]:
        """The variables of its vendor that it may see; one that ends in an underscore stands for all that begin so."""
        ...

    def call(self, exchange: Exchange, model: str, place: Place) -> Asking: ...
    def read(self, ran: Ran, exchange: Exchange) -> Told: ...
    def describe(self) -> Mapping[str, str]: ...


class AgentCli:
    """A provider that asks an agent CLI."""

    unmetered = True

    def __init__(
        self,
        id: str,
        cli: Cli,
        *,
        environment: Mapping[str, str],
        model: str = "",
        program: str = "",
        names: tuple[str, ...] = (),
        workspace: Workspace | None = None,
        timeout_s: float | None = None,
        max_spill_bytes: int = SPILL_BYTES,
        prices: Prices | None = None,
    ) -> None:
        need_a_system_with_processes()
        self.id = id
        self._cli, self._model, self._timeout_s = cli, model, timeout_s
        self._workspace, self._prices = workspace or Workspace(), prices or Prices()
        self._max_spill_bytes = max_spill_bytes
        self._environment = child_environment(environment, cli, names=names)
        path = found(program or cli.program, self._environment)
        if path is None:
            none = f"{program or cli.program} is not installed; run: {cli.install}"
            raise UsageError(f"[providers.{id}]: {barred(program) or none}")
        self._program = path
        self._version, self._version_of = "", _file_of(path)
        self._asking = asyncio.Lock()

    def describe(self) -> Mapping[str, str]:
        """What tells it apart; the version from the first question on, or after `version`."""
        said = {"id": self.id, "kind": self._cli.kind, "program": self._program, **self._cli.describe()}
        said |= {"model": self._model or "default", "workspace": self._workspace.kind}
        return said | ({"version": self._version} if self._version else {})

    async def close(self) -> None:
        """Nothing is kept open between two questions."""

    async def version(self) -> str:
        """What the CLI says of itself, asked once for as long as its file stays the same: some of them replace themselves."""
        async with self._asking:
            file = _file_of(self._program)
            if not self._version or file != self._version_of:
                self._version, self._version_of = await self._asked_version(), file
        return self._version

    async def _asked_version(self) -> str:
        try:
            async with asyncio.timeout(VERSION_TIMEOUT_S):
                ran = await run(self._run(Asking(arguments=("--version",), stdin=b""), Path("/")))
        except TimeoutError:
            return f"unknown (it did not say within {VERSION_TIMEOUT_S:g} s)"
        lines = ran.stdout.decode("utf-8", "replace").strip().splitlines()
        return lines[0][:200] if lines and ran.exit_code == 0 else f"unknown ({ran.ending})"

    async def complete(self, exchange: Exchange) -> Completion:
        return await answer(self, tightened(exchange, self._timeout_s), self._asked)

    complete.keeps_the_contract = True  # type: ignore[attr-defined]

    async def _asked(self, exchange: Exchange, heard: Heard) -> Completion:
        model = exchange.model or self._model
        try:
            await self.version()
            async with prepared(self._workspace, self._environment) as place:
                call = self._cli.call(exchange, model, place)
                ran = await run(self._run(call, place.folder), note=lambda ran: keep(ran, heard))
                diff = await place.changes()
        except ProviderError as error:
            return failed(self, exchange, failure("internal", str(error)), heard=heard)
        told = self._cli.read(ran, exchange)
        return self._completion(told, ran, heard, model, diff)

    def _run(self, call: Asking, folder: Path) -> Program:
        return Program(
            argv=(self._program, *call.arguments),
            folder=folder,
            environment={**self._environment, **call.environment},
            stdin=call.stdin,
            max_output_bytes=MAX_EVENT_BYTES,
            max_spill_bytes=self._max_spill_bytes,
        )

    def _completion(self, told: Told, ran: Ran, heard: Heard, model: str, diff: bytes | None) -> Completion:
        usage = told.usage if told.usage and checks.is_honest(told.usage) else None
        heard.usage = usage
        why = told.failure
        if why is None and ran.exit_code != 0 and not told.despite_exit:
            why = ended_badly(ran)
        if why is None and ran.truncated:
            why = failure("internal", f"{self._program} printed {ran.stdout_bytes} bytes of events; the end is missing")
        requested = model or "default"
        return Completion(
            provider=self.id,
            requested_model=requested,
            returned_model=told.model or requested,
            text=told.text,
            structured=None if why else told.structured,
            finish=told.finish,
            usage=usage or Usage(),
            cost=told.cost or self._estimate(usage, told.model, requested),
            raw=heard.raw,
            tool_events=told.tool_events,
            failure=why,
            exit_code=heard.exit_code,
            output=heard.output,
            stderr=heard.stderr,
            diff=diff,
            argv=heard.argv,
            fingerprint=self._version or None,
        )

    def _estimate(self, usage: Usage | None, returned: str, requested: str) -> Cost:
        """What the API would have charged, where the CLI counts tokens only and the model's price is known."""
        model = self._prices.known(returned, requested)
        if not model or usage is None:
            return Cost()
        return replace(self._prices.cost(model, usage), basis="estimate")


def _file_of(program: str) -> tuple[int, ...]:
    """What tells the file of a program from any that takes its place; nothing where there is none."""
    try:
        found = os.stat(program)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The JSON objects of an output, one a line. What is none is passed over: CLIs print warnings in between."""
    found = []
    for line in data.split(b"\n"):
        with suppress(ValueError, RecursionError):
            event = json.loads(line)
            if isinstance(event, dict):
                found.append(event)
    return found


def counted(counts: Any, *, fresh: tuple[str, ...], output: tuple[str, ...], cached: str) -> Usage | None:
    """The usage in a table of counts; nothing where all is zero, for something was said. `fresh` has the whole input."""
    said = Usage(
        input_tokens=sum(count(counts, name) for name in fresh),
        output_tokens=sum(count(counts, name) for name in output),
        cached_tokens=count(counts, cached),
    )
    return said if said.total else None


def complaint(ran: Ran, said: str, name: str) -> str:
    """What to tell about a failure: the CLI's own words, or else how it ended."""
    return f"{name}: {said}" if said else str(ended_badly(ran).message)


def as_user(prompt: str) -> str:
    """A prompt that no CLI takes for one of its own commands, which begin with a slash."""
    return f"[USER]\n{prompt}" if prompt.lstrip().startswith("/") else prompt


def child_environment(environment: Mapping[str, str], cli: Cli, *, names: tuple[str, ...] = ()) -> dict[str, str]:
    """What a CLI sees: what every program sees, the variables of its own vendor, and what is configured by name.

    An allow-list, so another vendor's keys and whatever else lies around stay with us.
    """
    prefixes = tuple(each for each in cli.variables if each.endswith("_"))
    kept = passed_on(environment, names={*cli.variables, *names}, prefixes=prefixes)
    return {name: value for name, value in kept.items() if name not in NESTED}


def opened(id: str, cli: Cli, read: Options, environment: Mapping[str, str], prices: Prices | None) -> AgentCli:
    """A provider from what is common to the tables of all CLIs; `cli` has read its own options before."""
    model, program, names = read.text("model"), read.text("program"), read.texts("env")
    workspace, timeout_s, max_spill_bytes = workspace_of(read), read.seconds("timeout_s"), spill_of(read)
    read.done()
    return AgentCli(
        id,
        cli,
        environment=environment,
        model=model,
        program=program,
        names=names,
        workspace=workspace,
        timeout_s=timeout_s,
        max_spill_bytes=max_spill_bytes,
        prices=prices,
    )
