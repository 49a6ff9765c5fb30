"""`hansard demo`: a real ledger, verified, and tampered copies caught."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hansard.app import demo as flow
from hansard.errors import UsageError
from hansard.surfaces.cli.show import as_json, say


def demo(args: argparse.Namespace) -> int:
    folder = _folder(args.folder)
    ledger = folder / "ledger.db"
    size = asyncio.run(flow.record_run(ledger, folder / "state"))
    report = flow.check(ledger, deep=True)
    tampered = list(flow.tamper(ledger, folder, signed=bool(report.signed.sealed_to)))
    caught = [each for each in tampered if not each.deep.ok]
    if args.json:
        as_json(
            {
                "ledger": str(ledger),
                "entries": size,
                "report": report.as_json(),
                "tampered": [_view(each) for each in tampered],
            }
        )
    else:
        _tell(ledger, size, report, tampered)
    return 0 if report.ok and len(caught) == len(tampered) else 11


def _folder(chosen: str | None) -> Path:
    if chosen is None:
        return Path(tempfile.mkdtemp(prefix="hansard-demo-"))
    folder = Path(chosen)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already and not empty; choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _tell(ledger: Path, size: int, report: Any, tampered: list[flow.Tampering]) -> None:
    say(f"recorded   a run of {size} entries in {ledger}")
    if report.signed.sealed_to:
        say("signed     by an identity key and an epoch key that live outside the ledger")
    else:
        say(
            "UNSIGNED   `cryptography` is not installed, so nothing is signed: cut or rebuilt logs cannot be told apart"
        )
    say(f"verified   {'OK' if report.ok else 'BROKEN'}: {report.bodies.opened} bodies opened, root {report.root[:16]}…")
    say()
    say(f"tampered   with {len(tampered)} copies, one way each:")
    for number, each in enumerate(tampered, 1):
        first = each.deep.first_bad
        passed = " (the chain check alone passes)" if each.chain.ok else ""
        say(f"  {number}. {each.name}: {'caught' if not each.deep.ok else 'NOT CAUGHT'}{passed}")
        if first:
            say(f"     {f'entry {first.seq}: ' if first.seq is not None else ''}{first.message}")
    say()
    program = _program()
    say("try it yourself:")
    say(f"  {program} verify {ledger} --deep")
    say(f"  {program} ledger show --ledger {ledger}")
    say(f"  {program} verify {ledger.parent / 'tampered-4.db'} --deep")


def _program() -> str:
    """How this program is called here: after `make demo` it is not on the PATH, and what we tell people to type must work."""
    if shutil.which("hansard"):
        return "hansard"
    return sys.argv[0] if Path(sys.argv[0]).name == "hansard" else f"{sys.executable} -m hansard"


def _view(tampering: flow.Tampering) -> dict[str, Any]:
    first = tampering.deep.first_bad
    return {
        "name": tampering.name,
        "caught_by_chain": not tampering.chain.ok,
        "caught_by_deep": not tampering.deep.ok,
        "exit_code": tampering.deep.exit_code,
        "first_bad": first.message if first else None,
    }
