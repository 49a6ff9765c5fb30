"""One walk over a large SQLite ledger, done by several processes at once.

Each stretch begins from what is stored about the place where it begins. That is believed only if the stretch before it
ends in exactly that state, and if nobody found anything: otherwise there is no result, and one process walks it all.
"""

import mmap
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from tempfile import TemporaryFile
from typing import IO

from . import parallel
from .canonical import Malformed
from .entry import parse
from .events import Event
from .merkle import leaf_hash
from .report import Findings
from .sources.base import Source, State
from .sources.sqlite import SqliteSource
from .tools import Tools
from .walk import START, WIDTH, Tally, Walk

WORTH_IT = 20_000
_SLOT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one process saw of its part of the log, when all was well there."""

    start: State
    end: State
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How every stretch is to be walked."""

    start: State
    size: int
    jobs: int
    deep: bool
    tools: Tools
    wanted: tuple[int, ...]

    def bounds(self) -> list[tuple[int, int | None]]:
        """The parts, as [start, stop), cut where blocks end."""
        share = -(-(self.size - self.start.size) // self.jobs)
        cuts = [-(-(self.start.size + share * part) // WIDTH) * WIDTH for part in range(1, self.jobs)]
        inner = sorted({cut for cut in cuts if self.start.size < cut < self.size})
        return list(zip([self.start.size, *inner], [*inner, None], strict=True))


def jobs_for(source: Source, asked: int | None) -> int:
    """How many processes to use: as asked, or all processors when the ledger is large enough to repay them."""
    if not isinstance(source, SqliteSource) or not parallel.available():
        return 1
    if asked is not None:
        return asked
    return parallel.processors() if source.entries >= WORTH_IT else 1


def state_at(source: Source, size: int) -> State:
    """Where a walk would stand at this size, by what is stored; Malformed when that cannot be had."""
    if size == 0:
        return START
    frontier = source.frontier(size)
    line = next(source.pick([size - 1]))[1]
    if line is None:
        raise Malformed(f"there is no entry {size - 1}")
    return State(size=size, leaf=leaf_hash(line).hex(), ts=parse(line).ts, frontier=frontier)


def walk_split(
    source: SqliteSource, plan: Plan, tell: Callable[[Event], None], progress: Callable[[int], None] | None
) -> tuple[State, Tally] | None:
    """Where the log ends and what was counted, container checked and all events told in order.

    None when anything at all is not as it should be; nothing was told then.
    """
    with ExitStack() as files:
        try:
            # A longer log tells more, so events go through files: neither side ever holds them all.
            told = [files.enter_context(TemporaryFile()) for _ in plan.bounds()]
        except OSError:
            return None
        stretches = _walk_all(source, plan, told, progress)
        if stretches is None:
            return None
        tally = Tally()
        for stretch, events in zip(stretches, told, strict=True):
            tally.add(stretch.tally)
            for event in _read(events):
                tell(event)
    return stretches[-1].end, tally


def _walk_all(
    source: SqliteSource, plan: Plan, told: Sequence[IO[bytes]], progress: Callable[[int], None] | None
) -> list[Stretch] | None:
    bounds = plan.bounds()
    with mmap.mmap(-1, _SLOT * len(bounds)) as board:
        tasks: list[Callable[[], object]] = [partial(_examine, source, plan)]
        tasks += [partial(_walk, source, plan, board, slot, part, told[slot]) for slot, part in enumerate(bounds)]

        def waiting() -> None:
            if progress:
                done = (int.from_bytes(board[at : at + _SLOT], "little") for at in range(0, len(board), _SLOT))
                progress(plan.start.size + sum(done))

        results = parallel.run(tasks, waiting)
    if results is None or results[0] is not True or None in results:
        return None
    stretches: list[Stretch] = results[1:]
    joined = all(before.end.same(after.start) for before, after in pairwise(stretches))
    return stretches if joined else None


def _examine(source: SqliteSource, plan: Plan) -> bool:
    findings = Findings()
    source.reopened(findings).examine(plan.deep, plan.start.size)
    return not findings


def _walk(
    source: SqliteSource, plan: Plan, board: mmap.mmap, slot: int, part: tuple[int, int | None], told: IO[bytes]
) -> Stretch | None:
    begin, stop = part
    findings = Findings()
    mine = source.reopened(findings)

    def tell(event: Event) -> None:
        pickle.dump(event, told)

    def progress(size: int) -> None:
        board[slot * _SLOT : (slot + 1) * _SLOT] = (size - begin).to_bytes(_SLOT, "little")

    try:
        start = plan.start if slot == 0 else state_at(mine, begin)
        wanted = [size for size in plan.wanted if begin < size + (slot == 0) and (stop is None or size <= stop)]
        walk = Walk(mine, findings, tell, tools=plan.tools, deep=plan.deep, wanted=wanted, progress=progress)
        end = walk.run(start, stop, first=slot == 0)
    except Malformed:
        return None
    told.flush()
    return None if findings else Stretch(start=start, end=end, tally=walk.tally)


def _read(told: IO[bytes]) -> Iterator[Event]:
    end = told.seek(0, os.SEEK_END)
    told.seek(0)
    while told.tell() < end:
        yield pickle.load(told)
