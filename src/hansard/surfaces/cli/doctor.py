"""`hansard doctor`: what works on this machine."""

import argparse

from hansard.app.settings import read_settings
from hansard.app.starting.doctor import examine
from hansard.surfaces.cli.show import as_json, say


def doctor(args: argparse.Namespace) -> int:
    findings = examine(read_settings(args.ledger))
    if args.json:
        as_json(findings)
        return 0
    for finding in findings:
        say(f"{'ok ' if finding['ok'] else '-- '} {finding['name']:<17} {finding['detail']}")
    return 0
