"""Whether a plan would run programs here. What is no plan runs none; whether that is wrong is for whoever takes it to say."""

import json
from typing import Any


def runs_programs(plan: Any) -> bool:
    """Whether a check of one of its tasks is a command."""
    return any(
        isinstance(check, dict) and "command" in check
        for task in _list(plan, "tasks")
        for check in _list(task, "checks")
    )


def as_plan(edit: str) -> Any:
    """The plan that somebody writes at a gate, or None."""
    try:
        return json.loads(edit)
    except (ValueError, RecursionError):
        return None


def _list(given: Any, name: str) -> list[Any]:
    found = given.get(name) if isinstance(given, dict) else None
    return found if isinstance(found, list) else []
