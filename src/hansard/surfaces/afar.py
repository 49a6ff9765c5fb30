"""What is told to whoever asks over HTTP or MCP: he has no command line here, and paths of this machine tell him nothing.

Messages are written for whoever types commands. Where a route or a tool does what a command does, it is named in its place; what only
the keeper of the ledger can do keeps its command. Knows nothing of HTTP or MCP but the names.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from hansard.app.service import Hansard
from hansard.app.views import View

Side = Literal["http", "mcp"]
THE_LEDGER = "this ledger"
_WORD = r"('[^']*'|[^\s`;,)]+)"
WAYS = [
    (re.compile(pattern), {"http": route, "mcp": tool})
    for pattern, route, tool in (
        (r"hansard runs(?: list)?(?! ?[\w-])", "GET /v1/runs", "runs_list"),
        (rf"hansard runs show {_WORD}", "GET /v1/runs/{}", "run_show"),
        (rf"hansard runs follow {_WORD}", "GET /v1/runs/{}/events", "run_follow"),
        (rf"hansard runs resume {_WORD}", "POST /v1/runs/{}/resume", "run_resume"),
        (rf"hansard runs retry {_WORD} {_WORD}", "POST /v1/runs/{}/tasks/{}/retry", None),
        (r"hansard gates list", "GET /v1/gates", "gates_list"),
        (rf"hansard gates show {_WORD}", "GET /v1/gates/{}", "gates_list"),
        (r"hansard submit REQUEST", "POST /v1/runs", "submit"),
        (rf"hansard deliberate --continue {_WORD}", "POST /v1/deliberations/{}/continue", "deliberate_continue"),
        (rf"hansard ledger get {_WORD} --part {_WORD}", "GET /v1/ledger/entries/{}/parts/{}", "ledger_get"),
        (rf"hansard ledger get {_WORD}", "GET /v1/ledger/entries/{}", "ledger_get"),
        (rf"hansard ledger causes {_WORD}", "GET /v1/ledger/entries/{}/causes", "causes"),
        (
            rf"run: hansard verify(?: --deep)?(?: {THE_LEDGER})?",
            "POST /v1/ledger/verify tells more",
            "verify tells more",
        ),
        (rf"hansard verify(?: --deep)?(?: {THE_LEDGER})?", "POST /v1/ledger/verify", "verify"),
    )
]


def from_afar(message: str, hansard: Hansard, side: Side) -> str:
    """A message as it is told to somebody who is not at this machine."""
    place = hansard.store.place
    for spelled in (shlex.quote(place), place):
        message = message.replace(f" --ledger {spelled}", "")
        message = re.sub(rf"(?<![\w/.-]){re.escape(spelled)}(?![\w/.-]*\w)", THE_LEDGER, message)
    for folder in sorted(set(_folders(hansard)), key=len, reverse=True):
        inside, whole = rf"(?<![\w/.-]){re.escape(folder)}/(?=\w|\.)", rf"(?<![\w/.-]){re.escape(folder)}(?![\w/.-]*\w)"
        message = re.sub(whole, Path(folder).name, re.sub(inside, "", message))
    for command, said in WAYS:
        if (instead := said[side]) is not None:
            message = command.sub(_written(instead), message)
    return message


def view_from_afar(view: View, hansard: Hansard, side: Side) -> View:
    """A view of a run or a deliberation, as it is shown to him: its messages say no path. `run_dir` is the name by which tools
    take a session, and stays."""
    told: View = {}
    if fault := view.get("fault"):
        told["fault"] = from_afar(fault.replace(f"{Path(view['run_dir']).parent}/", ""), hansard, side)
    if left := view.get("interrupted"):
        told["interrupted"] = {**left, "why": from_afar(left["why"], hansard, side)}
    return view | told


def _written(way: str) -> Callable[[re.Match[str]], str]:
    """What stands in place of a command, with its words as they stand in an address."""
    return lambda found: way.format(
        *(quote(word.strip("'"), "/", errors="backslashreplace") for word in found.groups())
    )


def _folders(hansard: Hansard) -> Iterator[str]:
    """The folders of this machine of which a message may speak."""
    settings = hansard.settings
    named = [Path(hansard.store.place).parent, settings.state, settings.folder]
    for folder in (*named, *(each.resolve() for each in named)):
        if folder.is_absolute() and folder != Path(folder.anchor):
            yield str(folder)
