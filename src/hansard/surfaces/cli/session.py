"""`hansard session …`: what can be done with the directory of a session."""

import argparse
import asyncio
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hansard.app.archived import sessions
from hansard.app.archived.evaluating import figures, measured
from hansard.app.deliberating import PinningViolation
from hansard.app.service import Hansard
from hansard.app.settings import read_settings
from hansard.app.setup.convening import Convening, convening
from hansard.app.telling.directories import find_session
from hansard.app.telling.markdown import as_markdown
from hansard.app.telling.sessionpage import session_page
from hansard.app.wiring import ledger_exists, open_ledger, place_of
from hansard.errors import HansardError, UsageError
from hansard.surfaces.cli.debate import debate
from hansard.surfaces.cli.deliberate import call_of, conclude, see_out
from hansard.surfaces.cli.driving import note, refuse_early, with_ledger
from hansard.surfaces.cli.evaluating import LAST, no_last
from hansard.surfaces.cli.evaluating import found as held
from hansard.surfaces.cli.output import new_file
from hansard.surfaces.cli.show import as_json, put, say
from hansard.surfaces.cli.streams import show_traceback
from hansard.surfaces.narrate import many

OTHER, PINNING, MISMATCH = 1, 3, 4


def replay(args: argparse.Namespace) -> int:
    """The canonical bytes on standard output and nothing else; the digest on standard error [R-7.5-1]."""
    found = sessions.replayed(_folder(args))
    if args.json:
        as_json({"digest": found.digest, "stored_digest": found.stored_digest, "matches": found.matches})
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(found.output)
        said = "match" if found.matches else f"MISMATCH, the directory says {found.stored_digest}"
        note(f"digest {found.digest}: {said}")
    return 0 if found.matches else MISMATCH


def validate(args: argparse.Namespace) -> int:
    path = Path(args.path)
    if not path.exists():
        path = _place(args, args.path)
    settings = read_settings(args.ledger)
    if args.ledger and not ledger_exists(settings.ledger):
        raise UsageError(f"there is no ledger at {place_of(args.ledger)}")
    if ledger_exists(settings.ledger):
        with open_ledger(settings) as found:
            done = sessions.validated(path, found.store, named=bool(args.ledger))
    else:
        done = sessions.validated(path)
    if args.json:
        broken = [
            {"document": each.document, "path": each.path, "rule": each.rule, "message": each.message}
            for each in done.breaches
        ]
        as_json({"valid": done.ok, "document": done.document, "breaches": broken, "notes": list(done.notes)})
        return 0 if done.ok else OTHER
    for breach in done.breaches:
        say(str(breach))
    for each in done.notes:
        note(each)
    say(f"valid: {done.document}" if done.ok else f"not valid: {many(len(done.breaches), 'broken rule')}")
    return 0 if done.ok else OTHER


def metrics(args: argparse.Namespace) -> int:
    if args.output:
        sessions.check_apart(args.output)
    session = held(args, args.directory)
    found = figures(session) if args.v1 else measured(session)
    if args.output:
        new_file(args.output, sessions.as_text(found))
    else:
        as_json(found)
    return 0


def export(args: argparse.Namespace) -> int:
    if args.html and args.json:
        raise UsageError("--html and --json contradict each other; keep one")
    if args.output:
        sessions.check_apart(args.output)
    session = held(args, args.directory)
    if args.html:
        text = session_page(session.artifact, session.events)
    else:
        text = sessions.as_text(session.artifact) if args.json else as_markdown(session.artifact, session.events)
    if args.output:
        new_file(args.output, text)
    else:
        put(text.encode("utf-8", "backslashreplace"))
    return 0


def conformance(args: argparse.Namespace) -> int:
    report = sessions.conformance()
    if args.json:
        names = ("positives", "accepted", "negatives", "rejected", "failures")
        as_json({name: getattr(report, name) for name in names})
    else:
        say_lines(str(report))
    return 0 if report.ok else OTHER


def golden(args: argparse.Namespace) -> int:
    run = asyncio.run(sessions.golden(Path(args.case), record=args.record))
    if args.json:
        as_json({"digest": run.produced.digest, "expected": run.expected_digest, "matches": run.matches})
    else:
        say(f"digest    {run.produced.digest}")
        say(f"expected  {run.expected_digest}")
        if run.differs:
            say_lines(run.differs)
        say("recorded" if args.record else "match" if run.matches else "MISMATCH")
    return 0 if run.matches or args.record else MISMATCH


def resume(args: argparse.Namespace) -> int:
    folder = _place(args, args.directory, gone=True)

    async def work(hansard: Hansard) -> int:
        run = find_session(hansard.store, folder)
        stop = hansard.deliberations.listen(debate(args))
        sat = await see_out(hansard, args, run, hansard.deliberations.resume(run, surface="cli"))
        stop()
        return conclude(hansard, run, args, sat)

    return with_ledger(args.ledger, work, writing=True)


def execution_replay(args: argparse.Namespace) -> int:
    """0 the same digest, 3 a condition does not hold, 4 another digest, 1 anything else."""
    try:
        return asyncio.run(_execution_replay(args))
    except PinningViolation as violation:
        note(str(violation))
        return PINNING
    except (HansardError, OSError) as error:
        if args.debug:
            show_traceback(error)
        note(f"cannot use {error.filename!s:.200}: {error.strerror}" if isinstance(error, OSError) else str(error))
        return OTHER


async def _execution_replay(args: argparse.Namespace) -> int:
    folder = _folder(args)
    call = call_of(args, None, Path(args.output) if args.output else folder.absolute().parent)
    settings = read_settings(args.ledger)

    def make(hansard: Hansard, config: Any) -> Convening:
        return convening(settings, hansard.pool, replace(call, config=config))

    async def hand_in(trial: Hansard) -> None:
        make(trial, sessions.original_config(folder))

    await refuse_early(settings, hand_in)
    async with Hansard.open(settings=settings) as hansard:
        done = await hansard.deliberations.replay(folder, partial(make, hansard), assumed=args.assume, surface="cli")
    view = {
        "matches": done.matches,
        "original_digest": done.original_digest,
        "fresh_digest": done.fresh.digest,
        "conditions_checked": list(done.checked),
        "conditions_assumed": list(done.assumed),
        "fresh_run_dir": str(done.fresh.directory),
        "fault": done.fresh.fault,
        "first_diverging_message_id": done.first_diverging_message_id,
    }
    if done.fresh.fault:
        note(f"{done.fresh.directory} is not complete: {done.fresh.fault}")
    if args.json:
        as_json(view)
    else:
        for name, value in view.items():
            say(f"{name:<27} {', '.join(value) if isinstance(value, list) else value}")
    return 0 if done.matches else MISMATCH


def _folder(args: argparse.Namespace) -> Path:
    return _place(args, args.directory)


def _place(args: argparse.Namespace, name: str, *, gone: bool = False) -> Path:
    """A session's directory; `last` is that of the newest deliberation on the record, where no directory is called so."""
    try:
        return sessions.place_of(name, Path(args.runs), gone=gone and name != LAST)
    except UsageError:
        if name != LAST:
            raise
    settings = read_settings(args.ledger)
    if not ledger_exists(settings.ledger):
        raise no_last(settings)
    with open_ledger(settings) as found:
        return sessions.newest_place(found.store)


def say_lines(text: str) -> None:
    for line in text.split("\n"):
        say(line)
