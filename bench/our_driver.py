"""Our side as it is installed: through the service and recorder.record, with sealing, in a fresh process."""

import asyncio
import shutil
import sqlite3
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.measure import Answer, Asked, attempt, serve, syncs, timed, timed_often

RUN = "run-1"
ACTOR = "engine"
COMMIT = 256
ONE_AT_A_TIME = 50


def versions(_: Asked) -> Answer:
    """What is at work on our side."""
    from hansard.__about__ import __version__

    found = {"hansard": __version__, "Python": sys.version.split()[0], "SQLite": sqlite3.sqlite_version}
    for library in ("orjson", "cryptography"):
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found


def append(asked: Asked) -> Answer:
    """Facts through recorder.record, each awaited by one of so many writers, until all are recorded or the time is over."""
    if not asked.get("orjson", True):
        # To an import this looks as if the library were not installed.
        vars(sys)["modules"]["orjson"] = None
    return asyncio.run(_append(asked))


async def _append(asked: Asked) -> Answer:
    from hansard.app.service import Hansard

    async with Hansard.open(settings=settings_for(asked["ledger"])) as hansard:
        claim, cause = hansard.claim(RUN), await _first(hansard)
        facts = _facts(0, asked["count"])
        commits = count_commits(hansard.store)
        answer: Answer = {}
        with timed(answer):
            answer["count"] = await _write(hansard, facts, asked["writers"], claim, cause, asked["limit_s"])
        return answer | {"commits": len(commits)}


async def _first(hansard: Any) -> Any:
    """The entry that causes the others; it also starts the writer, so that starting is not measured."""
    from hansard.domain.fact import Body
    from hansard.domain.work import RunRequested

    fact = RunRequested(mode="request", surface="python", request=Body.text("the cause of all others"))
    return await hansard.recorder.record(fact, actor=ACTOR, run=RUN)


async def _write(hansard: Any, facts: Sequence[Any], writers: int, claim: Any, cause: Any, limit_s: float) -> int:
    queue, until, record, done = iter(facts), time.perf_counter() + limit_s, hansard.recorder.record, 0

    async def writer() -> None:
        nonlocal done
        for fact in queue:
            await record(fact, actor=ACTOR, run=RUN, causes=(cause,), claim=claim)
            done += 1
            if time.perf_counter() > until:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(writer())
    return done


def count_syncs(asked: Asked) -> Answer:
    """fdatasync calls of single appends between two WAL checkpoints, and commits of many writers; needs the shim."""
    return asyncio.run(_count_syncs(asked))


async def _count_syncs(asked: Asked) -> Answer:
    from hansard.app.service import Hansard

    async with Hansard.open(settings=settings_for(asked["ledger"])) as hansard:
        claim, cause = hansard.claim(RUN), await _first(hansard)
        facts = _facts(0, asked["count"])
        before = syncs()
        await _write(hansard, facts[:ONE_AT_A_TIME], 1, claim, cause, asked["limit_s"])
        single = sum(syncs()) - sum(before)
        commits, before = count_commits(hansard.store), syncs()
        done = await _write(hansard, facts[ONE_AT_A_TIME:], asked["writers"], claim, cause, asked["limit_s"])
        return {
            "singles": ONE_AT_A_TIME,
            "single_syncs": single,
            "count": done,
            "commits": len(commits),
            "syncs": sum(syncs()) - sum(before),
        }


def count_commits(store: Any) -> list[int]:
    """From here on every append of the store leaves a mark, and each is one commit."""
    commits: list[int] = []
    inner = store.append

    def counted(groups: Any, seal: Any = None) -> Any:
        commits.append(len(groups))
        return inner(groups, seal)

    vars(store)["append"] = counted
    return commits


def build(asked: Asked) -> Answer:
    """One signed ledger for each size, each a copy of the one before with more entries behind it."""
    made: Path | None = None
    for size, place in asked["ledgers"]:
        if made:
            shutil.copytree(made, Path(place).parent)
        made = Path(place).parent
        _fill(place, size)
    return {}


def _fill(place: str, size: int) -> None:
    from hansard.app.wiring import open_or_found
    from hansard.record.draft import Drafter
    from hansard.record.encoder import fastest

    opened = open_or_found(settings_for(place))
    store, sealer, drafter = opened.store, opened.sealer, Drafter(fastest())
    claim = store.claim(RUN, 15)
    fence = (claim.name, claim.epoch)
    while (start := store.head().size) < size:
        facts = _facts(start, min(start + COMMIT, size))
        groups = [(drafter.draft(fact, actor=ACTOR, run=RUN, causes=(0,), fence=fence),) for fact in facts]
        store.append(groups, sealer.seal() if sealer else None)
        if sealer:
            sealer.committed()
    store.release(claim)
    opened.close()


def verify(asked: Asked) -> Answer:
    """As `hansard verify` does it: the fastest tools at hand, both cores."""
    from hansard.app.ledgers.verifying import tools
    from hansard.ledger.verify import Options
    from hansard.ledger.verify import verify as verify_ledger

    options, answer = Options(deep=asked["deep"], jobs=asked["jobs"]), {"count": 1}
    lent = tools()
    with timed(answer):
        report = verify_ledger(asked["ledger"], options, lent)
    if not report.ok:
        raise SystemExit(f"{report.verdict}: {report.first_bad}")
    return answer


def open_only(asked: Asked) -> Answer:
    """Open a ledger for reading."""
    from hansard.app.wiring import open_ledger

    settings, answer = settings_for(asked["ledger"]), {"count": 1}
    # The modules of the store are loaded when the first ledger is opened; loading them is not opening.
    open_ledger(settings_for(asked["warm"])).close()
    with timed(answer):
        opened = open_ledger(settings)
    opened.close()
    return answer


def checkpoint(asked: Asked) -> Answer:
    """Head, root and both signatures, as a sealer makes them; what is left out is the durable write."""
    from hansard.app.wiring import open_ledger
    from hansard.record.epochs import read_keys
    from hansard.seal.keys import KeyRing
    from hansard.seal.signing import sign_checkpoint

    settings = settings_for(asked["ledger"])
    opened = open_ledger(settings)
    store, genesis = opened.store, opened.store.entry(0).data
    ring = KeyRing.open(settings.log_folder(genesis["nonce"]), genesis["origin"])
    epoch_key = ring.epoch(read_keys(store).epoch.number)
    if epoch_key is None:
        raise SystemExit("the epoch key in force is not there")
    keys = (ring.identity, epoch_key)

    def make() -> None:
        head = store.head()
        sign_checkpoint(genesis["origin"], head.size, head.root, keys)

    answer = timed_often(make, asked["times"])
    opened.close()
    return answer


def receipt(asked: Asked) -> Answer:
    """Write the receipt of one entry with its body disclosed."""
    from hansard.app.wiring import open_ledger
    from hansard.record.receipts import make_receipt

    opened, answer = open_ledger(settings_for(asked["ledger"])), {"count": 1}
    with timed(answer):
        made = make_receipt(opened.store, asked["seq"], ("prompt",))
    opened.close()
    Path(asked["receipt"]).write_text(made, "utf-8")
    return answer


def zip_verifier(asked: Asked) -> Answer:
    """The verifier as one file, as an export carries it."""
    from hansard.record.verifier_archive import archive

    Path(asked["place"]).write_bytes(archive())
    return {}


def settings_for(place: str, **more: Any) -> Any:
    from hansard.app.settings import Settings

    folder = Path(place).parent if place != "memory:" else Path.cwd()
    return Settings(ledger=place, state=folder / "state", **more)


def _facts(start: int, stop: int) -> list[Any]:
    """Facts as a run writes them."""
    from hansard.domain.fact import Body
    from hansard.domain.work import TaskAttempted

    given = [attempt(each) for each in range(start, stop)]
    return [TaskAttempted(**(each | {"prompt": Body.text(each["prompt"])})) for each in given]


if __name__ == "__main__":
    from hansard.surfaces.cli.main import collect_seldom

    # As in every process of ours.
    collect_seldom()
    serve(
        {
            "versions": versions,
            "append": append,
            "syncs": count_syncs,
            "build": build,
            "verify": verify,
            "open": open_only,
            "checkpoint": checkpoint,
            "receipt": receipt,
            "zip": zip_verifier,
        }
    )
