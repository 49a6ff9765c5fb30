"""`hansard init`: a ledger and a commented hansard.toml."""

import argparse
import shlex

from hansard.app.starting.founding import found
from hansard.surfaces.cli.show import as_json, say


def init(args: argparse.Namespace) -> int:
    view = found(args.ledger, origin=args.origin)
    if args.json:
        as_json(view)
        return 0
    if view["config"]:
        say(f"config   {view['config']} ({'new' if view['config_written'] else 'there already'})")
    say(f"ledger   {view['ledger']} ({'new' if view['ledger_made'] else 'there already'})")
    if view["ledger_from"] and view["config"]:
        say(f"         as {view['ledger_from']} says: without that variable, the one that hansard.toml names is used")
    say(f"keys     {view['custody']}")
    if view["pin"]:
        say(f"pin      {view['pin']}")
        say("         keep the pin outside this machine: with it anyone can tell this log from a rebuilt one")
    if view["before"]:
        say("before   what was run here before this hansard.toml stands in another ledger; to see it:")
        say(f"         hansard runs list --ledger {shlex.quote(view['before'])}")
    if view["config_written"]:
        say("next     name who is asked in hansard.toml; until then:")
        say('         hansard submit "compare three queues" --provider rehearsal')
    return 0
