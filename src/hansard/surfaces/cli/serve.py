"""`hansard serve`: the daemon, and the tokens that let people in."""

import argparse
import asyncio
import gc
import sys
from pathlib import Path

from hansard.app.serving.tokens import Tokens
from hansard.app.settings import read_settings, state_folder
from hansard.errors import MissingExtra
from hansard.surfaces.cli.arguments import listed
from hansard.surfaces.cli.show import as_json, as_json_line, say
from hansard.surfaces.cli.submit import wishes

ROLES = "reader,operator,approver"


def serve(args: argparse.Namespace) -> int:
    try:
        from hansard.surfaces.http.guard import Limits
        from hansard.surfaces.http.serving import Options
        from hansard.surfaces.http.serving import serve as run
    except ImportError as error:
        raise MissingExtra(f"hansard serve needs {error.name}: pip install 'hansard[serve]'") from error

    def ready(address: str, token_file: Path | None) -> None:
        # What is loaded by now stays, and need not be looked at. The rest is looked at in pieces that take a few milliseconds:
        # a hundred thousand objects at once would hold everybody up for forty.
        gc.freeze()
        gc.set_threshold(10_000, 50, 20)
        if args.json:
            as_json_line({"listening": address, "token_file": str(token_file) if token_file else None})
        elif token_file:
            say(f"hansard serve: {address}, token in {token_file}", at_once=True)
        else:
            nobody = "no default token; `hansard serve token list` shows who may come in"
            say(f"hansard serve: {address}, {nobody}", at_once=True)

    options = Options(
        host=args.host,
        port=args.port,
        wishes=wishes(args),
        hosts=tuple(args.allow_host),
        origins=tuple(args.allow_origin),
        public_log=args.public_log,
        resume=not args.no_resume,
        commands=args.allow_commands,
        most_runs=args.max_runs,
        grace_s=args.grace,
        limits=Limits(body_bytes=args.max_body, requests=args.max_requests, rate=args.rate, patience_s=args.patience),
        webhooks=tuple(args.webhook),
        sessions=Path(args.sessions) if args.sessions else None,
        traces=args.traces,
    )
    # Threads that read the ledger give way to the event loop ten times as soon as by default.
    sys.setswitchinterval(0.0005)
    asyncio.run(run(read_settings(args.ledger), options, ready))
    return 0


def token_list(args: argparse.Namespace) -> int:
    views = _tokens().listed()
    if args.json:
        as_json(views)
        return 0
    for view in views:
        say(f"{view['name']:<15} {', '.join(view['roles']):<29} until {view['until'] or 'revoked or rotated'}")
    return 0


def token_add(args: argparse.Namespace) -> int:
    roles = listed(args.roles or ["reader"])
    return _secret(args, _tokens().add(args.name, roles, None if args.days is None else args.days * 86_400))


def token_rotate(args: argparse.Namespace) -> int:
    return _secret(args, _tokens().rotate(args.name, args.keep or 0))


def token_revoke(args: argparse.Namespace) -> int:
    tokens = _tokens()
    tokens.revoke(args.name)
    if args.json:
        as_json(tokens.listed())
    return 0


def _tokens() -> Tokens:
    return Tokens.of(state_folder())


def _secret(args: argparse.Namespace, secret: str) -> int:
    if args.json:
        as_json({"name": args.name, "token": secret})
    else:
        say(secret)
    return 0
