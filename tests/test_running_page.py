"""What docs/running.md says of plans, exit codes and tables is what the code does."""

import json
import re
from pathlib import Path

from hansard.app.settings import KNOWN
from hansard.domain.roster import Policy, Roster
from hansard.orchestration.plan import Check, Need, Task, parse_plan
from hansard.surfaces.cli.driving import EXIT

PAGE = (Path(__file__).parent.parent / "docs" / "running.md").read_text("utf-8")


def test_the_exit_codes_are_those_of_the_page() -> None:
    told = re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert {state: int(code) for state, code in told} == EXIT


def test_the_page_names_everything_that_the_settings_may_hold() -> None:
    told = re.findall(r"`\[{0,2}(\w+)[^`|]*`", PAGE.split("## hansard.toml")[1])
    assert set(KNOWN) - set(told) == set()


def test_the_plan_of_the_page_is_one() -> None:
    [block] = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    plan = parse_plan(json.loads(block), Roster.default(), Policy(), commands=True)
    assert [task.id for task in plan.tasks] == ["schema", "api"]


def test_the_page_names_every_key_of_a_task() -> None:
    task = Task(
        id="t",
        lane="backend",
        instruction="x",
        needs=(Need(task="u"),),
        done_when=("y",),
        checks=(Check(kind="regex", value="z"),),
        on_upstream_failure="run",
    )
    told = re.findall(r"^\| `(\w+)` \| (?:list|text|`skip`)", PAGE, re.MULTILINE)
    assert set(told) == set(task.as_data())
