"""`hansard panel …`: which panels there are, who sits on one and who pays for it, and where its personas overlap or fall short."""

import argparse

from hansard.app.settings import read_settings
from hansard.app.setup.panelviews import check_view, panel_view, panels_view, personas_list
from hansard.surfaces.cli.show import as_json, say
from hansard.surfaces.narrate import many

FOUND = 1


def listed(args: argparse.Namespace) -> int:
    settings = read_settings(None)
    panels, personas = panels_view(settings), personas_list(settings)
    if args.json:
        as_json({"panels": panels, "personas": personas})
        return 0
    for each in panels:
        say(
            f"{each['name']:<15} {', '.join(each['agents'])}; {each['coordinator']}, at most {many(each['max_rounds'], 'round')}"
        )
    if not panels:
        say("no panel is written down; write [panels.NAME] into hansard.toml, or panels/NAME.toml beside it")
    say()
    for each in personas:
        say(f"  {each['id']:<15} {each['class']:<11} {each['scope']}{'' if each['shipped'] else ' (yours)'}")
    return 0


def show(args: argparse.Namespace) -> int:
    view = panel_view(read_settings(None), args.name)
    if args.json:
        as_json(view)
        return 0
    for seat in (*view["seats"], view["coordinator"]):
        say(f"{seat['agent']:<15} {seat['scope']}")
        say(f"{'':<16}asks {seat['asks']}: {seat['billing']}")
    caps = (
        f"{many(view['max_rounds'], 'round')}, {many(view['max_calls'], 'call')}, {many(view['max_tokens'], 'token')}"
    )
    say(f"at most         {caps}, {view['max_usd']:g} USD, {view['max_seconds']} s")
    if view["ensemble"]:
        say("ensemble        everybody answers alone first")
    return 0


def check(args: argparse.Namespace) -> int:
    """0 nothing to say, 1 overlaps or gaps."""
    view = check_view(read_settings(None), args.name)
    if args.json:
        as_json(view)
        return 0 if view["ok"] else FOUND
    for each in view["overlap"]:
        say(f"overlap   {' and '.join(each['agents'])}: {'; '.join(each['reasons'])}")
    for each in view["gaps"]:
        say(f"gap       {each['missing']}: {each['reason']}")
    say(f"{view['name']}: {view['agents']} agents, {len(view['overlap'])} overlaps, {len(view['gaps'])} gaps")
    return 0 if view["ok"] else FOUND
