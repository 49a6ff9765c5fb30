"""Which progress is shown, if any: live with rich, plain lines without, nothing where nobody looks. All of it on standard error."""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

from hansard.surfaces.cli.board import Board
from hansard.surfaces.hearing import Event, Nobody, Watcher
from hansard.surfaces.narrate import line

if TYPE_CHECKING:
    from hansard.surfaces.cli.live import Screen

TICK_S = 0.1


class Lines(Nobody):
    """Plain lines with the time since the first of them."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._began_us: int | None = None
        self._to = to or sys.stderr

    def take(self, event: Event) -> None:
        self._began_us = event.ts if self._began_us is None else self._began_us
        told = line(event)
        if told is not None:
            print(f"{(event.ts - self._began_us) / 1e6:7.1f} s  {told}", file=self._to, flush=True)


class Drawn:
    """A live screen."""

    def __init__(self, screen: "Screen") -> None:
        self._screen, self._board = screen, Board()

    def take(self, event: Event) -> None:
        self._board.take(event)

    def tick(self) -> None:
        if self._board.run:
            self._screen.draw(self._board)

    def close(self) -> None:
        self._screen.close(self._board)


def watcher(args: argparse.Namespace) -> Watcher:
    """Who is told, by what was asked for and where standard error goes."""
    wanted = "none" if args.quiet else args.progress
    if wanted == "plain":
        return Lines()
    if wanted == "none" or not sys.stderr.isatty():
        return Nobody()
    screen = _screen()
    return Drawn(screen) if screen else Lines()


def _screen() -> "Screen | None":
    if os.environ.get("TERM") == "dumb" or "utf" not in (sys.stderr.encoding or "").lower():
        return None
    try:
        from hansard.surfaces.cli.live import Screen
    except ImportError:
        return None
    return Screen()


@asynccontextmanager
async def ticking(watching: Watcher) -> AsyncIterator[None]:
    """Keep the picture moving, on this loop and in no other thread."""

    async def tick() -> None:
        while True:
            watching.tick()
            await asyncio.sleep(TICK_S)

    task = asyncio.ensure_future(tick())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        watching.close()
