"""`hansard worker`: a process that drives what is submitted with --detach, and goes on with what was cut short."""

import argparse
import asyncio
import sys

from hansard.app.service import Hansard
from hansard.app.serving.worker import Worker
from hansard.app.settings import read_settings
from hansard.surfaces.cli.driving import see_through
from hansard.surfaces.cli.show import as_json_line
from hansard.surfaces.plain import plain

THREADS = 4
"""Who reads, and keeps the claim, beside the event loop."""


def worker(args: argparse.Namespace) -> int:
    asyncio.run(_work(args))
    return 0


async def _work(args: argparse.Namespace) -> None:
    def tell(text: str) -> None:
        if args.json:
            as_json_line({"said": text})
        elif not args.quiet:
            print(f"hansard worker: {plain(text)}", file=sys.stderr, flush=True)

    async with Hansard.open(settings=read_settings(args.ledger)) as hansard:
        hansard.stay(THREADS)
        await see_through(hansard, Worker(hansard, most=args.max_runs, tell=tell).work())
        tell("stopped; what was under way is on the record, and goes on with the next worker")
