"""Everything that decides how a run goes, fixed before its first step and recorded whole: the snapshot that resume reads.

No secrets: providers are tables as hansard.toml has them, and name the variables in which their keys are.
"""

import json
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Literal, Self

from hansard.domain.budget import Budget
from hansard.domain.fields import MOST, Fields
from hansard.domain.roster import Policy, Roster, parse_policy, parse_roster
from hansard.domain.value import value
from hansard.errors import StoreError, UsageError
from hansard.orchestration.escalate import Rung, default_ladder, ladder_of
from hansard.orchestration.gates import Rule, read_rules
from hansard.providers.prices import Price

Judge = Literal["model", "checks"]
Answering = Literal["synthesize", "join"]

PLANNERS: Mapping[str, tuple[str, ...]] = {
    "request": ("coordinator",),
    "single": ("classifier",),
    "plan": (),
    "plan_only": ("coordinator",),
}
"""The roles that make the plan, by the mode of a run; `plan` is one that somebody brings, or a lane that he names."""
ROUTER_READS = ("vocabulary", "examples")


@value
class Tuning:
    """The numbers of a run. Characters bound what enters a prompt; the record keeps everything."""

    timeout_s: float = 600.0
    retries: int = 2
    restarts: int = 3
    tries: int = 1
    corrections: int = 2
    upstream_chars: int = 8_192
    answer_chars: int = 100_000
    max_tasks: int = 50
    max_output_tokens: int | None = None

    @classmethod
    def names(cls) -> list[str]:
        return [each.name for each in fields(cls)]

    @classmethod
    def read(cls, table: Fields) -> Self:
        tuning = cls(
            timeout_s=_seconds(table),
            retries=table.count("retries", 2),
            restarts=table.count("restarts", 3),
            tries=table.count("tries", 1, least=1),
            corrections=table.count("corrections", 2),
            upstream_chars=table.count("upstream_chars", 8_192, least=1),
            answer_chars=table.count("answer_chars", 100_000, least=1),
            max_tasks=table.count("max_tasks", 50, least=1),
            max_output_tokens=table.count("max_output_tokens", least=1) if table.has("max_output_tokens") else None,
        )
        table.done()
        return tuning

    def as_data(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in self.names()}
        return {name: number for name, number in data.items() if number is not None}


@value
class RunConfig:
    """The configuration of one run. `default` is the provider of whatever names none."""

    default: str
    roster: Roster = field(default_factory=Roster.default)
    roster_digest: str = ""
    policy: Policy = field(default_factory=Policy)
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    folder: str = ""
    tiers: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    ladder: tuple[str, ...] = ()
    budget: Budget = field(default_factory=Budget)
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Under a limit of money: what everybody costs who may be asked and sends a bill. A panel's agents by PROVIDER:MODEL."""
    judge: Judge = "model"
    answer: Answering = "synthesize"
    tuning: Tuning = field(default_factory=Tuning)
    templates: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[Rule, ...] = ()
    context: tuple[Mapping[str, Any], ...] = ()
    verifier: Mapping[str, Any] | None = None
    reviser: Mapping[str, Any] | None = None
    judge_intent: bool = False
    revise: bool = False
    profile: str = "normal"

    def rungs(self, lane: str) -> tuple[Rung, ...]:
        """The ladder of a lane."""
        found = self.roster.lane(lane)
        if found is None:
            raise UsageError(f"there is no lane {lane!r} in roster {self.roster.name!r}")
        return ladder_of(found, self.tiers, self.ladder or default_ladder(self.tiers), self.default)

    def role(self, role: str) -> str:
        """Who plays a control role: the one that is named, else the capable tier, else the default."""
        return self.roles.get(role) or self.tiers.get("capable") or self.tiers.get("frontier") or self.default

    @property
    def targets(self) -> tuple[str, ...]:
        """Everybody whom the configuration names for something, whether it comes to that or not."""
        found = [rung.target for lane in self.roster.lanes for rung in self.rungs(lane.name)]
        found += [self.role(role) for role in ("coordinator", "classifier", "validator", "synthesizer")]
        found += [self.role("intent_judge")] if self.judge_intent else []
        found += [self.role("reviser")] if self.revise else []
        return tuple(dict.fromkeys(found))

    def asked(self, mode: str | None = None) -> tuple[str, ...]:
        """Everybody who may be asked in a run of this mode, or, where nobody says yet what makes the plan, of any."""
        if mode is None:
            return tuple(dict.fromkeys(target for each in PLANNERS for target in self.asked(each)))
        roles = [*PLANNERS[mode]]
        if mode == "plan_only":
            return tuple(self.role(role) for role in roles)
        lanes = [lane.name for lane in self.roster.lanes if not self.policy.refuses(lane)]
        roles += ["validator"] if self.judge == "model" else []
        if self.answer == "synthesize":
            roles += ["synthesizer"]
            roles += ["intent_judge"] if self.judge_intent else []
            # A reviser that is plugged in is asked in its place.
            roles += ["reviser"] if self.revise and self.reviser is None else []
        found = [rung.target for lane in lanes for rung in self.rungs(lane)]
        return tuple(dict.fromkeys((*found, *map(self.role, roles))))

    def as_data(self) -> dict[str, Any]:
        return {
            "default": self.default,
            "roster": _slim(self.roster),
            "roster_digest": self.roster_digest or self.roster.digest,
            "policy": self.policy.as_data(),
            "providers": {name: dict(table) for name, table in self.providers.items()},
            "folder": self.folder,
            "tiers": dict(self.tiers),
            "roles": dict(self.roles),
            "ladder": list(self.ladder),
            "budget": budget_data(self.budget),
            "prices": {target: price.as_data() for target, price in self.prices.items()},
            "judge": self.judge,
            "answer": self.answer,
            "tuning": self.tuning.as_data(),
            "templates": dict(self.templates),
            "gates": [rule.as_data() for rule in self.gates],
            "context": [dict(table) for table in self.context],
            "verifier": self.verifier,
            "reviser": self.reviser,
            "judge_intent": self.judge_intent,
            "revise": self.revise,
            "profile": self.profile,
        }

    def to_json(self) -> bytes:
        return json.dumps(self.as_data(), ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Self:
        """The snapshot read back. StoreError when it is not one."""
        try:
            table = json.loads(data)
            fields = Fields(table, where)
            return cls(
                default=fields.text("default"),
                roster=parse_roster(fields.table("roster"), where),
                roster_digest=fields.text("roster_digest"),
                policy=parse_policy(fields.table("policy"), where),
                providers=dict(fields.table("providers")),
                folder=fields.text("folder"),
                tiers=dict(fields.table("tiers")),
                roles=dict(fields.table("roles")),
                ladder=tuple(fields.any("ladder", [])),
                budget=read_budget(Fields(fields.table("budget"), where)),
                prices={target: _price(Fields(table, where)) for target, table in fields.table("prices").items()},
                judge=fields.choice("judge", ("model", "checks"), "model"),
                answer=fields.choice("answer", ("synthesize", "join"), "synthesize"),
                tuning=Tuning.read(Fields(fields.table("tuning"), where)),
                templates=dict(fields.table("templates")),
                gates=read_rules(fields.any("gates", []), where, recorded=True),
                context=tuple(fields.any("context", [])),
                verifier=fields.any("verifier"),
                reviser=fields.any("reviser"),
                judge_intent=fields.flag("judge_intent"),
                revise=fields.flag("revise"),
                profile=fields.text("profile", "normal"),
            )
        except (ValueError, TypeError, RecursionError, UsageError) as error:
            raise StoreError(f"{where} holds no configuration that this version can read: {error}") from error


def _seconds(table: Fields) -> float:
    """What one call may take. No time at all would end every call before it is made."""
    found = table.number("timeout_s", 600.0)
    if not found:
        raise table.wrong("timeout_s", "a number of seconds above 0", found)
    return found


def _slim(roster: Roster) -> dict[str, Any]:
    """The roster without what only the router reads: its decision is recorded, and the digest covers the whole."""
    data = roster.as_data()
    data["lane"] = [{key: lane[key] for key in lane if key not in ROUTER_READS} for lane in data["lane"]]
    return data


def _price(fields: Fields) -> Price:
    cached = fields.count("cached") if fields.any("cached") is not None else None
    return Price(input=fields.count("input"), output=fields.count("output"), cached=cached)


def read_budget(fields: Fields) -> Budget:
    """A budget from a table with max_calls, max_tokens, max_cost_usd_nano, max_seconds; what is absent has no limit."""

    def count(name: str) -> int | None:
        return fields.count(name) if fields.has(name) else None

    seconds = fields.number("max_seconds") if fields.has("max_seconds") else None
    if seconds is not None and seconds > MOST:
        raise fields.wrong("max_seconds", f"a number from 0 to {MOST:,}", seconds)
    budget = Budget(
        max_calls=count("max_calls"),
        max_tokens=count("max_tokens"),
        max_cost_usd_nano=count("max_cost_usd_nano"),
        max_seconds=seconds,
    )
    fields.done()
    return budget


def budget_data(budget: Budget) -> dict[str, int | float]:
    data = {name: getattr(budget, name) for name in ("max_calls", "max_tokens", "max_cost_usd_nano", "max_seconds")}
    return {name: value for name, value in data.items() if value is not None}
