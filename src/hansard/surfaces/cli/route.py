"""`hansard route` and `hansard roster`: where a request would go, how well that works, which lanes there are."""

import argparse
from typing import Any

from hansard.app.lanes import rosters, routing
from hansard.app.settings import read_settings
from hansard.errors import UsageError
from hansard.surfaces.cli.show import as_json, say
from hansard.surfaces.cli.streams import text_of

MOST_READ = 1_000_000


def route(args: argparse.Namespace) -> int:
    text = " ".join(args.text) if args.text[1:] else text_of(args.text[0])[:MOST_READ]
    if not text.strip():
        raise UsageError("the request is empty; say what is to be routed")
    view = routing.route(text, rosters.roster_of(read_settings(), args.roster))
    if args.json:
        as_json(view)
        return 0
    confidence = _percent(view["confidence"])
    nearest = view["runner_up"] or "none"
    if view["lane"]:
        say(f"{view['lane']}  (confidence {confidence}, tier {view['tier']}; runner-up: {nearest})")
    else:
        say(f"undecided  (confidence {confidence}, tier {view['tier']}; nearest: {nearest})")
    for each in view["evidence"]:
        meant = "" if each["term"] == each["known"] else f" (taken for {each['known']})"
        say(f"  {each['weight']:5.2f}  {each['term']}{meant}")
    return 0


def evaluate(args: argparse.Namespace) -> int:
    view = routing.evaluation(args.file, rosters.roster_of(read_settings(), args.roster))
    if args.json:
        as_json(view)
        return 0
    rows, lane_rows, off_topic = view["rows"], view["lane_rows"], view["off_topic_rows"]
    say(f"{rows:,} rows: {lane_rows:,} for a lane, {off_topic:,} for none; {view['decided']:,} decided")
    for name, meaning in (
        ("accuracy", "lane rows decided right"),
        ("precision", "right among all decided"),
        ("abstained", "rows left undecided"),
        ("off_topic_undecided", "rows for no lane left undecided"),
    ):
        say(f"{name:<20}{_percent(view[name]):>8}  {meaning}")
    say("confidence   rows    right")
    for bucket in view["calibration"]:
        say(f"{_percent(bucket['confidence']):>10}{bucket['rows']:>7,}  {_percent(bucket['right']):>7}")
    for each in view["confusions"]:
        ids = ", ".join(each["ids"][:8])
        say(f"{each['count']:>4}  {each['expected'] or 'none'} -> {each['decided']}  ({ids})")
    return 0


def roster_list(args: argparse.Namespace) -> int:
    settings = read_settings()
    view = rosters.roster_view(rosters.roster_of(settings, args.roster), settings)
    if args.json:
        as_json(view)
        return 0
    for lane in view["lanes"]:
        refused = f"  REFUSED: {lane['refused']}" if lane["refused"] else ""
        say(f"{lane['name']:<19} {lane['category']:<13} {lane['domain']}{refused}")
    say(f"roster {view['name']}, {len(view['lanes'])} lanes, {view['digest'][:16]}")
    return 0


def roster_show(args: argparse.Namespace) -> int:
    view = rosters.lane_view(rosters.roster_of(read_settings(), args.roster), args.lane)
    if args.json:
        as_json(view)
        return 0
    for name, value in view.items():
        _show(name, value)
    return 0


def roster_check(args: argparse.Namespace) -> int:
    view = rosters.check_view(rosters.roster_of(read_settings(), args.file))
    if args.json:
        as_json(view)
        return 0
    say(f"{args.file}: {view['lanes']} lanes, nothing wrong, {view['digest'][:16]}")
    for name in view["thin"]:
        say(f"  {name}: the router has little to go by; write vocabulary and examples")
    return 0


def _show(name: str, value: Any) -> None:
    if isinstance(value, dict):
        value = [f"{key} = {each}" for key, each in value.items()]
    if not isinstance(value, list):
        say(f"{name:<14}{value}")
        return
    say(f"{name} ({len(value)}):")
    for each in value:
        say(f"  {each}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}".replace("%", " %")
