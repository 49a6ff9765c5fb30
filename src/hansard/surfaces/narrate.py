"""A run told in plain lines, one for each thing that happens: for terminals without rich, for logs, for `runs follow`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hansard.app.telling.checks import detail_of
from hansard.app.telling.runviews import said_of_interruption
from hansard.app.views import of_limit, usd
from hansard.surfaces.hearing import Event, Text
from hansard.surfaces.plain import plain

WIDEST = 110
LONGEST_REASON = 300


def line(event: Event) -> str | None:
    """What happened, as one line; None for what nobody needs to hear of."""
    told = _told(event.kind, event.data, event.text)
    if told is None:
        return None
    word, *rest = told
    return f"{word:<11} {plain(' '.join(str(each) for each in rest if each))[:WIDEST]}".rstrip()


def _told(kind: str, data: Mapping[str, Any], text: Text) -> tuple[Any, ...] | None:
    if kind.startswith("task."):
        return _of_task(kind, data, text)
    match kind:
        case "run.requested":
            return "requested", first_line(text("request") or "")
        case "run.claimed":
            return None if data["because"] == "new" else ("resumed", "from the record")
        case "run.routed":
            certain = f"{data['confidence_ppm'] / 10_000:.0f} %"
            return ("routed", "to", data["lane"], certain) if data.get("lane") else ("routed", "no lane is certain")
        case "context.given" if data["failed"]:
            return "no context", data["source"], data.get("task"), f"({first_line(text('context') or '')})"
        case "plan.made":
            return "planned", f"{many(data['tasks'], 'task')} in {many(data['waves'], 'wave')}, by the {data['by']}"
        case "role.answered" | "turn.failed" if data.get("pause_us"):
            return "waits", pause(data)
        case "role.asked" if data["role"] in ("coordinator", "synthesizer", "classifier"):
            return "asked", f"the {data['role']}", f"({data['model']})"
        case "persona.made" if data["accepted"]:
            return "made", "the persona", data["persona"]
        case "persona.made":
            return "not made", "a persona; what was said:", first_line(text("definition") or "")
        case "session.convened":
            return "convened", "a panel"
        case "panel.selected":
            return "seated", ", ".join(data["agents"]) or "nobody"
        case "tools.called":
            return "uses", data["agent"], f"({', '.join(data['tools'])})"
        case "turn.taken" if data["type"] not in ("problem_statement", "synthesis"):
            return "spoke", data["speaker"], f"({data['type'].replace('_', ' ')}, round {data['round']})"
        case "session.ended":
            why = f"({data['why']})" if data.get("why") else None
            return "panel ended", data.get("reason") or data["outcome"], why
        case "budget.breached":
            return "budget", of_limit(data["unit"], data["spent"], data["limit"]), data.get("lane")
        case "run.answered":
            missing = ", ".join(data.get("missing") or ())
            return "answered", f"without {missing}" if missing else None
        case "answer.checked":
            return "checked", f"{data['check'].replace('_', ' ')}: {data['outcome']}"
        case "gate.opened":
            return "waiting", f"at gate {data['gate']}, before the {data['before']}", data.get("task")
        case "gate.closed":
            return "decided", f"gate {data['gate']}: {data['outcome']}"
        case "run.interrupted":
            return "interrupted", first_line(said_of_interruption(data["by"], text("why")), WIDEST)
        case "run.cancel_asked" | "run.resume_asked":
            return kind.removeprefix("run.").replace("_", " "), None
        case "run.retry_asked":
            return "retry asked", data["task"]
        case "run.ended":
            why = data["reason"].replace("_", " ")
            return "ended", data["state"] if why == data["state"] else f"{data['state']}: {why}"
    return None


def _of_task(kind: str, data: Mapping[str, Any], text: Text) -> tuple[Any, ...] | None:
    task = data["task"]
    match kind:
        case "task.attempted":
            again = f", attempt {data['attempt']}" if data["attempt"] > 1 else ""
            return "started", task, f"({data['lane']}, {data['rung']}: {data['provider']} {data['model']}{again})"
        case "task.returned" if not data["ok"]:
            later = f"(again in {duration(data['pause_us'] / 1e6)})" if data.get("pause_us") else None
            return "came to naught", task, data.get("error"), later
        case "task.judged" if data["ok"]:
            score = data.get("score_ppm")
            return "passed", task, f"(score {score / 1e6:.2f})" if score is not None else None
        case "task.judged":
            return "rejected", task, f"({reason(text('reasons'))})"
        case "task.escalated":
            return "climbs", task, f"({data['from_rung']} to {data['to_rung']})"
        case "task.skipped":
            return "skipped", task, f"({data.get('upstream') or data['because']})"
        case "task.restarted":
            return "restarted", task, "(it was cut short)"
    return None


def reason(findings: str | None) -> str:
    """Why a result was rejected: what the last check that failed says."""
    try:
        rows = [row for row in json.loads(findings or "[]") if not row["ok"]]
        return detail_of(rows[-1]) if rows else ""
    except (ValueError, KeyError, TypeError):
        return findings or ""


def against(verdict: Mapping[str, Any]) -> str:
    """What a verdict says against a result, in one line."""
    return first_line(reason(verdict["reasons"]), LONGEST_REASON)


def first_line(text: str, most: int = 80) -> str:
    """The first line of a text, safe for a terminal, and short."""
    found = plain(next((line for line in text.strip().splitlines() if line.strip()), ""))
    return found if len(found) <= most else f"{found[: most - 1]}…"


def spent(calls: int, tokens: int, cost_usd_nano: int, unpriced: Sequence[str] = ()) -> str:
    """What was spent; of models without a price nobody knows how much that was."""
    unknown = f" (no price is known of {', '.join(map(first_line, unpriced))})" if unpriced else ""
    return f"{many(calls, 'call')}, {tokens:,} tokens, {dollars(cost_usd_nano)}{unknown}"


def pause(data: Mapping[str, Any]) -> str:
    """The pause before a role or an agent is asked again, with why; nothing where none is made."""
    if not data.get("pause_us"):
        return ""
    whom = f"the {data['role']}" if "role" in data else data["agent"]
    return f"{duration(data['pause_us'] / 1e6)} before {whom} is asked again: {data.get('error')}"


def dollars(usd_nano: int) -> str:
    return f"${usd(usd_nano)}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes} min {left:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def many(count: int, name: str) -> str:
    """A number of things, and one of them in the singular."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"
