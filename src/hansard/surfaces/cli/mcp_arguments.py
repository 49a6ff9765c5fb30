"""The flags of `mcp`, built when it is named. Imports nothing but argparse."""

import argparse

from hansard.surfaces.cli.arguments import NO_WISHES, add_asking

EXAMPLES = {
    "mcp": """\
examples:
  hansard mcp --provider rehearsal     # goes through the motions, asks no model
  hansard mcp --ledger team.db --api MODEL --max-usd 0.50

An MCP client starts it and speaks to it on standard input and output;
docs/mcp.md has configurations to copy.
""",
}


def add_mcp(command: argparse.ArgumentParser) -> None:
    may = command.add_argument_group("what its clients may do")
    may.add_argument("--allow-gates", action="store_true", help="take decisions at gates from its client")
    may.add_argument("--allow-commands", action="store_true", help="plans may have checks that run programs here")
    may.add_argument("--folder", metavar="DIR", help="where paths stay (default: that of hansard.toml, else this one)")
    command.add_argument("--roster", metavar="FILE", help="the lanes to work with (default: hansard.toml, else ours)")
    command.set_defaults(**NO_WISHES)
    add_asking(command)
