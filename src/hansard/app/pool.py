"""The providers that are open in this process. Runs share them, so that a provider's limits hold over all runs at once."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hansard.app.seams import open_handler, open_reviser, open_source, open_verifier
from hansard.app.settings import Settings
from hansard.app.wiring import learn_passwords, learn_secrets, open_providers
from hansard.errors import ProviderError, UsageError
from hansard.orchestration.calling import Means
from hansard.orchestration.config import RunConfig
from hansard.providers.base import Provider, check_provider, held
from hansard.providers.prices import Price, Prices
from hansard.providers.programs.environment import passed_on
from hansard.providers.programs.process import Program, Ran, run
from hansard.providers.secrets import Secrets
from hansard.providers.tools import Handler

MOST_SEEN = 256
PANEL_KIND = "panel"
CLI_KINDS = ("claude-cli", "codex-cli", "gemini-cli", "cli-auto")
"""Agent CLIs, which can be named without a table in hansard.toml."""
PYTHON_KIND = "python"
"""What a configuration snapshot calls a provider that a program handed in: nobody else can open it."""

FLAGGED = "flag"
"""The name of a provider that flags ask for."""


def flag_of(table: Mapping[str, Any]) -> str:
    """The flag that such a table was made of."""
    if table.get("kind") == "command":
        return "--cmd"
    return "--chat-url" if "base_url" in table else "--api"


class Pool:
    """Providers by name and table. `given` are those that a program handed in for every run."""

    def __init__(self, settings: Settings, given: Mapping[str, Provider] | None = None) -> None:
        self._secrets = Secrets()
        self.prices = Prices.read(settings.prices, where=str(settings.config or "hansard.toml"))
        self.given: dict[str, Provider] = {}
        self.lent: dict[str, Provider] = {}
        """What a program handed in for one run, the newest of each name: only such a run is asked of it, also when it is retried."""
        self.hand_in(given or {})
        self.seams: dict[str, Any] = {}
        """Context sources, verifiers, revisers and handlers of tools that a program handed in, by name."""
        self.settings = settings
        self.capsule: Callable[[str], str] = _no_capsule
        """The capsule of a run, as context for another."""
        self.panel: Callable[
            [str, Mapping[str, Any], Mapping[str, Provider], Mapping[str, Handler], Mapping[str, Price]], Provider
        ] = _no_panel
        """A panel of this name and table, whose agents ask these and use these tools, at the prices of the run."""
        self._open: dict[str, Provider] = {}
        self._seen: dict[tuple[str, int, str], tuple[Mapping[str, Any], Provider]] = {}
        """The same by the very tables that were asked with: a daemon's runs share a few configurations."""
        self._kept: dict[str, dict[str, Provider]] = {}
        """What was handed in for runs that were submitted here and have not ended."""
        self._programs: dict[str, _Programs] = {}
        self._learned = False

    def hand_in(self, providers: Mapping[str, Provider]) -> None:
        """Know what a program hands in for every run, by name; UsageError where something of it is no provider."""
        for each in providers.values():
            check_provider(each)
        self.given.update(providers)

    def means_of(self, config: RunConfig, run: str = "") -> Means:
        """What a run's configuration names, open. UsageError where something of it cannot be opened here."""
        providers = self.providers_of(config, run)
        programs = self._programs_in(config.folder)
        return Means(providers=providers, programs=programs, price=self.prices.find, **self.seams_of(config))

    def seams_of(self, config: RunConfig) -> dict[str, Any]:
        """What is plugged into a run besides its providers, open."""
        programs = self._programs_in(config.folder)
        return {
            "sources": tuple(open_source(table, programs, self.seams, self.capsule) for table in config.context),
            "verifier": open_verifier(config.verifier, programs, self.seams) if config.verifier else None,
            "reviser": open_reviser(config.reviser, programs, self.seams) if config.reviser else None,
        }

    def handlers(self, tables: Mapping[str, Mapping[str, Any]], folder: str) -> dict[str, Handler]:
        """What runs the tools of these tables, by the name of the tool."""
        programs = self._programs_in(folder)
        return {name: open_handler(name, table, programs, self.seams) for name, table in tables.items()}

    def _programs_in(self, folder: str) -> "_Programs":
        """What runs the programs of checks, in the project's folder."""
        if folder not in self._programs:
            learn_passwords(self.settings, self.secrets)
            self._programs[folder] = _Programs(_here(folder), passed_on(self.settings.environment))
        return self._programs[folder]

    def keep(self, run: str, config: RunConfig, lent: Mapping[str, Provider]) -> None:
        """Keep for a run what was handed in, `lent` for it alone: another one of the same name may be handed in for the next."""
        handed = [name for name, table in config.providers.items() if table.get("kind") == PYTHON_KIND]
        if handed:
            known = {**self.given, **lent}
            self._kept[run] = {name: known[name] for name in handed if name in known}

    def let_go(self, run: str) -> None:
        """Such a run has ended."""
        self._kept.pop(run, None)

    def providers_of(self, config: RunConfig, run: str = "") -> dict[str, Provider]:
        """The providers of a run, by name. A panel's agents ask the others."""
        tables, kept = config.providers, self._kept.get(run, {})
        plain = {
            name: held(kept[name]) if name in kept else self.provider(name, table, config.folder)
            for name, table in tables.items()
            if table.get("kind") != PANEL_KIND
        }
        panels = {name: table for name, table in tables.items() if table.get("kind") == PANEL_KIND}
        return plain | {
            name: self.panel(name, table, plain, self.handlers(table.get("tools", {}), config.folder), config.prices)
            for name, table in panels.items()
        }

    @property
    def secrets(self) -> Secrets:
        """What is not to be recorded: the keys of every provider that is configured, of those that nobody has asked, too."""
        if not self._learned:
            self._learned = True
            learn_secrets(self.settings, self._secrets)
        return self._secrets

    async def close(self) -> None:
        opened, self._open = self._open, {}
        self._seen.clear()
        await asyncio.gather(*(provider.close() for provider in opened.values()), return_exceptions=True)

    def provider(self, name: str, table: Mapping[str, Any], folder: str) -> Provider:
        """The provider of this name and table, opened at its first use."""
        if table.get("kind") == PYTHON_KIND:
            handed = self.given.get(name) or self.lent.get(name)
            if handed is None:
                raise UsageError(
                    f"provider {name!r} was handed in by a Python program; resume this run from there, "
                    f"with the same provider"
                )
            return held(handed)
        known = self._seen.get((name, id(table), folder))
        if known is not None and known[0] is table:
            return known[1]
        key = json.dumps([name, table, folder], sort_keys=True, default=str)
        if key not in self._open:
            opened = open_providers(
                self.settings,
                {name: table},
                folder=_here(folder),
                secrets=self.secrets,
                prices=self.prices,
                places={} if FLAGGED in self.settings.providers else {FLAGGED: flag_of(table)},
            )
            [self._open[key]] = opened.values()
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen[name, id(table), folder] = table, self._open[key]
        return self._open[key]


def _here(folder: str) -> Path:
    """The project's folder; the one that we work in where that is gone, as on another machine."""
    return Path(folder) if folder and Path(folder).is_dir() else Path.cwd()


def _no_panel(name: str, *_: object) -> Provider:
    raise UsageError(f"there is no ledger open in which {name} could meet")


def _no_capsule(run: str) -> str:
    raise UsageError(f"there is no ledger open to look for run {run}")


class _Programs:
    """Runs the programs of checks: in the project's folder, with the allow-listed environment, within a time limit.

    A signal that ended one is a negative exit code, as it is of a provider's program.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment

    async def __call__(self, argv: tuple[str, ...], stdin: bytes, timeout_s: float) -> Ran:
        program = Program(
            argv=argv, folder=self._folder, environment=self._environment, stdin=stdin, max_output_bytes=1 << 20
        )
        try:
            async with asyncio.timeout(timeout_s):
                ran = await run(program)
        except TimeoutError:
            raise ProviderError(f"{argv[0]} did not end within {timeout_s:g} s") from None
        return ran if ran.signal is None else replace(ran, exit_code=-ran.signal)
