"""`hansard session questions | postmortem | compare | eval | chain`, and the page of a session: looking at sessions afterwards."""

import argparse
import asyncio
from pathlib import Path

from hansard.app.archived import evaluating
from hansard.app.driving.chaining import answer_in, chain_view
from hansard.app.pool import Pool
from hansard.app.service import Hansard
from hansard.app.settings import Settings, read_settings
from hansard.app.setup.convening import convening
from hansard.app.telling.deliberationviews import asked_for
from hansard.app.views import View
from hansard.app.wiring import ledger_exists, open_ledger, place_of
from hansard.errors import HansardError, UsageError
from hansard.surfaces.cli.deliberate import call_of, forewarn
from hansard.surfaces.cli.driving import EXIT, note, see_through, with_ledger
from hansard.surfaces.cli.show import GONE, as_json, say
from hansard.surfaces.narrate import many

LAST = evaluating.LAST


def found(args: argparse.Namespace, name: str) -> evaluating.Held:
    """A session by directory, id or run; the ledger is asked where there is one."""
    settings = read_settings(args.ledger)
    if not ledger_exists(settings.ledger):
        try:
            return evaluating.find_held(name, Path(args.runs), None)
        except UsageError:
            if name != LAST:
                raise
        raise no_last(settings)
    with open_ledger(settings) as ledger:
        return evaluating.find_held(name, Path(args.runs), ledger.store)


def no_last(settings: Settings) -> UsageError:
    """What is wrong with `last` where nobody has a list of what there was."""
    where = place_of(settings.ledger)
    return UsageError(f"`{LAST}` is the newest session of a ledger, and there is none at {where}; name a directory")


def postmortem(args: argparse.Namespace) -> int:
    view = evaluating.looked_back(found(args, args.directory))
    if args.json:
        as_json(view)
        return 0
    say(f"the right agents   {'yes' if view['correct_agents_selected'] else 'no'}, by rule")
    for each in view["scope_violations"]:
        say(f"out of scope       {each['agent']} in {each['turn_message_id']}: {each['evidence']}")
    for each in view["capability_gaps"]:
        say(f"gap                {each['missing_capability']}: {each['reason']} ({', '.join(each['evidence'])})")
    for each in view["agent_overlap"]:
        say(f"overlap            {' and '.join(each['agents'])}: {each['topic']}")
    for each in view["best_contributors"]:
        say(f"contributed        {each['agent']}: {each['contribution_score']:g}")
    return 0


def questions(args: argparse.Namespace) -> int:
    with open_ledger(read_settings(args.ledger)) as ledger:
        view = evaluating.questions_asked(args.directory, Path(args.runs), ledger.store, answers=args.answers)
    if args.json:
        as_json(view)
        return 0
    for each in view["questions"]:
        say(f"=== entry {each['seq']}: {each['agent']}, round {each['round']}, attempt {each['attempt']}")
        if not each["messages"]:
            say("(redacted)")
        said = [(message["role"], message["content"]) for message in each["messages"]]
        if (answer := each.get("answer")) is not None:
            said.append(("answer", answer))
        for who, text in said:
            say(f"--- {who}")
            for line in text.split("\n"):
                say(line)
        say()
    return 0


def compare(args: argparse.Namespace) -> int:
    view = evaluating.compared(found(args, args.a), found(args, args.b))
    if args.json:
        as_json(view)
        return 0
    say(f"{'':<24}{'A':<40}{'B':<40}more in B")
    for name, value in view["a"].items():
        if name in ("answer", "transcript_digest", "unresolved", "agents"):
            continue
        more = view["more_in_b"].get(name)
        mine, other = ("–" if each is None else str(each) for each in (value, view["b"][name]))
        say(f"{name:<24}{mine:<40}{other:<40}{'' if not more else f'{more:+,.10g}'}")
    for topic in view["settled_in_b"]:
        say(f"settled in B            {topic}")
    for topic in view["open_in_b"]:
        say(f"open in B only          {topic}")
    say(_alike(view))
    return 0


def _alike(view: View) -> str:
    if view["same_transcript"]:
        return "the same transcript"
    if view["a"]["answer"] is None and view["b"]["answer"] is None:
        return "neither has an answer"
    return "the same answer" if view["same_answer"] else "other answers"


def evaluate(args: argparse.Namespace) -> int:
    problems = evaluating.read_problems(Path(args.problems))
    rows = list[View]()
    try:
        asyncio.run(_evaluate(args, problems, rows))
    except HansardError as error:
        # What was paid for until then is told all the same; where nothing was begun there is nothing to tell.
        if rows or not isinstance(error, UsageError):
            _tell(args, rows, str(error))
        raise
    if (tried := len(rows)) == len(problems):
        _tell(args, rows, None)
        return 0
    _tell(args, rows, "a signal")
    note(
        f"interrupted: {tried} of {len(problems)} problems were tried; without these, {args.problems} goes on from here"
    )
    return EXIT["interrupted"]


def _tell_row(row: View) -> None:
    passed = {None: "", True: "passed", False: "missed"}[row["passed"]]
    rounds = many(row["rounds"], "round")
    say(f"{row['problem']:<11} {row['outcome']:<27} {rounds:>10} {row['tokens']:>9,} tokens  {passed}", at_once=True)


def _tell(args: argparse.Namespace, rows: list[View], stopped_by: str | None) -> None:
    view = evaluating.evaluation_view(rows, stopped_by)
    if args.json:
        as_json(view)
        return
    for name, value in view["summary"].items():
        # Counts are of all sessions, and everything else is their mean.
        said = "–" if value is None else f"{value:,.10g} a session" if isinstance(value, float) else f"{value:,}"
        say(f"{name:<24}{said}")


async def _evaluate(args: argparse.Namespace, problems: list[evaluating.Problem], rows: list[View]) -> None:
    settings = read_settings(args.ledger)
    call = call_of(args, problems[0].text, Path(args.output) if args.output else None)
    pool = Pool(settings)
    made = convening(settings, pool, call)
    await pool.close()
    forewarn(made)

    def heard(row: View) -> None:
        rows.append(row)
        if row["fault"]:
            note(f"the directory of session {row['session_id']} is not complete: {row['fault']}")
        if not args.json:
            _tell_row(row)

    async with Hansard.open(settings=settings) as hansard:
        deliberations, store = hansard.deliberations, hansard.store
        work = evaluating.evaluated(deliberations, store, made, problems, surface="cli", heard=heard)
        await see_through(hansard, work)


def chain(args: argparse.Namespace) -> int:
    async def look(hansard: Hansard) -> View:
        return chain_view(hansard.store, hansard.runs.find(args.run))

    view = with_ledger(args.ledger, look)
    if args.json:
        as_json(view)
        return 0
    for number, each in enumerate(view["sessions"], 1):
        for at, line in enumerate(answer_in(each["problem"] or "") if number > 1 else ()):
            say(f"   {'' if at else 'told':<4} {line}")
        ended = each.get("termination_reason") or each["outcome"] or each["state"]
        say(f"{number}. {each['session_id']}: {ended}; panel {', '.join(each['selected_agents'])}")
        if pending := each.get("pending"):
            first, *more = asked_for(pending)
            say(f"   asks {first}")
            for line in more:
                say(f"        {line}")
    say(f"{many(view['expansions'], 'expansion')}, {many(view['tokens'], 'token')}")
    answer = view["synthesis_answer"]
    for line in (GONE if answer is None else answer).splitlines() if view["outcome"] == "synthesis" else ():
        say(f"  {line}")
    return 0
