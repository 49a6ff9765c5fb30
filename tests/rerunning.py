"""Runs again, for the tests: what is run, how it is cut, and what it comes to."""

import asyncio
from dataclasses import replace
from typing import Any

from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.orchestration.gates import read_rules
from hansard.orchestration.seams import Verification
from hansard.store.base import Store
from panels import PANELS, Voice, Voices
from running import (
    POOR,
    Answers,
    Desk,
    Ledger,
    Said,
    desk,
    obliging,
    plan,
    roster,
    task,
    who,
)

DIAMOND = plan(task("a"), task("b", "a", lane="beta"), task("c", "a"), task("d", "b", "c"))


async def again(at: Desk, run: str, **swap: str) -> dict[str, Any]:
    return await at.runs.rerun(run, swap)


async def comes_out_the_same(at: Desk, run: str, *when: object) -> dict[str, Any]:
    """Every decision of a run, from the record alone; gives the report."""
    report = await again(at, run)
    assert report["identical"] is True, (*when, report)
    return report


async def comes_out_the_same_wherever_it_ends(ledger: Store, run: str, *, first: int = 3) -> None:
    """The same of each record that ends behind one of its commits, from the one of this number on."""
    assert isinstance(ledger, Ledger)
    for commits in range(first, len(ledger.commits) + 1):
        await comes_out_the_same(desk(store=ledger.until(commits)), run, commits)


async def gated(at: Desk, *rules: dict[str, Any], wishes: Wishes | None = None, work: Any = DIAMOND) -> str:
    """A run with these gates."""
    config = replace(at.config(wishes), gates=read_rules(list(rules), "test"))
    return await at.runs.submit("please", config, plan=work)


def picky(exchange: Exchange) -> Said:
    """Rejects what the first rung makes of b, and answers badly formed once."""
    role, about, attempt = who(exchange)
    if role == "validator" and about == "b" and exchange.metadata["turn"] == 1:
        return "I would rather not say"
    if role == "validator" and about == "b" and attempt == 1:
        return POOR
    return obliging(exchange)


def before_a_panel(voice: Voice, panel: Any = None, **settings: Any) -> Desk:
    """A desk whose lane alpha is a panel's."""
    bench = {**PANELS["bench"], **(panel or {})}
    return desk(Answers(), Voices(voice), settings={"panels": {"bench": bench}, **settings})


IN_PANEL = Wishes(roster=roster(alpha={"provider": "panel:bench"}))


def with_provider(at: Desk, name: str) -> Settings:
    settings = replace(at.settings, providers={name: {"kind": "python"}})
    at.pool.settings = settings
    return settings


def wordy(exchange: Exchange) -> Said:
    """Asks for everybody: the first plan and the first verdict have to be corrected, the answer is flagged."""
    role, _, _ = who(exchange)
    if role in ("coordinator", "validator") and exchange.metadata["turn"] == 1:
        return "I would rather not say"
    long = "It is worth noting that, all things considered, the login is slow because the index is missing. " * 6
    return long if role == "synthesizer" else obliging(exchange)


class Slow:
    """Everybody does what is asked, but whoever is asked for `stuck` does not come back until `free`."""

    def __init__(self, *stuck: tuple[str, str]) -> None:
        self.stuck, self.reached, self.free = stuck, asyncio.Event(), False

    async def __call__(self, exchange: Exchange) -> Said:
        if who(exchange)[:2] in self.stuck and not self.free:
            self.reached.set()
            await asyncio.sleep(60)
        return picky(exchange)


async def cut(at: Desk, slow: Slow, how: str, **wishes: Any) -> str:
    """A run that was cut at what is slow; gives its id."""
    wanted = Wishes(ladder=("told", "told:better"), max_seconds=1.5 if how == "deadline" else None, **wishes)
    run = await at.submit(plan=DIAMOND, wishes=wanted)
    driving = asyncio.ensure_future(at.runs.drive(run))
    await slow.reached.wait()
    # Whoever works beside it comes to his end meanwhile.
    await asyncio.sleep(0.2)
    if how == "cancelled":
        await at.runs.cancel(run)
    elif how == "interrupted":
        driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert at.runs.show(run)["state"] == ("stopped" if how == "deadline" else how)
    return run


class Library:
    """A context source, a verifier and a reviser that a program hands in."""

    def __init__(self) -> None:
        self.asked = 0

    async def context(self, request: str, task: str | None) -> str:
        self.asked += 1
        return f"what is known about {task or 'the request'}"

    async def verify(self, request: str, answer: str) -> Verification | None:
        self.asked += 1
        return Verification(outcome="refused", detail="I looked it up")
