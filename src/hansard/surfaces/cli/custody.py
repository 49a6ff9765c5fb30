"""`hansard ledger checkpoint|pin|seal|receipt|consistency|export|import|adopt`: who vouches for a ledger, and carrying it elsewhere."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from hansard.app.ledgers import carrying
from hansard.app.ledgers import custody as service
from hansard.app.people import human
from hansard.app.settings import ledger_settings
from hansard.app.wiring import open_ledger, open_to_carry
from hansard.surfaces.cli.output import new_file
from hansard.surfaces.cli.show import as_json, put, say
from hansard.surfaces.plain import plain


def checkpoint(args: argparse.Namespace) -> int:
    with open_to_carry(ledger_settings(args.ledger)) as opened:
        view = service.checkpoint(opened)
        newer = opened.store.head().size - view["size"]
    if newer:
        said = f"{newer:,} newer {'entry is' if newer == 1 else 'entries are'} not in it"
        print(f"hansard: {said}: another process seals this log, and signs soon", file=sys.stderr)
    return _hand_out(args, view, view["checkpoint"])


def pin(args: argparse.Namespace) -> int:
    with open_ledger(ledger_settings(args.ledger)) as opened:
        view = service.pin(opened)
    return _hand_out(args, view, view["pin"] + "\n")


def seal(args: argparse.Namespace) -> int:
    with open_ledger(ledger_settings(args.ledger), writing=True, lost_key=args.lost_key) as opened:
        view = service.replace_lost_key(opened) if args.lost_key else service.rotate(opened)
        place = shlex.quote(opened.store.place)
    if args.lost_key:
        said = (
            f"epoch {view['epoch']} begins at size {view['size']}. The lost key did not sign that, so nothing from there on "
            f"counts as sealed, as every verification says;\na new log that goes on from this one can be sealed again: "
            f"hansard ledger adopt {place} --ledger NEW.db"
        )
        return _print(args, view, said)
    said = f"sealed to size {view['sealed_to']}; the retired key is destroyed"
    if view["sealed_to"] < view["size"]:
        said += f". Size {view['size']} is signed and not sealed: a rotation before it never was, as every verification says"
    return _print(args, view, said)


def receipt(args: argparse.Namespace) -> int:
    with open_to_carry(ledger_settings(args.ledger)) as opened:
        view = service.receipt(opened, args.seq, tuple(args.disclose), cosigned=args.cosigned)
    _warn(view)
    checked = f"check it with: hansard verify {shlex.quote(args.output or '')}"
    if not args.html:
        return _deliver(args, view, view["receipt"], checked)
    from hansard.surfaces.cli.receipt_page import receipt_page

    page = receipt_page(view["receipt"], f"entry-{args.seq}.tlog-proof")
    return _deliver(args, view, page, f"open it in a browser, or {checked}")


def consistency(args: argparse.Namespace) -> int:
    with open_ledger(ledger_settings(args.ledger)) as opened:
        view, place = service.consistency(opened, args.old), opened.store.place
    against = f"hansard verify {shlex.quote(place)} --against {shlex.quote(args.output or '')}"
    return _deliver(args, view, view["consistency"], f"check it with: {against}")


def export(args: argparse.Namespace) -> int:
    view = carrying.export_to(ledger_settings(args.ledger), Path(args.folder), bodies=not args.without_bodies)
    _warn(view)
    if view["missing"]:
        lacking = f"{view['missing']:,} of its bodies are missing or damaged, and no entry says that they were redacted"
        print(f"hansard: {lacking}: the export lacks them, and `--deep` will find that", file=sys.stderr)
    _print(args, view, f"exported {view['entries']:,} entries and {view['bodies']:,} bodies to {view['folder']}")
    if not args.json:
        folder, deep = shlex.quote(args.folder), "" if args.without_bodies else " --deep"
        say(f"anyone can check it with: python3 {shlex.quote(str(Path(args.folder, 'verify.pyz')))} {folder}{deep}")
    return 0


def bring(args: argparse.Namespace) -> int:
    view = carrying.bring(args.path, ledger_settings(args.ledger), actor=human())
    if args.json:
        as_json(view)
        return 0
    say(
        f"{'verified' if view['verified'] else 'NOT WHOLLY VERIFIED'}: {view['entries']:,} entries, {view['left_out']:,} left out"
    )
    for finding in view["findings"]:
        say(f"  {finding}")
    say(f"ledger   {view['ledger']}")
    return 0


def adopt(args: argparse.Namespace) -> int:
    view = carrying.adopt_into(args.old, ledger_settings(args.ledger))
    _print(
        args,
        view,
        f"{view['ledger']} goes on from {view['adopts_origin']} at size {view['adopts_size']}; keep its new pin:",
    )
    if not args.json:
        say(view["pin"] or "(unsigned: no pin)")
    return 0


def _warn(view: dict[str, Any]) -> None:
    if view["unsigned_because"]:
        print(f"hansard: nothing was signed anew: {plain(view['unsigned_because'])}", file=sys.stderr)


def _print(args: argparse.Namespace, view: dict[str, Any], text: str) -> int:
    if args.json:
        as_json(view)
    else:
        for line in text.rstrip("\n").split("\n"):
            say(line)
    return 0


def _hand_out(args: argparse.Namespace, view: dict[str, Any], text: str) -> int:
    """Print what is checked elsewhere: one character that is spelled otherwise, and it speaks of another log."""
    if args.json:
        as_json(view)
    else:
        put(text.encode())
    return 0


def _deliver(args: argparse.Namespace, view: dict[str, Any], text: str, then: str) -> int:
    """Print a proof, or write it to a new file of the user's and say what to do with that."""
    if not args.output:
        return _hand_out(args, view, text)
    new_file(args.output, text)
    return _print(args, view, f"wrote {args.output}; {then}")
