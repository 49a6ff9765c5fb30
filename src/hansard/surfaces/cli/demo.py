"""`hansard demo`: a request through the real engine, its answer verified and receipted, and tampered copies caught."""

import argparse
import asyncio
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from secrets import token_hex
from typing import Any

from hansard.app.service import Hansard
from hansard.app.settings import Settings, recordable, working_folder
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.app.starting import demo as flow
from hansard.app.starting.tampering import Tampering, check, tamper
from hansard.app.telling.recorded import ENDED
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.surfaces.cli.driving import EXIT, note, refuse_early, see_through, watched, words
from hansard.surfaces.cli.show import as_json, say, tell
from hansard.surfaces.narrate import duration, many, spent

# Where nobody watches, the models need not take their time; but who is asked first still answers first.
WATCHED, UNWATCHED = 0.7, 0.05
WORD, LANE = 11, 18
"""How wide the columns are."""


def demo(args: argparse.Namespace) -> int:
    recordable(working_folder())
    folder = _folder(args.folder)
    pace = WATCHED if sys.stderr.isatty() and not args.quiet else UNWATCHED
    settings = flow.local(folder) if args.local else flow.scripted(folder, pace=pace)
    view = asyncio.run(_run(args, settings))
    if view["state"] not in ENDED:
        note(f"interrupted; {_program()} runs show last --ledger {shlex.quote(settings.ledger)} shows how far it came")
        return EXIT["interrupted"]
    ledger = Path(settings.ledger)
    report = check(ledger, deep=True)
    signed = bool(report.signed.sealed_to)
    answered = view["answer_seq"] is not None
    receipt = flow.keep_receipt(settings, view["answer_seq"]) if signed and answered else None
    tampered = list(tamper(ledger, folder, signed=signed))
    if args.json:
        as_json(_view(ledger, view, report, receipt, tampered))
    else:
        _tell(ledger, view, report, receipt, tampered)
    if not report.ok or any(each.deep.ok for each in tampered):
        return EXIT["failed"]
    # What a very small model cannot do is no failure of the demonstration.
    return 0 if args.local and answered else EXIT[view["state"]]


async def _run(args: argparse.Namespace, settings: Settings) -> View:
    # To plan is beyond so small a model, so it is given the plan.
    plan = flow.PLAN if args.local else None

    async def hand_in(trial: Hansard) -> None:
        await trial.runs.submit(flow.REQUEST, run_config(settings, trial.pool, Wishes()), plan=plan, surface="cli")

    await refuse_early(settings, hand_in)
    # Not before: where something is missing, nothing is left behind.
    Path(settings.ledger).parent.mkdir(0o777 if args.folder else 0o700, parents=True, exist_ok=True)
    async with Hansard.open(settings=settings) as hansard:
        async with watched(hansard, args):
            run = await hansard.submit(flow.REQUEST, plan=plan, surface="cli", actor=flow.ACTOR)
            await see_through(hansard, run.ended())
        return run.show()


def _folder(chosen: str | None) -> Path:
    if chosen is None:
        return Path(tempfile.gettempdir(), f"hansard-demo-{token_hex(8)}")
    folder = Path(chosen)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already and not empty; choose a new folder")
    return folder


def _tell(ledger: Path, view: View, report: Any, receipt: Path | None, tampered: list[Tampering]) -> None:
    cost, plan = view["spent"], view["plan"]
    tell(f"asked      {view['request']}", WORD)
    if view["route"]:
        say(f"routed     {_where(view['route'])}")
    say(f"planned    {many(plan['tasks'], 'task')} in {many(plan['waves'], 'wave')}, by the {plan['by']}")
    for task in view["tasks"]:
        tell(f"  {task['task']:<9}{_story(task)}", WORD + LANE)
    say(view["state"] if view["answer"] else f"{view['state']}: {words(view['reason'])}")
    for line in (view["answer"] or "").splitlines():
        tell(f"  {line}", 2)
    say(
        f"spent      {spent(cost['calls'], cost['tokens'], cost['cost_usd_nano'])}, {duration(cost['elapsed_us'] / 1e6)}"
    )
    say(f"recorded   {report.size} entries in {ledger}")
    if report.signed.sealed_to:
        say("signed     by an identity key and an epoch key that live outside the ledger")
    else:
        unsigned = "`cryptography` is not installed, so nothing is signed: cut or rebuilt logs cannot be told apart"
        tell(f"UNSIGNED   {unsigned}", WORD)
    say(f"verified   {_ok(report)}: {report.bodies.opened} bodies opened, root {report.root[:16]}…")
    if receipt:
        tell(f"receipt    {_ok(check(receipt, deep=True))}: {receipt} proves the answer by itself, offline", WORD)
    say()
    _tell_tampered(tampered)
    say()
    _tell_what_to_try(ledger, receipt)


def _where(route: View) -> str:
    certain = f"{route['confidence_ppm'] / 10_000:.0f} %"
    return f"to {route['lane']} ({certain})" if route["lane"] else f"to no lane alone ({certain} is too little)"


def _story(task: View) -> str:
    told, before = "", None
    for attempt in task["attempts"]:
        verdict = attempt["verdict"]
        said = "not judged" if verdict is None else "passed" if verdict["ok"] else "rejected"
        climbs = f"{', climbs to the ' if before else ''}{_rung(attempt['rung'])}"
        told += f", again: {said}" if attempt["rung"] == before else f"{climbs}: {said}"
        before = attempt["rung"]
    return f"{task['lane']:<{LANE}}{told or task['state']}"


def _rung(name: str) -> str:
    kind, _, panel = name.partition(":")
    return f"{panel} panel" if kind == "panel" else f"{name} rung"


def _tell_tampered(tampered: list[Tampering]) -> None:
    say(f"tampered   with {len(tampered)} copies, one way each:")
    for number, each in enumerate(tampered, 1):
        first = each.deep.first_bad
        passed = " (the chain check alone passes)" if each.chain.ok else ""
        say(f"  {number}. {each.name}: {'caught' if not each.deep.ok else 'NOT CAUGHT'}{passed}")
        if first:
            tell(f"     {f'entry {first.seq}: ' if first.seq is not None else ''}{first.message}", 5)


def _tell_what_to_try(ledger: Path, receipt: Path | None) -> None:
    program = _program()
    say("try it yourself:")
    say(f"  {program} runs show last --ledger {_quoted(ledger)}")
    say(f"  {program} verify {_quoted(ledger)} --deep")
    if receipt:
        say(f"  {program} verify {_quoted(receipt)}")
    say(f"  {program} verify {_quoted(ledger.parent / 'tampered-1.db')}")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _ok(report: Any) -> str:
    return "OK" if report.ok else "BROKEN"


def _program() -> str:
    """How this program is called here: after `make demo` it is not on the PATH, and what we tell people to type must work."""
    if shutil.which("hansard"):
        return "hansard"
    if Path(sys.argv[0]).name == "hansard":
        return _quoted(Path(sys.argv[0]))
    module = f"{shlex.quote(sys.executable)} -m hansard"
    # From a clone, the program that started this one has named the folder; a shell has not.
    return module if _is_installed() else f"PYTHONPATH={_quoted(Path(__file__).resolve().parents[3])} {module}"


def _is_installed() -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return bool(version("hansard"))
    except PackageNotFoundError:
        return False


def _view(ledger: Path, view: View, report: Any, receipt: Path | None, tampered: list[Tampering]) -> dict[str, Any]:
    return {
        "ledger": str(ledger),
        "run": view,
        "report": report.as_json(),
        "receipt": str(receipt) if receipt else None,
        "tampered": [_tampering(each) for each in tampered],
    }


def _tampering(tampering: Tampering) -> dict[str, Any]:
    first = tampering.deep.first_bad
    return {
        "name": tampering.name,
        "caught_by_chain": not tampering.chain.ok,
        "caught_by_deep": not tampering.deep.ok,
        "exit_code": tampering.deep.exit_code,
        "first_bad": first.message if first else None,
    }
