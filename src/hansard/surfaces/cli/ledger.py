"""`hansard ledger …`: read, explain and look after a ledger."""

import argparse
import json
import shlex
from typing import Any

from hansard.app.finding import find_named
from hansard.app.ledgers.ledger import LedgerService
from hansard.app.people import human
from hansard.app.settings import ledger_settings
from hansard.errors import UsageError
from hansard.surfaces.cli.arguments import count
from hansard.surfaces.cli.show import as_json, as_json_line, put, say, tell_broken
from hansard.surfaces.cli.streams import has_reader
from hansard.surfaces.narrate import first_line

MOST_FACTS = 120
"""Characters of what an entry says, in a line of a list."""


def show(args: argparse.Namespace) -> int:
    found = False
    with _open(args) as ledger:
        run = None if args.run is None else find_named(ledger.store, args.run)
        for view in ledger.show(run=run, kind=args.kind, actor=args.actor, after=args.after, limit=args.limit or None):
            found = True
            if args.json:
                as_json_line(view)
            else:
                say(_line(view))
            if not has_reader():
                break
    # Behind `--after` nothing is new yet, which is no mistake.
    if not found and args.after is None:
        from hansard.surfaces.cli.driving import note, typed

        asked = (("of run", args.run), ("of kind", args.kind), ("of actor", args.actor))
        wanted = " and ".join(f"{what} {value}" for what, value in asked if value is not None)
        note(f"no entry is {wanted}; {typed(args, 'ledger summary')} shows which kinds and actors there are")
    return 0


def get(args: argparse.Namespace) -> int:
    with _open(args) as ledger:
        if args.part:
            put(ledger.part(args.seq, args.part))
            return 0
        view = ledger.get(args.seq)
    if args.json:
        as_json(view)
        return 0
    if view["broken"]:
        say(f"BROKEN: {view['broken']}")
    for name in ("seq", "time", "run", "kind", "actor", "causes", "effects", "data", "leaf", "prev"):
        value = view[name]
        say(f"{name:<8}{value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)}")
    for part in view["parts"]:
        size = f"{part['bytes']:,} bytes, {part['media']}" if "bytes" in part else ""
        say(f"part    {part['part']}: {part['state']}  {size}")
    return 0


def causes(args: argparse.Namespace) -> int:
    with _open(args) as ledger:
        _list(args, ledger.causes(args.seq))
    return 0


def replay(args: argparse.Namespace) -> int:
    with _open(args) as ledger:
        view, place = ledger.state_at(args.at), shlex.quote(ledger.store.place)
    if args.json:
        as_json(view)
        return 0
    if view["broken_at"] is not None:
        why = "cannot be read or does not follow the one before"
        say(f"BROKEN: entry {view['broken_at']} {why}; run: hansard verify {place}")
    say(f"at entry {view['at']} of {view['origin']}: {len(view['runs'])} run(s)")
    for run in view["runs"]:
        say(f"  {run['run']}  {run['state']}  entries {run['entries']}, calls {run['calls']}, tokens {run['tokens']:,}")
        for task, state in run["tasks"].items():
            say(f"    {task}: {state}")
    return 0


def summary(args: argparse.Namespace) -> int:
    with _open(args) as ledger:
        view = ledger.summary()
    if args.json:
        as_json(view)
        return 0
    for name, value in view.items():
        if isinstance(value, dict):
            say(f"{name}:")
            for key, count in value.items():
                say(f"  {key:<24} {count:,}")
        elif isinstance(value, list):
            say(f"{name:<16}{', '.join(map(first_line, value)) or 'none'}")
        elif value is not None:
            say(f"{name:<16}{value:,}" if type(value) is int else f"{name:<16}{value}")
    return 0


def redact(args: argparse.Namespace) -> int:
    parts = [(args.seq, args.part), *_pairs(args.more)]
    with _open(args, writing=True) as ledger:
        view = ledger.redact(parts, reason=args.reason, actor=args.by or human())
    if args.json:
        as_json(view)
        return 0
    gone = [(each["seq"], each["part"]) for each in view["gone"]]
    for each in (view, *view["also_erased"]):
        if (each["seq"], each["part"]) in gone:
            say(
                f"the part {each['part']!r} of entry {each['seq']} was erased before; entry {each['tombstone']} says so"
            )
        else:
            say(f"erased the part {each['part']!r} of entry {each['seq']}; entry {each['tombstone']} says so for good")
    if gone:
        say("where else the text of what was erased before stands can be searched no more, in the same run either")
    for each in view["differed"]:
        say(
            f"what lay there as the part {each['part']!r} of entry {each['seq']} was not what was recorded, which nobody can see any more"
        )
        say("where else stands what was recorded could not be searched")
    if view["also_in"]:
        say("parts of the same run still hold the same text; redact them too where it must go:")
        for each in view["also_in"]:
            say(f"  entry {each['seq']} {each['part']}")
        from hansard.surfaces.cli.driving import typed

        words = " ".join(f"{each['seq']} {each['part']}" for each in view["also_in"])
        by = f" --by {shlex.quote(args.by)}" if args.by else ""
        say(f"all of them at once: {typed(args, f'ledger redact {words} --reason {args.reason}{by}')}")
    if view["files"]:
        say("files of the session's directory still hold it; they are yours to clean:")
        for each in view["files"]:
            say(f"  {each}")
    say("other parts may tell it in other words, and other runs were not searched")
    say("backups, exports and archives made before still hold it: they are yours to clean")
    return 0


def _pairs(words: list[str]) -> list[tuple[int, str]]:
    """Further parts, each by its entry and its name."""
    try:
        return [(count(seq), part) for seq, part in zip(words[::2], words[1::2], strict=True)]
    except (argparse.ArgumentTypeError, ValueError):
        raise UsageError(f"a part is the number of an entry and a name, not {' '.join(words)!r:.80}") from None


def repair(args: argparse.Namespace) -> int:
    with _open(args, writing=True) as ledger:
        view = ledger.repair()
    if args.json:
        as_json(view)
    elif not view["repaired"]:
        say("nothing is left to repair")
    for done in [] if args.json else view["repaired"]:
        say(f"repaired {done['what']}: {done['count']}")
    return 0


def _open(args: argparse.Namespace, *, writing: bool = False) -> LedgerService:
    service = LedgerService.open(ledger_settings(args.ledger), writing=writing)
    tell_broken(service.store.broken)
    return service


def _list(args: argparse.Namespace, views: list[dict[str, Any]]) -> None:
    if args.json:
        as_json(views)
    else:
        for view in views:
            say(_line(view))


def _line(view: dict[str, Any]) -> str:
    if view["broken"] and "kind" not in view:
        return f"{view['seq']:>6}  BROKEN: {view['broken']}"
    because = (
        f" <- {','.join(map(str, view['causes'][:8]))}{'…' if len(view['causes']) > 8 else ''}"
        if view["causes"]
        else ""
    )
    facts = " ".join(f"{name}={_said(value)}" for name, value in view["data"].items())
    facts = facts if len(facts) <= MOST_FACTS else f"{facts[: MOST_FACTS - 1]}…"
    mark = f"  BROKEN: {view['broken']}" if view["broken"] else ""
    run = view["run"] or "-"
    return f"{view['seq']:>6}  {view['time']}  {run}  {view['kind']:<16} {view['actor']}{because}  {facts}{mark}"


def _said(value: Any) -> str:
    """A value of an entry in a line: a text as it is, anything else as the entry has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
