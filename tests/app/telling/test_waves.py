"""A plan as it is shown: by waves, however long it is."""

import re

from hansard.app.telling.waves import levels
from running import Answers, desk, plan, task


def test_levels_count_the_steps_before_a_task() -> None:
    assert levels({"a": (), "b": ("a",), "c": ("a", "b"), "d": ()}) == {"a": 0, "b": 1, "c": 2, "d": 0}
    chain = {str(at): (str(at - 1),) if at else () for at in range(20_000)}
    assert levels(chain)["19999"] == 19_999


def test_what_waits_for_itself_or_for_what_is_not_there_has_no_place() -> None:
    assert levels({"a": ("b",), "b": ("a",), "c": ("a",), "d": ("z",), "e": ()}) == {"e": 0}


async def test_the_page_of_a_run_shows_its_plan_by_waves() -> None:
    at = desk(Answers())
    work = plan(task("last", "b", "c"), task("a"), task("b", "a"), task("c"), task("d", "a"))
    page = at.runs.page((await at.run(plan=work)).run)
    waves = page.partition('<div class="waves"')[2].partition("<h2>")[0].split("<div class=wave>")[1:]
    assert [re.findall("<strong>(.*?)</strong>", wave) for wave in waves] == [["a", "c"], ["b", "d"], ["last"]]
