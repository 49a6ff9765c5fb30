"""Runs on real programs in real processes, to be killed and resumed: a folder with its settings, its agents and its plan."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hansard
from hansard.app.ledgers.verifying import tools
from hansard.app.settings import Settings
from hansard.app.wiring import open_ledger
from hansard.ledger.entry import Entry
from hansard.ledger.verify import Options, Report, verify
from hansard.store.base import Query
from providers.programs import alive, described, marked_sleep, wait_until

DRIVER = Path(__file__).with_name("drive_a_run.py")
SOURCE = Path(hansard.__file__).parents[1]
LAYERS, WIDTH = 5, 8
STARTING_S = 0.3
# The mark stands in the arguments of everything that an agent starts, so that whatever outlives the driver is found.
AGENT = r"""
role=$1 mark=$2 folder=$3
echo "$role" >> "$folder/asked"
prompt=$(cat)
pause=0.005
case "$prompt" in *"a restless task"*) pause=0.02 ;; esac
if [ "$role" = "$(cat "$folder/patient")" ]; then pause=60; fi
if [ "$role" = "$(cat "$folder/deadly")" ]; then kill -9 "$(cut -d" " -f4 "/proc/$PPID/stat")"; fi
if [ "$pause" != 0.005 ]; then setsid sleep "$mark" > /dev/null 2>&1 & fi
sleep "$pause"
if [ "$pause" != 0.005 ]; then kill $!; fi
case $role in
cheap) case "$prompt" in *"a hard task"*) echo "poor work" ;; *) echo "good work" ;; esac ;;
capable) echo "good work" ;;
judge) case "$prompt" in
    *"poor work"*) echo '{"ok": false, "score": 0.1, "reasons": "this is poor"}' ;;
    *) echo '{"ok": true, "score": 0.9, "reasons": "it is good"}' ;;
    esac ;;
planner) cat "$folder/planned.json" ;;
writer) echo "the answer" ;;
esac
"""
ROLES = ("cheap", "capable", "judge", "planner", "writer")
SETTINGS = """
ledger = "ledger.db"
[run]
judge = "{judge}"
[tiers]
cheap = "cheap"
capable = "capable"
[roles]
validator = "judge"
coordinator = "planner"
synthesizer = "writer"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where one run lies, and the mark of every process that belongs to it."""

    folder: Path
    mark: str

    @classmethod
    def laid(cls, folder: Path, *, plan: Any = None, judge: str = "model") -> "Ground":
        """A new folder with all that a run needs; without a plan it has to be planned."""
        ground = cls(folder=folder, mark=marked_sleep())
        (folder / "agent.sh").write_text(AGENT, "utf-8")
        (folder / "planned.json").write_text(json.dumps(small_plan()), "utf-8")
        if plan is not None:
            (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
        ground.let_wait("nobody")
        ground.let_kill("nobody")
        tables = [ground._provider(role) for role in ROLES]
        (folder / "hansard.toml").write_text("\n".join((SETTINGS.format(judge=judge), *tables)), "utf-8")
        return ground

    def let_wait(self, role: str) -> None:
        """From here on the agent in this role takes longer than any test: the run can be killed while it is asked."""
        (self.folder / "patient").write_text(role, "utf-8")

    def let_kill(self, role: str) -> None:
        """From here on the agent in this role ends whoever drives the run, as a machine does that has no memory left."""
        (self.folder / "deadly").write_text(role, "utf-8")

    def _provider(self, role: str) -> str:
        argv = ["sh", str(self.folder / "agent.sh"), role, self.mark, str(self.folder)]
        return f'[providers.{role}]\nkind = "command"\nargv = {json.dumps(argv)}'

    @contextmanager
    def driven(self) -> "Iterator[subprocess.Popen[str]]":
        """A process that drives the run, from the moment at which it begins."""
        command = (sys.executable, str(DRIVER), str(self.folder))
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n", process.communicate()[1]
                yield process
            finally:
                process.kill()

    def drive(self) -> str:
        """Drive the run to its end; gives the state in which it ended."""
        with self.driven() as process:
            told, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        return told.strip()

    def strike(self, after_s: float, number: int = signal.SIGKILL) -> None:
        """Drive the run, and send a signal after a while."""
        with self.driven() as process:
            time.sleep(after_s)
            process.send_signal(number)
            process.communicate(timeout=60)

    def strike_when(self, role: str, number: int = signal.SIGKILL) -> str:
        """Drive the run, and send a signal once a role is asked; gives what the process wrote on stderr."""
        with self.driven() as process:
            assert wait_until(lambda: role in self.asked(), 60), self.asked()
            process.send_signal(number)
            return process.communicate(timeout=60)[1]

    def asked(self) -> list[str]:
        """The roles that were asked, in the order in which their programs began."""
        try:
            return (self.folder / "asked").read_text("utf-8").split()
        except FileNotFoundError:
            return []

    def entries(self) -> list[Entry]:
        with closing(open_ledger(Settings(ledger=self.ledger, state=self.folder / "state"))) as opened:
            return list(opened.store.select(Query()))

    def ended(self) -> bool:
        return any(entry.kind == "run.ended" for entry in self.entries())

    def verified(self) -> Report:
        return verify(self.ledger, Options(deep=True), tools())

    def forsaken(self) -> list[str]:
        """Processes of the run that are there although nobody drives it, after a while in which they may end."""
        if wait_until(self._nobody_left, 20):
            return []
        return [said for pid in alive(self.mark) if (said := described(pid))]

    def _nobody_left(self) -> bool:
        """Looked at twice: what was being started when its driver died shows the driver's arguments until it has its own."""
        if alive(self.mark):
            return False
        time.sleep(STARTING_S)
        return not alive(self.mark)

    @property
    def ledger(self) -> str:
        return str(self.folder / "ledger.db")


def forty_tasks() -> dict[str, Any]:
    """Layers with edges of data and of order; some tasks are too hard for the cheap agent, some start processes."""
    tasks: list[dict[str, Any]] = []
    for number in range(LAYERS * WIDTH):
        layer, place = divmod(number, WIDTH)
        kind = "a hard task" if number % 9 == 4 else "a restless task" if number % 9 == 7 else "a task"
        task: dict[str, Any] = {"id": f"t{number}", "lane": "backend", "instruction": f"{kind}, number {number}"}
        if "hard" in kind:
            task["checks"] = [{"command": ["grep", "-q", "good"]}]
        if layer:
            beside = (layer - 1) * WIDTH + (place + 1) % WIDTH
            task["needs"] = [f"t{number - WIDTH}", {"task": f"t{beside}", "kind": "order"}]
        tasks.append(task)
    return {"tasks": tasks}


def small_plan() -> dict[str, Any]:
    """What the planner plans."""
    first = {"id": "one", "lane": "backend", "instruction": "a task", "needs": [], "done_when": []}
    second = {**first, "id": "two", "needs": [{"task": "one", "kind": "data"}]}
    return {"tasks": [first, second]}


def repeated(entries: list[Entry]) -> list[str]:
    """Tasks that were attempted again although a verdict had passed them."""
    passed: set[str] = set()
    again = []
    for entry in entries:
        if entry.kind == "task.judged" and entry.data["ok"] is True:
            passed.add(str(entry.data["task"]))
        elif entry.kind == "task.attempted" and entry.data["task"] in passed:
            again.append(str(entry.data["task"]))
    return again
