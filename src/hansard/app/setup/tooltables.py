"""Tools as hansard.toml has them: `[tools.NAME]` says what runs a tool and, for panels, what a model is told of it."""

from collections.abc import Collection, Mapping
from typing import Any

from hansard.app.settings import Settings
from hansard.domain.exchange import Tool
from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.orchestration.seams import read_seam
from hansard.providers.checks import check_tool


@value
class ToolTable:
    """One tool: what runs it, as it is recorded, and how it is declared."""

    runs: Mapping[str, Any]
    declared: Mapping[str, Any]


def tool_of(settings: Settings, name: str) -> ToolTable:
    """The tool of this name, strictly. UsageError where nobody wrote it down."""
    if name not in settings.tools:
        known = ", ".join(sorted(settings.tools)) or "none are written down"
        raise UsageError(f"there is no tool {name!r} ({known}); write [tools.{name}] into hansard.toml")
    fields = Fields(settings.tools[name], f"[tools.{name}]")
    declared: dict[str, Any] = {
        "name": name,
        "description": fields.text("description") or name,
        "input_schema": dict(fields.table("input_schema")) or {"type": "object"},
    }
    try:
        check_tool(Tool(**declared))
    except UsageError as error:
        raise UsageError(f"{fields.where}: {error}") from error
    table = ToolTable(runs=read_seam(fields), declared=declared)
    fields.done()
    return table


def handlers_of(settings: Settings, names: Collection[str], given: Collection[str]) -> dict[str, dict[str, Any]]:
    """What runs the tools of these names, as far as somebody does; what a program hands in goes before."""
    found = {name: dict(tool_of(settings, name).runs) for name in names if name in settings.tools}
    return found | {name: {"python": name} for name in names if name in given}
