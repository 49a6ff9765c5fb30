"""Writes a roster as people write one."""

import json
from collections.abc import Mapping
from typing import Any

from hansard.domain.roster import Roster


def roster_as_toml(roster: Roster) -> str:
    """The roster as a file that `parse_roster` reads back to an equal one."""
    blocks = [f"name = {_toml(roster.name)}\n"]
    for lane in roster.lanes:
        data = lane.as_data()
        budget = data.pop("budget", None)
        blocks.append("[[lane]]\n" + _lines(data))
        if budget is not None:
            blocks.append("[lane.budget]\n" + _lines(budget))
    return "\n".join(blocks)


def _lines(data: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in data.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_toml(item)},\n" for item in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
