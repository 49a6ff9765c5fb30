"""`hansard mcp`: the Model Context Protocol on standard input and output. Whatever is said to people goes to standard error."""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from hansard.app.pool import Pool
from hansard.app.service import Hansard
from hansard.app.settings import read_settings, recordable
from hansard.app.setup.configuring import run_config
from hansard.app.setup.costs import allowed
from hansard.app.setup.wishes import flagged
from hansard.errors import MissingExtra, UsageError
from hansard.surfaces.cli.submit import wishes
from hansard.surfaces.leaving import when_told_to_end
from hansard.surfaces.mcp import MISSING
from hansard.surfaces.mcp.desk import Desk


def mcp(args: argparse.Namespace) -> int:
    try:
        from hansard.surfaces.mcp import stdio
    except ModuleNotFoundError as error:
        raise MissingExtra(f"hansard mcp needs {error.name}: {MISSING}") from error
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="hansard mcp: %(name)s: %(message)s")

    folder = Path(args.folder) if args.folder else None
    if folder and not folder.is_dir():
        raise UsageError(f"--folder {folder}: there is no such folder")
    settings, wished = read_settings(args.ledger), wishes(args)
    recordable(settings.folder)
    # Before the ledger is opened: whoever names somebody that cannot be asked, or a limit that is none, should hear of it now.
    allowed(settings, wished)
    if flagged(wished)[0] is not None:
        run_config(settings, Pool(settings), wished)

    async def serve(source: int, target: int) -> None:
        async with Hansard.open(settings=settings) as hansard:
            # Whoever stays seals: others leave it to him, and he may have nothing to record for days.
            hansard.recorder.seal_soon()
            desk = Desk.of(
                hansard,
                wishes=wished,
                gates=args.allow_gates,
                commands=args.allow_commands,
                folder=folder,
            )
            await _until_stopped(desk, asyncio.ensure_future(stdio.serve(desk, source, target)))

    with stdio.wire() as (source, target):
        asyncio.run(serve(source, target))
    return 0


async def _until_stopped(desk: Desk, serving: "asyncio.Future[None]") -> None:
    """Serve until the client leaves, or a signal comes; what is under way then is interrupted, and can go on."""
    told = asyncio.Event()

    def stop() -> None:
        # First of all: a call that ends with us is no call that its client cancelled.
        desk.closing = True
        told.set()
        serving.cancel()

    when_told_to_end(stop, desk.hansard.store.place)
    try:
        await asyncio.wait([serving])
        error = None if serving.cancelled() else serving.exception()
        # What comes in while it is being stopped finds a wire that is cut.
        if error and not told.is_set():
            raise error
    finally:
        await desk.close()
