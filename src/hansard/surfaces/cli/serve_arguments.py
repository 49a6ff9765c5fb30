"""The flags of `serve`, built when it is named. Imports nothing but argparse."""

import argparse
import re

from hansard.surfaces.cli.arguments import NO_WISHES, add_asking, count, positive, seconds
from hansard.surfaces.cli.command import add_command

EXAMPLES = {
    "serve": """\
examples:
  hansard serve --provider rehearsal                       # then, elsewhere:
  curl -H "Authorization: Bearer $(cat ~/.local/state/hansard/serve/token)" \\
       http://127.0.0.1:7411/v1/status
  hansard serve token add dashboard --roles reader --days 30
  hansard serve token rotate default --keep 3600   # the old one for an hour

SIGTERM drains: runs end or are interrupted within --grace, and go on with the
next start.
""",
}


def add_serve(command: argparse.ArgumentParser) -> None:
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    command.add_argument("--port", type=count, default=7411, metavar="N", help="default: 7411; 0 takes a free one")
    doors = command.add_argument_group("who may come in (always with a token)")
    doors.add_argument(
        "--allow-host", type=_host, action="append", default=[], metavar="NAME", help="also answer under this name"
    )
    doors.add_argument(
        "--allow-origin",
        type=_origin,
        action="append",
        default=[],
        metavar="URL",
        help="where a proxy shows it, https://NAME",
    )
    doors.add_argument("--public-log", action="store_true", help="/checkpoint and /tile without a token, for auditors")
    doors.add_argument("--allow-commands", action="store_true", help="plans may have checks that run programs here")
    doors.add_argument("--max-body", type=positive, default=1 << 20, metavar="BYTES", help="default: 1 MiB")
    doors.add_argument(
        "--max-requests",
        type=positive,
        default=4096,
        metavar="N",
        help="at once (default: 4096), three quarters of them of one token",
    )
    doors.add_argument(
        "--rate", type=positive, default=5000, metavar="N", help="requests a second of one token (default: 5000)"
    )
    doors.add_argument("--patience", type=seconds, default=10.0, metavar="S", help="for slow callers (default: 10)")
    work = command.add_argument_group("how it works")
    work.add_argument("--no-resume", action="store_true", help="leave alone what was running before")
    work.add_argument("--max-runs", type=positive, default=256, metavar="N", help="runs at once (default: 256)")
    work.add_argument("--grace", type=seconds, default=10.0, metavar="S", help="to drain in (default: 10)")
    work.add_argument("--webhook", action="append", default=[], metavar="URL", help="hears of gates and ended runs")
    work.add_argument("--sessions", metavar="DIR", help="a directory for each deliberation, in here")
    work.add_argument("--traces", metavar="URL", help="an OTLP/HTTP collector; needs hansard[otel]")
    command.add_argument("--roster", metavar="FILE", help="the lanes to work with (default: hansard.toml, else ours)")
    command.set_defaults(**NO_WISHES)
    add_asking(command)
    verbs = command.add_subparsers(title="commands", metavar="COMMAND")
    token = verbs.add_parser("token", help="who may use the daemon: list, add, rotate, revoke")
    token.set_defaults(handler="serve:token_list")
    tokens = token.add_subparsers(title="commands", metavar="COMMAND")
    add_command(tokens, "list", "every token, without its secret", "serve:token_list")
    add = add_command(tokens, "add", "a new token; its secret is shown once", "serve:token_add")
    add.add_argument("name")
    add.add_argument(
        "--roles",
        action="append",
        metavar="ROLES",
        help="reader, operator, approver, with commas or repeatable (default: reader)",
    )
    add.add_argument("--days", type=positive, metavar="N", help="how long it is good (default: until it is rotated)")
    rotate = add_command(tokens, "rotate", "a new secret for a token", "serve:token_rotate")
    rotate.add_argument("name", nargs="?", default="default")
    rotate.add_argument("--keep", type=seconds, metavar="S", help="how long the old one is good besides")
    add_command(tokens, "revoke", "end a token now", "serve:token_revoke").add_argument("name")


def _host(text: str) -> str:
    """A name as callers send it in `Host`; anything else would never match."""
    if not re.fullmatch(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} is no name of a host; write HOST or HOST:PORT, such as example.org"
        )
    return text


def _origin(text: str) -> str:
    """An origin as browsers send it, which has no path: with one it would never match."""
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} is no origin; write https://HOST or http://HOST:PORT, without a path"
        )
    return text
