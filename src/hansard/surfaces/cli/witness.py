"""`hansard witness`: cosigns the logs of others; `hansard ledger witness`: has our own cosigned."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hansard.app.ledgers.witness import Service, key_text, witness_folder
from hansard.app.settings import Settings, ledger_settings, read_settings, state_folder
from hansard.app.wiring import open_ledger
from hansard.errors import HansardError, StoreError, UsageError
from hansard.surfaces.cli.output import new_file, refuse_dash
from hansard.surfaces.cli.show import as_json, as_json_line, put, say
from hansard.surfaces.plain import plain

if TYPE_CHECKING:
    from hansard.app.ledgers.cosigning import Asked


def serve(args: argparse.Namespace) -> int:
    from hansard.surfaces.witness import serve as run

    service = _service(args)

    def ready(address: str) -> None:
        if args.json:
            as_json_line({"listening": address, "key": service.key})
        else:
            say(f"hansard witness: {address}, key {service.key}", at_once=True)

    run(service, args.host, args.port, ready)
    return 0


def key(args: argparse.Namespace) -> int:
    found = _service(args).key
    if args.json:
        as_json({"key": found})
    else:
        put(f"{found}\n".encode())
    return 0


def trust(args: argparse.Namespace) -> int:
    view = _service(args).trust(args.pin)
    if args.json:
        as_json(view)
    else:
        say(f"{view['origin']} is known here" + (f", cosigned to size {view['size']}" if view["size"] else ""))
    return 0


def logs(args: argparse.Namespace) -> int:
    views = _service(args).logs()
    if args.json:
        as_json(views)
        return 0
    for view in views:
        size = view["size"]
        say(f"{view['origin']:<40} {'nothing yet' if size is None else f'size {size:,}'}")
    return 0


def ask(args: argparse.Namespace) -> int:
    """Every witness that is named, or all of hansard.toml; whose word is not had is told when all were asked."""
    from hansard.app.ledgers.cosigning import have_cosigned, shown

    settings, witnesses = _asked(args)
    views, failed = [], []
    with open_ledger(settings, writing=True) as opened:
        stored = shown(opened)
        for witness in witnesses:
            try:
                views.append(have_cosigned(opened, witness, stored))
            except HansardError as error:
                failed.append(error)
    if args.output and views:
        new_file(args.output, views[0]["checkpoint"])
    if args.json:
        as_json(views)
    else:
        for view in views:
            say(f"{view['witness']} saw size {view['size']:,}; recorded as entry {view['entry']}")
    if failed:
        # What a witness contradicts weighs more than one that is away: it is told last, and decides the exit code.
        *others, last = sorted(
            failed, key=lambda each: (isinstance(each, StoreError), not isinstance(each, UsageError))
        )
        for other in others:
            print(f"hansard: {plain(str(other))}", file=sys.stderr)
        raise last
    return 0


def _asked(args: argparse.Namespace) -> "tuple[Settings, list[Asked]]":
    """The ledger that is to be cosigned, and by whom."""
    from hansard.app.ledgers.cosigning import Asked, configured

    if (args.url is None) != (args.key is None):
        raise UsageError("a witness is a URL and the key that its word is checked with: URL --key KEY")
    if args.url is not None:
        settings, witnesses = ledger_settings(args.ledger), [Asked.of(args.url, key_text(args.key), args.url)]
    else:
        settings = read_settings(args.ledger)
        witnesses = list(configured(settings.witnesses).values())
    if not witnesses:
        raise UsageError(
            "no witness is configured; write [witnesses.NAME] with url and key into hansard.toml, or name one here"
        )
    if args.output and len(witnesses) > 1:
        raise UsageError("--output takes the word of one witness; name its URL and --key")
    # Told before anything is recorded.
    refuse_dash(args.output)
    if args.output and os.path.lexists(args.output):
        raise UsageError(f"{args.output} is there already; choose another name")
    return settings, witnesses


def _service(args: argparse.Namespace) -> Service:
    folder = Path(args.folder) if args.folder else witness_folder(state_folder())
    return Service(folder, getattr(args, "name", None))
