"""From a problem, a configuration and flags to everything that a session is convened with, as it goes on the record.

What is written here is enough to go on with the session in another process: no file is read a second time.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Self

from hansard.app.pool import PYTHON_KIND, Pool
from hansard.app.settings import Settings, recordable
from hansard.app.setup.allowance import Allowance, Charged, Priced
from hansard.app.setup.configuring import ITS_OWN, nobody
from hansard.app.setup.costs import MOST_USD, allowed, check_price, costs_some
from hansard.app.setup.given_up import GivenUp
from hansard.app.setup.panels import panel_names, panel_of, personas_of, usual_provider
from hansard.app.setup.rehearsal import REHEARSAL, panel_rehearsal_table
from hansard.app.setup.tooltables import handlers_of
from hansard.app.setup.wishes import Wishes, flagged
from hansard.app.wiring import open_script
from hansard.deliberation.archive import check_name as check_name
from hansard.deliberation.archive import session_around
from hansard.deliberation.documents import SCHEMA_VERSION, Config, FakeProviderScript, Producer, unrepresentable
from hansard.deliberation.documents.config_rules import config_warnings
from hansard.deliberation.documents.scripting import neutral_script
from hansard.deliberation.experts import checked_cap, checked_needs
from hansard.deliberation.offering import unhandled
from hansard.deliberation.personas import COORDINATOR, DEFAULT_PANEL, DEFAULTS, Personas
from hansard.deliberation.session import PRODUCER
from hansard.deliberation.setting import Setting, check_panel
from hansard.deliberation.turn import MessageShape
from hansard.domain.budget import NANO_PER_USD, Budget, in_nano
from hansard.domain.value import value
from hansard.errors import UsageError, unwritten
from hansard.orchestration.nested import PANEL, is_panel
from hansard.orchestration.questions import QuestionKey
from hansard.providers.agents.auto import installed
from hansard.providers.base import Provider
from hansard.providers.prices import Price

CLI_AUTO = "cli-auto"
FAKE = "fake"
BARE = ("openai", "anthropic", "claude-cli", "codex-cli", "gemini-cli", CLI_AUTO)
"""Kinds of providers that can be named in a configuration without a table in hansard.toml."""
UNNAMED = "new"
"""The id of a session whose configuration names none; it gets its run's when there is one."""
DEFAULT_EXPANSIONS = 2
CAPS = {"max_total_tokens": 500_000, "max_total_cost_usd": 5.0, "max_rounds": 5, "max_wallclock_seconds": 1800}


@value
class Convening:
    """What a session is convened with. `runs` is the folder for its directory, None where it gets none."""

    config: Config
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What runs the tools that agents declare, by name."""
    folder: str = "."
    runs: str | None = None
    shape: MessageShape = "golden"
    producer: Mapping[str, str] = field(default_factory=lambda: dict(PRODUCER))
    script: Mapping[str, Any] | None = None
    selector_script: Mapping[str, Any] | None = None
    experts: Sequence[str] = ()
    """What experts are needed for; each gets a persona that is made before the session begins."""
    ensemble: bool = False
    """Whether everybody answers alone first."""
    continues: Mapping[str, Any] | None = None
    """The session that this one goes on from, and the number of this one in the chain."""
    max_expansions: int = DEFAULT_EXPANSIONS
    max_calls: int | None = None
    """How many calls of models there may be, with those before the session; None is no limit."""
    cut: Sequence[str] = ()
    """What it asked for and is not allowed here, each in a sentence."""
    given_up: set[QuestionKey] = field(default_factory=set)
    """What is not asked any more when it comes up next, because of what became of it."""

    def as_json(self) -> bytes:
        return json.dumps(self._data(), ensure_ascii=False).encode()

    def _data(self) -> dict[str, Any]:
        return {
            "config": self.config.as_data(),
            "providers": {name: dict(table) for name, table in self.providers.items()},
            "tools": {name: dict(table) for name, table in self.tools.items()},
            "folder": self.folder,
            "runs": self.runs,
            "message_shape": self.shape,
            "producer": dict(self.producer),
            "script": self.script,
            "selector_script": self.selector_script,
            "experts": list(self.experts),
            "ensemble": self.ensemble,
            "continues": self.continues,
            "max_expansions": self.max_expansions,
            "max_calls": self.max_calls,
            "cut": list(self.cut),
        }

    def check(self) -> None:
        """UsageError where this cannot be put on the record, or its session could have no directory."""
        check_name(self.config.session_id)
        if (usd := self.config.budget.max_total_cost_usd) > MOST_USD:
            raise UsageError(
                f"max_total_cost_usd is {usd:g}, more than the record can hold; at most {MOST_USD:,} will do"
            )
        if why := unrepresentable(self._data()):
            raise UsageError(f"what session {self.config.session_id} is to be held with {why}")
        Producer.parse(self.producer)
        if self.runs is not None:
            check_folder(Path(self.runs))

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        read = json.loads(data)
        config, shape, experts = Config.parse(read.pop("config")), read.pop("message_shape"), read.pop("experts", ())
        return cls(config=config, shape=shape, experts=tuple(experts), cut=tuple(read.pop("cut", ())), **read)

    @property
    def warnings(self) -> list[str]:
        """What is allowed and probably not meant."""
        unused = [
            f"nobody here runs the tool {name}, so it is offered to no model; write [tools.{name}] into hansard.toml"
            for name in unhandled(self.config, self.tools)
        ]
        strategy = self.config.selector.strategy
        chosen = f"the {strategy} selector chooses who sits on the panel, and may leave out an expert that is made"
        return [
            *config_warnings(self.config),
            *unused,
            *self.cut,
            *([chosen] if self.experts and strategy != "fixed" else []),
        ]

    def named(self, session: str) -> Self:
        """The same under another session id."""
        return replace(self, config=replace(self.config, session_id=session))

    def setting(self, pool: Pool, *, answered: int = 0, calls: int = 0) -> Setting:
        """The setting, with providers open. A script goes on behind the calls that were answered already; `calls` were made."""
        config, selector = self.config, None
        used = dict.fromkeys(agent.provider for agent in config.everybody)
        if self.script is not None:
            script = neutral_script(FakeProviderScript.parse(self.script))
            at = answered % len(script.entries) if script.on_exhaustion == "loop" else answered
            rest = script.entries[:at] if script.on_exhaustion == "loop" else ()
            answers = open_script(replace(script, entries=(*script.entries[at:], *rest)), FAKE)
            providers = dict.fromkeys(used, answers)
        else:
            providers = {id: pool.provider(id, self.providers[id], self.folder) for id in used if id in self.providers}
            if prices := _prices(config, pool, providers):
                providers = {id: Priced(provider, prices) for id, provider in providers.items()}
        if self.selector_script is not None:
            chosen = neutral_script(FakeProviderScript.parse(self.selector_script), for_selector=True)
            selector = open_script(chosen, FAKE)
        if self.max_calls is not None:
            allowance = Allowance(calls=self.max_calls - calls)
            providers = {id: Charged(provider, allowance) for id, provider in providers.items()}
            selector = Charged(selector, allowance) if selector else None
        if self.given_up:
            providers = {id: GivenUp(provider, self.given_up) for id, provider in providers.items()}
            selector = GivenUp(selector, self.given_up) if selector else None
        return Setting.of(
            config,
            providers=providers,
            selector=selector,
            secrets=pool.secrets,
            handlers=pool.handlers(self.tools, self.folder),
            shape=self.shape,
        )


@value
class Call:
    """What somebody wants of a session, besides what a configuration says. None leaves it to that."""

    problem: str | None = None
    config: Mapping[str, Any] | Config | None = None
    panel: Sequence[str] | None = None
    """Agents of the configuration; or `panel:NAME` alone, a panel that is written down, instead of the default one."""
    max_rounds: int | None = None
    session: str | None = None
    runs: Path | None = None
    script: Mapping[str, Any] | None = None
    selector_script: Mapping[str, Any] | None = None
    shape: MessageShape = "golden"
    producer: tuple[str, str] | None = None
    experts: Sequence[str] = ()
    ensemble: bool = False
    max_expansions: int = DEFAULT_EXPANSIONS
    caps: Mapping[str, Any] = field(default_factory=dict)
    """Members of the configuration's budget."""
    max_calls: int | None = None
    wishes: Wishes = field(default_factory=Wishes)
    """Whom to ask, and the most that this host allows to spend."""


def convening(settings: Settings, pool: Pool, call: Call) -> Convening:
    """Everything together, checked as far as it can be before a session begins. UsageError says what to write instead."""
    name, tables = flagged(call.wishes)
    if call.panel and is_panel(call.panel[0]) and call.config is None and call.problem is not None:
        call = _of_panel(settings, call, name)
    if name is not None and call.script is not None:
        raise UsageError(
            f"{call.wishes.named('script')} answers for every agent; leave out what says whom to ask instead"
        )
    if name is None and call.script is None and call.config is None:
        name = _default_provider(settings, call.wishes)
    config = _as_wished(_config(settings, call), call)
    where = recordable(settings.folder)
    if name is not None:
        config, tables = _for_all(settings, pool, config, call.wishes, name, tables, where)
    elif call.script is None:
        tables = _tables(settings, pool, config, call.wishes)
    _check_script(config, call)
    made = Convening(
        experts=checked_needs(call.experts),
        ensemble=call.ensemble,
        max_expansions=checked_cap(call.max_expansions),
        config=config,
        providers=tables,
        tools=handlers_of(settings, unhandled(config, ()), pool.seams),
        folder=where,
        runs=recordable(call.runs.absolute()) if call.runs else None,
        shape=call.shape,
        producer=dict(zip(("name", "version"), call.producer, strict=True)) if call.producer else dict(PRODUCER),
        script=_script(call.script),
        selector_script=_script(call.selector_script),
        max_calls=call.max_calls,
    )
    return within_limits(settings, pool, made, call.wishes)


def within_limits(settings: Settings, pool: Pool, made: Convening, wishes: Wishes) -> Convening:
    """What is convened, under what this host allows, and checked."""
    check_panel(made.config)
    most = allowed(settings, wishes)
    config, cut = _within(made.config, most)
    calls = min((each for each in (made.max_calls, most.max_calls) if each is not None), default=None)
    made = replace(made, config=config, cut=cut, max_calls=calls)
    # Opened now: what cannot be opened here is a mistake of usage, and its keys are known before anything is recorded.
    setting = made.setting(pool)
    if made.script is None:
        _check_prices(setting, pool, most.max_cost_usd_nano)
    made.check()
    return made


def check_folder(runs: Path) -> None:
    """UsageError where sessions cannot have their directories in here; it is made where it is not there yet."""
    if (other := session_around(runs)) is not None:
        said = f"{other} is the directory of a session, and what is added there breaks its seal"
        raise UsageError(f"sessions cannot have their directories in {runs}: {said}; name another folder")
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is no directory" if isinstance(error, FileExistsError) else error.strerror
        said = f"sessions cannot have their directories in {runs}: {why}; name another folder"
        raise unwritten(said, error) from error
    if not os.access(runs, os.W_OK | os.X_OK):
        raise UsageError(f"sessions cannot have their directories in {runs}: it is not writable; name another folder")


def _script(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if given is None else FakeProviderScript.parse(given).as_data()


def _within(config: Config, most: Budget) -> tuple[Config, tuple[str, ...]]:
    """The configuration under what this host allows, and what was cut for it."""
    limits = {
        "max_total_tokens": most.max_tokens,
        "max_total_cost_usd": None if most.max_cost_usd_nano is None else most.max_cost_usd_nano / NANO_PER_USD,
        "max_wallclock_seconds": None if most.max_seconds is None else int(most.max_seconds),
    }
    data = config.as_data()
    asked, cut = data["budget"], []
    for name, limit in limits.items():
        if limit is not None and limit < asked[name]:
            if limit < 1 and name != "max_total_cost_usd":
                raise UsageError(f"no session can be held here: the host's limit leaves it less than 1 for {name}")
            cut.append(f"{name} is {limit:,} and not {asked[name]:,}: more is not allowed here")
            asked[name] = limit
    return (Config.parse(data), tuple(cut)) if cut else (config, ())


def _check_prices(setting: Setting, pool: Pool, host_usd_nano: int | None) -> None:
    """Under a host's limit of money each model has a known price, or nobody sends a bill for it; where there is none, by
    whatever limit, none costs any."""
    broke = not in_nano(setting.config.budget.max_total_cost_usd)
    for provider, model in _asked(setting.config, setting.providers):
        if host_usd_nano is not None:
            check_price(pool, provider, model)
        if broke and costs_some(pool, provider, model):
            whose = "here: the host's limit" if host_usd_nano == 0 else "with that: max_total_cost_usd"
            raise UsageError(
                f"no session can be held {whose} leaves it no money, and {model!r} ({provider.id}) costs some"
            )


def _prices(config: Config, pool: Pool, providers: Mapping[str, Provider]) -> dict[str, Price]:
    """What the models cost that are asked, as far as it is known here, by PROVIDER:MODEL."""
    found = {
        f"{provider.id}:{model}": pool.prices.find(model)
        for provider, model in _asked(config, providers)
        if not provider.unmetered
    }
    return {asked: price for asked, price in found.items() if price is not None}


def _asked(config: Config, providers: Mapping[str, Provider]) -> Iterator[tuple[Provider, str]]:
    """Whom each agent asks for which model."""
    for agent in config.everybody:
        if provider := providers.get(agent.provider):
            yield provider, provider.describe().get("model", "") if agent.model == ITS_OWN else agent.model


def _config(settings: Settings, call: Call) -> Config:
    """The configuration as given, or the default panel; who answers for that is said by others."""
    given = call.config
    if isinstance(given, Config):
        given = given.as_data()
    if given is not None:
        data = {**given} if isinstance(given, Mapping) else given
        if call.problem is not None and isinstance(data, dict):
            data["problem_statement"] = call.problem
        return Config.parse(data)
    if call.problem is None:
        raise UsageError(
            f"there is no problem to deliberate; say what it is, or name a {call.wishes.named('config')} that has one"
        )
    personas, wanted = personas_of(settings), call.panel or ()
    _check_seats(wanted, [persona.id for persona in personas if persona.id != COORDINATOR.id], panel_names(settings))
    return default_config(call.problem, FAKE, personas=personas, guests=wanted)


def default_config(
    problem: str, provider: str, model: str = ITS_OWN, *, personas: Personas | None = None, guests: Sequence[str] = ()
) -> Config:
    """The default panel under the default caps. `guests` are there besides, and are seated by whoever names the panel."""
    known = personas or Personas()
    usual = [persona.id for persona in DEFAULT_PANEL]
    agents = [
        {"id": id, "persona_ref": _reference(known, id), "provider": provider, "model": model}
        for id in (*dict.fromkeys((*usual, *guests)), COORDINATOR.id)
    ]
    return Config.parse(
        {
            "schema_version": SCHEMA_VERSION,
            "session_id": UNNAMED,
            "originator": "user",
            "problem_statement": problem,
            "selector": {
                "strategy": "fixed",
                "default_deliberation_panel": usual,
                "coordinator_agent": COORDINATOR.id,
            },
            "agents": agents[:-1],
            "coordinator": agents[-1],
            "budget": CAPS,
            "runtime": {},
        }
    )


def _reference(personas: Personas, id: str) -> str | dict[str, Any]:
    """A persona that ships by its name, and one of the project whole: the session needs no file of it again."""
    persona = personas.get(id)
    return id if persona is None or persona in DEFAULTS else persona.as_data()


def _of_panel(settings: Settings, call: Call, chosen: str | None) -> Call:
    """A panel that is written down, put to this problem."""

    def resolve(target: str | None) -> tuple[str, str]:
        usual = FAKE if call.script is not None else target or chosen or _default_provider(settings, call.wishes)
        id, _, model = usual.partition(":")
        return id, model or str(settings.providers.get(id, {}).get("model") or ITS_OWN)

    panel, *more = call.panel or [""]
    if more:
        raise UsageError(f"{panel} is a whole panel; name it alone, and not with {', '.join(more)}")
    plan = panel_of(settings, panel)
    config = {**plan.config(resolve), "session_id": UNNAMED, "originator": "user", "problem_statement": call.problem}
    return replace(call, config=config, panel=None, ensemble=call.ensemble or plan.ensemble, max_calls=plan.max_calls)


def _default_provider(settings: Settings, wishes: Wishes) -> str:
    """Whom to ask when nobody says: what hansard.toml names, else the agent CLIs that are installed."""
    if found := usual_provider(settings):
        return found
    if _may_be_bare(CLI_AUTO, wishes) and installed(settings.environment):
        return CLI_AUTO
    raise nobody(settings, wishes)


def _as_wished(config: Config, call: Call) -> Config:
    data = config.as_data()
    if call.session is not None:
        data["session_id"] = call.session
    data["budget"] |= call.caps
    if call.max_rounds is not None:
        data["budget"]["max_rounds"] = call.max_rounds
    if call.panel is not None:
        _check_seats(call.panel, [agent.id for agent in config.agents])
        data["selector"]["default_deliberation_panel"] = list(call.panel)
    return Config.parse(data)


def _check_seats(wanted: Sequence[str], known: Sequence[str], panels: Sequence[str] = ()) -> None:
    for id in wanted:
        if id not in known:
            meant = f"; the panel of that name is called {PANEL}{id}" if id in panels else ""
            raise UsageError(f"there is no agent {id!r} for the panel; there are {', '.join(known)}{meant}")
        if wanted.count(id) > 1:
            raise UsageError(f"{id!r} stands twice on the panel; name each agent once")


def _for_all(
    settings: Settings,
    pool: Pool,
    config: Config,
    wishes: Wishes,
    name: str,
    tables: dict[str, dict[str, Any]],
    folder: str,
) -> tuple[Config, dict[str, dict[str, Any]]]:
    """The configuration with every agent on this one provider [A-33]."""
    id, _, model = name.partition(":")
    found = tables.get(id) or _table(settings, pool, id, wishes)
    if found is None:
        bare = [each for each in BARE if _may_be_bare(each, wishes)]
        known = ", ".join(dict.fromkeys((*pool.given, *settings.providers, REHEARSAL, *bare)))
        raise UsageError(f"there is no provider {name!r}; known are {known}")
    described = pool.provider(id, found, folder).describe().get("model")
    data = config.as_data()
    for agent in (*data["agents"], data["coordinator"]):
        agent["provider"] = id
        agent["model"] = model or wishes.model or wishes.api or described or ITS_OWN
    return Config.parse(data), {id: found}


def _tables(settings: Settings, pool: Pool, config: Config, wishes: Wishes) -> dict[str, dict[str, Any]]:
    """A table for each provider that the configuration names. One that nobody knows has none, and the session says so."""
    used = dict.fromkeys(agent.provider for agent in config.everybody)
    found = {id: _table(settings, pool, id, wishes) for id in used}
    return {id: table for id, table in found.items() if table is not None}


def _table(settings: Settings, pool: Pool, id: str, wishes: Wishes) -> dict[str, Any] | None:
    if id in pool.given:
        return {**pool.given[id].describe(), "kind": PYTHON_KIND}
    if id in settings.providers:
        return dict(settings.providers[id])
    if id == FAKE:
        raise UsageError(f"provider {FAKE!r} answers from a script; give it with {wishes.named('script')}")
    if id == REHEARSAL:
        return panel_rehearsal_table()
    return {"kind": id} if _may_be_bare(id, wishes) else None


def _may_be_bare(id: str, wishes: Wishes) -> bool:
    """Whether this provider can do without a table, and whoever wants it may ask it so."""
    return id in BARE and (wishes.bare is None or id in wishes.bare)


def _check_script(config: Config, call: Call) -> None:
    script, named = call.wishes.named("script"), call.wishes.named("selector_script")
    if call.script is not None and (call.experts or call.ensemble):
        raise UsageError(f"a script has no words for experts and first answers; name a provider instead of {script}")
    if call.selector_script is not None and config.selector.strategy != "llm":
        raise UsageError(f"{named} is for the llm selector, and this one is {config.selector.strategy}")
    if call.script is not None and call.selector_script is None and config.selector.strategy == "llm":
        raise UsageError(f"the llm selector has answers of its own; give them with {named}")


def given(pool: Pool, providers: Mapping[str, Provider] | Provider, config: Config) -> None:
    """Make providers known that a program hands in: by the ids of the configuration, or one for all of them."""
    if not isinstance(providers, Mapping):
        providers = dict.fromkeys((agent.provider for agent in config.everybody), providers)
    pool.hand_in(providers)
