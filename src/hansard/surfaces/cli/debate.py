"""A debate told live, line by line, on standard error: who speaks, what the coordinator makes of it, how it ends."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any, TextIO

from hansard.surfaces.cli.show import tell
from hansard.surfaces.narrate import first_line
from hansard.surfaces.plain import plain

WIDEST = 96
NAME = 14


class Debate:
    """Hears what sessions record. Says nothing where nobody looks."""

    def __init__(self, to: TextIO | None) -> None:
        self._to, self._round = to, 0

    def heard(self, _: str, recorded: Any) -> None:
        if self._to is not None:
            for line in self._lines(recorded.fact):
                tell(line, 2 + NAME + 1 if line.startswith(" ") else len("panel: "), self._to)
                self._to.flush()

    def _lines(self, fact: Any) -> list[str]:
        match fact.KIND:
            case "panel.selected":
                return [f"panel: {plain(', '.join(fact.agents))}; coordinator: {plain(fact.coordinator)}"]
            case "turn.taken" if fact.type != "problem_statement":
                opened = [f"round {fact.round}"] if fact.round > self._round else []
                self._round = fact.round
                return [*opened, _turn(fact)]
            case "tools.called":
                return [f"  {plain(fact.agent):<{NAME}} (uses {plain(', '.join(fact.tools))})"]
            case "turn.failed":
                again = "may be asked again" if fact.retriable else "not asked again"
                return [f"  {plain(fact.agent):<{NAME}} ({fact.error}; {again})"]
            case "session.ended" if fact.reason:
                return [f"ended: {fact.reason}"]
        return []


def _turn(fact: Any) -> str:
    content = json.loads(fact.message.data)["content"]
    match fact.type:
        case "coordination_turn":
            said = f"{content['next_action']} ({content['confidence']:.2f}): {content['focus']}"
        case "synthesis":
            said = f"synthesis: {content['integrated_answer']}"
        case "panel_contraction":
            said = f"{content['agent_id']} leaves the panel: {content['reason']}"
        case _:
            said = content["text"]
    asks = content.get("direct_requests") or []
    to = f" [asks {', '.join(str(each['target']) for each in asks)}]" if asks else ""
    mark = "↳ " if fact.branch_depth else ""
    return f"  {mark}{plain(fact.speaker):<{NAME - len(mark)}} {first_line(said, WIDEST)}{plain(to)}"


def debate(args: argparse.Namespace) -> Callable[[str, Any], None]:
    """The listener for what was asked for and where standard error goes."""
    wanted = "none" if args.quiet else args.progress
    shown = wanted == "plain" or (wanted == "auto" and sys.stderr.isatty())
    return Debate(sys.stderr if shown else None).heard
