"""From settings and flags to the configuration of a run. Says plainly what is missing when nobody can be asked."""

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from hansard.app.lanes.rosters import roster_of
from hansard.app.pool import CLI_KINDS, FLAGGED, PYTHON_KIND, Pool
from hansard.app.seams import installed
from hansard.app.settings import Settings, check_name, recordable
from hansard.app.setup.costs import allowed, check_price, costs_some
from hansard.app.setup.rehearsal import REHEARSAL, rehearsal_table
from hansard.app.setup.wishes import Wishes, flagged, words_of
from hansard.domain.budget import in_nano
from hansard.domain.fields import Fields
from hansard.domain.roster import Policy, Roster
from hansard.errors import UsageError
from hansard.ledger.entry import ACTOR
from hansard.orchestration.checks.asking import TEMPLATES as CHECK_TEMPLATES
from hansard.orchestration.checks.delivery import PROFILES
from hansard.orchestration.config import Answering, Judge, RunConfig, Tuning
from hansard.orchestration.escalate import LANE_RUNG, default_ladder
from hansard.orchestration.gates import Rule, read_rules
from hansard.orchestration.nested import is_panel
from hansard.orchestration.roles import permitted
from hansard.orchestration.seams import read_seam, read_sources
from hansard.orchestration.templates import digests
from hansard.providers.base import Provider
from hansard.providers.prices import Price
from hansard.providers.programs.environment import barred
from hansard.record.codec import MAX_TEXT

ITS_OWN = "default"
_NOBODY = """\
nobody can be asked yet. One of these lines is enough:
  --cmd "my-agent --stdin"   or   --chat-url http://127.0.0.1:11434/v1 --model llama3.2   or   --api MODEL
  {table};  hansard doctor  says what works here
  --provider rehearsal       goes through the motions with canned answers, marked as such, and asks no model"""
_NOBODY_HERE = (
    "nobody can be asked yet: no provider is configured here. Whoever runs this names one in {named}; "
    "the provider rehearsal goes through the motions with canned answers, and asks no model"
)


def nobody(settings: Settings, wishes: Wishes) -> UsageError:
    """That there is nobody to ask, and what to do about it: for whoever types flags, and for whoever has none."""
    if file := settings.config:
        table, named = f"[providers.NAME]           in {file} names one for good", f"[providers.NAME] of {file}"
    else:
        table = "hansard init               writes a hansard.toml to name providers in"
        named = "hansard.toml, which `hansard init` writes"
    return UsageError(_NOBODY.format(table=table) if wishes.typed else _NOBODY_HERE.format(named=named))


def run_config(
    settings: Settings,
    pool: Pool,
    wishes: Wishes,
    lent: Mapping[str, Provider] = MappingProxyType({}),
    *,
    mode: str | None = None,
) -> RunConfig:
    """The whole configuration of a run, checked, with what is `lent` for it alone; whom it asks, and so what needs a price, hangs on
    its `mode`, where that is known. UsageError says what is wrong and what to type.
    """
    where = str(settings.config or "hansard.toml")
    config = _wished(settings, pool, wishes, lent, where)
    if FLAGGED in (named := flagged(wishes)[1]):
        # Opened now: a mistake in a flag is told before there is a ledger, and before a server takes its first request.
        pool.provider(FLAGGED, named[FLAGGED], config.folder)
    config = _without_unasked(_with_panels(config, settings, pool), pool)
    _check_targets(config)
    _check_names(config)
    _check_rungs(config, where)
    _check_panels(config, pool)
    return replace(config, prices=_prices(config, pool, mode))


def _wished(settings: Settings, pool: Pool, wishes: Wishes, lent: Mapping[str, Provider], where: str) -> RunConfig:
    """What settings and flags say, as it is written there."""
    roster = wishes.roster or roster_of(settings)
    policy = _policy(settings, wishes, roster, where)
    run = Fields(settings.run, f"{where} [run]")
    chosen, named = flagged(wishes)
    tables = dict[str, dict[str, Any]]()
    if chosen == REHEARSAL:
        most = run.count("max_tasks", Tuning().max_tasks, least=1)
        tables[REHEARSAL] = rehearsal_table(permitted(roster, policy), most)
    tables |= {name: dict(table) for name, table in settings.providers.items()}
    tables |= {name: _described(name, provider) for name, provider in {**pool.given, **lent}.items()}
    tables |= named
    _check_chosen(tables, chosen, settings, wishes)
    # A provider that is named for this run goes before the tiers and roles of the file, and those that lanes name.
    tiers, roles = ({}, {}) if chosen else (dict(settings.tiers), dict(settings.roles))
    lanes = _asked_of_one(roster) if chosen else roster
    # Everything is read, also what a flag goes before: a key that is not read is taken for an unknown one.
    judge_intent, revise = run.flag("judge_intent"), run.flag("revise", settings.reviser is not None)
    judge: Judge = run.choice("judge", ("model", "checks"), "model")
    answer: Answering = run.choice("answer", ("synthesize", "join"), "synthesize")
    profile = run.choice("profile", tuple(PROFILES), "normal")
    profile = profile if wishes.profile is None else wishes.profile
    if profile not in PROFILES:
        raise UsageError(f"there is no profile {profile!r}; known are {', '.join(PROFILES)}")
    return RunConfig(
        default=chosen or roles.get("default") or next(iter(tiers.values()), next(iter(tables))),
        roster=lanes,
        roster_digest="" if lanes is roster else roster.digest,
        policy=policy,
        providers=tables,
        folder=recordable(settings.folder),
        tiers=tiers,
        roles=roles,
        ladder=_ladder(run, wishes, tiers, tables, chosen),
        budget=allowed(settings, wishes),
        judge=wishes.judge or judge,
        answer=wishes.answer or answer,
        tuning=_tuning(run),
        templates=digests() | {name: template.digest for name, template in CHECK_TEMPLATES.items()},
        gates=_gates(settings, wishes, roster, where),
        context=read_sources(settings.context, where, wishes.context),
        verifier=_verifier(settings, pool, wishes, where),
        reviser=_seam(settings.reviser, f"{where} [reviser]"),
        judge_intent=wishes.judge_intent or judge_intent,
        revise=wishes.revise or revise,
        profile=profile,
    )


def _check_chosen(tables: Mapping[str, Any], chosen: str | None, settings: Settings, wishes: Wishes) -> None:
    if chosen is not None and chosen.partition(":")[0] not in tables:
        raise UsageError(f"there is no provider {chosen!r}; known are {', '.join(dict.fromkeys((*tables, REHEARSAL)))}")
    if not tables:
        raise nobody(settings, wishes)


def _asked_of_one(roster: Roster) -> Roster:
    """The roster without the providers that its lanes name: one that is named for a run does all of it."""
    if not any(lane.provider for lane in roster.lanes):
        return roster
    return replace(roster, lanes=tuple(replace(lane, provider=None) for lane in roster.lanes))


def _with_panels(config: RunConfig, settings: Settings, pool: Pool) -> RunConfig:
    """The configuration with every panel that it names, whole."""
    names = [target for target in config.targets if is_panel(target)]
    if not names:
        return config
    # Most runs have none, and what deliberates takes a while to load.
    from hansard.app.setup.panels import panel_of

    tables = dict(config.providers)

    def resolve(panel: str, target: str | None) -> tuple[str, str]:
        id, _, model = (target or (ITS_OWN if is_panel(config.default) else config.default)).partition(":")
        if id in CLI_KINDS:
            tables.setdefault(id, {"kind": id})
        if id not in tables:
            raise UsageError(
                f'{panel} asks {id!r}, which is no provider that is configured; write provider = "…" there'
            )
        described = pool.provider(id, tables[id], config.folder).describe().get("model")
        return id, model or described or ITS_OWN

    panels = {name: panel_of(settings, name).as_table(partial(resolve, name)) for name in names}
    return replace(config, providers={**tables, **panels})


def _without_unasked(config: RunConfig, pool: Pool) -> RunConfig:
    """The configuration without the providers that nobody asks in this run and that cannot be opened here.

    The others stay, so that their keys are known and removed from whatever comes back.
    """
    asked = {name for target in config.targets for name, _ in _named(config, target)}

    def stays(name: str) -> bool:
        if name in asked or is_panel(name):
            return True
        try:
            pool.provider(name, config.providers[name], config.folder)
        except UsageError:
            return False
        return True

    return replace(config, providers={name: table for name, table in config.providers.items() if stays(name)})


def _policy(settings: Settings, wishes: Wishes, roster: Roster, where: str) -> Policy:
    """What the run may use of its roster. A rule about a lane that is not there would be passed over, and is refused."""
    found = wishes.policy or settings.policy
    where = "the policy" if wishes.policy else f"{where} [policy]"
    # What stands in the file may be about the file's own roster, where another one is named for this run.
    own = roster if wishes.policy else roster_of(settings)
    lanes = (*found.allow_lanes, *found.deny_lanes)
    _refuse_unknown("lane", set(lanes).difference(own.names), roster.names, roster, where)
    wanted = {*found.allow_categories, *found.deny_categories}.difference(lane.category for lane in own.lanes)
    categories = tuple(dict.fromkeys(lane.category for lane in roster.lanes))
    _refuse_unknown("category", wanted, categories, roster, where)
    if all(found.refuses(lane) for lane in roster.lanes):
        raise UsageError(f"{where}: it leaves no lane of roster {roster.name!r} to work in; allow one")
    return found if wishes.max_parallel is None else replace(found, max_parallel=wishes.max_parallel)


def _refuse_unknown(what: str, names: Iterable[str], known: Collection[str], roster: Roster, where: str) -> None:
    for name in sorted(names):
        if name not in known:
            raise UsageError(f"{where}: there is no {what} {name!r}; roster {roster.name!r} has {', '.join(known)}")


def _described(name: str, provider: Provider) -> dict[str, Any]:
    check_name(name)
    return {**provider.describe(), "kind": PYTHON_KIND}


def _ladder(
    run: Fields, wishes: Wishes, tiers: Mapping[str, str], tables: Mapping[str, Any], chosen: str | None
) -> tuple[str, ...]:
    named = run.any("ladder", None)
    if wishes.ladder is not None:
        named = list(wishes.ladder)
    elif named is None or chosen is not None:
        return default_ladder(tiers)
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise run.wrong("ladder", "a list of tiers or providers", named)
    for each in named:
        if each not in tiers and each.partition(":")[0] not in (*tables, "panel"):
            raise UsageError(f"{run.where}: ladder names {each!r}, which is neither a tier nor a provider")
    return tuple(named)


def _tuning(run: Fields) -> Tuning:
    known = {name: run.any(name) for name in Tuning.names() if run.has(name)}
    run.done()
    return Tuning.read(Fields(known, run.where))


def _gates(settings: Settings, wishes: Wishes, roster: Roster, where: str) -> tuple[Rule, ...]:
    rules = list(read_rules(settings.gates, where))
    own = roster_of(settings) if rules else roster
    for standing, row in zip(rules, settings.gates, strict=True):
        _refuse_idle(standing, row, f"{where}: gate {standing.name!r}")
        strange = set(standing.lanes).difference(own.names)
        _refuse_unknown("lane", strange, roster.names, roster, f"{where}: gate {standing.name!r}")
    for number, wish in enumerate(wishes.gates, 1):
        kind, _, name = wish.partition(":")
        named = f"asked-{number}"
        rule = Rule(name=named, plan=True) if wish == "plan" else None
        if name and kind == "task":
            rule = Rule(name=named, tasks=(name,), asked=True)
        elif name and kind == "lane":
            _refuse_unknown("lane", (name,), roster.names, roster, f"{wishes.named('gates')} {wish!r}")
            rule = Rule(name=named, lanes=(name,))
        if rule is None:
            raise UsageError(f"{wishes.named('gates')} {wish!r}: write plan, task:ID or lane:NAME")
        rules.append(rule)
    return tuple(rules)


def _refuse_idle(rule: Rule, row: Mapping[str, Any], where: str) -> None:
    """What would be passed over in silence. Refused here and not where rules are read: those of runs on the record are
    taken as they are."""
    if rule.plan and (rule.tasks or rule.lanes):
        raise UsageError(f'{where} stands before = "plan", the whole of it; give tasks and lanes a gate of their own')
    if "on_expiry" in row and rule.deadline_s is None:
        raise UsageError(f"{where} says what happens on_expiry, and has no deadline_s; give it one, or leave it out")
    if nobody := next((each for each in rule.approvers if not ACTOR.fullmatch(each)), None):
        raise UsageError(
            f"{where}: approver {nobody!r:.80} is no name that the record can have; write one like human:ann"
        )


def _verifier(settings: Settings, pool: Pool, wishes: Wishes, where: str) -> dict[str, Any] | None:
    """The verifier: `--verifier` takes a URL, the name of an entry point that is installed, or a command."""
    wish = wishes.verifier
    if wish is None:
        return _seam(settings.verifier, f"{where} [verifier]")
    if wish.startswith(("http://", "https://")):
        return {"url": wish}
    if wish in pool.seams or wish in installed("verifier"):
        return {"entry_point": wish}
    words = words_of(wish, where := wishes.named("verifier"))
    if shutil.which(words[0], path=settings.environment.get("PATH")) is None:
        none = f"there is no program {words[0]!r:.80}, and no installed package brings such a verifier"
        raise UsageError(f"{where}: {barred(words[0]) or none}")
    return {"command": words}


def _seam(table: Mapping[str, Any] | None, where: str) -> dict[str, Any] | None:
    if table is None:
        return None
    fields = Fields(table, where)
    found = read_seam(fields)
    fields.done()
    return found


def _check_targets(config: RunConfig) -> None:
    for target in config.targets:
        if target not in config.providers and target.partition(":")[0] not in config.providers:
            raise UsageError(f"the roster or the settings name {target!r}, which is no provider that is configured")


def _check_names(config: RunConfig) -> None:
    """UsageError where a name is too long for the entries of a run, which is told before there is a run."""
    named = [each for target in config.targets for each in _named(config, target)]
    models = [model or str(config.providers[name].get("model", "")) for name, model in named]
    rungs = [rung.name for lane in config.roster.lanes for rung in config.rungs(lane.name)]
    for name in (*config.targets, *models, *rungs, *(rule.name for rule in config.gates)):
        if len(name) > MAX_TEXT:
            raise UsageError(
                f"the name {name[:40]!r}… of a provider, model, tier or gate has {len(name)} characters; "
                f"the record takes {MAX_TEXT} at most"
            )


def _check_rungs(config: RunConfig, where: str) -> None:
    """UsageError where two rungs of a ladder have one name: what is rejected on the upper one would go on below it, for ever. And
    where a lane has a tier that nobody is named for, while others are: it would be done by whoever is asked elsewhere.
    """
    tiers = dict.fromkeys((*config.tiers, *config.ladder))
    for lane in config.roster.lanes:
        if tiers and lane.tier is not None and lane.tier not in tiers:
            raise UsageError(
                f"{where} [tiers]: lane {lane.name!r} of roster {config.roster.name!r} has the tier {lane.tier!r}; "
                f"known are {', '.join(tiers)}; name somebody for it there, or give the lane another"
            )
        names = [rung.name for rung in config.rungs(lane.name)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            once = "name each rung once (`tries` says how often one is tried)"
            raise UsageError(
                f"{where} [run]: the ladder of lane {lane.name!r} has {twice!r} twice; {once}, "
                f"and none {LANE_RUNG!r}, which is what the provider of a lane is called there"
            )


def _prices(config: RunConfig, pool: Pool, mode: str | None) -> dict[str, Price]:
    """Under a money budget every model that may be asked has a known price, or nobody sends a bill for it."""
    lanes = [lane.budget for lane in config.roster.lanes if lane.budget]
    if all(budget.max_cost_usd_nano is None for budget in (config.budget, *lanes)):
        return {}
    found: dict[str, Price] = {}
    for target in config.asked(mode):
        for provider, asked in _asked(config, pool, target):
            check_price(pool, provider, asked)
            price = None if provider.unmetered else pool.prices.find(asked)
            if price is not None:
                found[f"{provider.id}:{asked}" if is_panel(target) else target] = price
    return found


def _check_panels(config: RunConfig, pool: Pool) -> None:
    """A panel that may spend no money asks nobody who costs some: what a call costs is known only when it is back."""
    for panel in (target for target in config.targets if is_panel(target)):
        if in_nano(config.providers[panel]["config"]["budget"]["max_total_cost_usd"]):
            continue
        for provider, model in _asked(config, pool, panel):
            if costs_some(pool, provider, model):
                raise UsageError(f"{panel} may spend no money (max_usd = 0), and {model!r} ({provider.id}) costs some")


def _asked(config: RunConfig, pool: Pool, target: str) -> list[tuple[Provider, str]]:
    """Everybody whom a target asks, with the model."""
    named = _named(config, target)
    found = [(pool.provider(name, config.providers[name], config.folder), model) for name, model in named]
    return [(provider, model or provider.describe().get("model", "")) for provider, model in found]


def _named(config: RunConfig, target: str) -> list[tuple[str, str]]:
    """The providers behind a target by their names, with the model that it names: of a panel, whomever its agents ask."""
    if is_panel(target):
        table = config.providers[target]["config"]
        return [(agent["provider"], agent["model"]) for agent in (*table["agents"], table["coordinator"])]
    name, _, model = target.partition(":")
    return [(target, "") if target in config.providers else (name, model)]
