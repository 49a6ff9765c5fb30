"""What both sides deliberate: the same configuration and the same answers. Standard library only."""

from typing import Any

AGENTS = ("ada", "ben", "cyd", "dan", "eve")
COORDINATOR = "chair"
TURN = "What was said before does not follow, and here is why it does not. " * 30
_USAGE = {"prompt_tokens": 900, "completion_tokens": 400, "total_tokens": 1300, "cost_usd": 0.0001}
_NONE: dict[str, Any] = {"resolved_disagreements": [], "unresolved_disagreements": []}


def configuration(rounds: int) -> dict[str, Any]:
    """Five agents and a coordinator, with budgets that are never reached."""
    return {
        "schema_version": "1.0.0",
        "session_id": "bench",
        "originator": "user",
        "problem_statement": "What now?",
        "selector": {
            "strategy": "fixed",
            "default_deliberation_panel": list(AGENTS),
            "coordinator_agent": COORDINATOR,
        },
        "agents": [_agent(id) for id in AGENTS],
        "coordinator": _agent(COORDINATOR),
        "budget": {
            "max_total_tokens": 10**9,
            "max_total_cost_usd": 10**6,
            "max_rounds": rounds,
            "max_wallclock_seconds": 10**6,
        },
        "runtime": {},
    }


def script(rounds: int) -> dict[str, Any]:
    """So many rounds of turns of 2,000 characters, then a synthesis."""
    entries = []
    for number in range(1, rounds + 1):
        entries += [_entry({"text": f"{number} {agent} {TURN}"[:2000]}) for agent in AGENTS]
        entries.append(_entry(_verdict("continue" if number < rounds else "finalize")))
    entries.append(_entry({"integrated_answer": "Yes.", **_NONE}))
    return {"schema_version": "1.0.0", "entries": entries}


def messages(rounds: int) -> int:
    return rounds * (len(AGENTS) + 1) + 2


def _agent(id: str) -> dict[str, Any]:
    persona = {
        "persona_class": "horizontal",
        "id": id,
        "reasoning_scope": f"scope of {id}",
        "reasoning_style": f"style of {id}",
        "behavioral_constraints": ["be brief"],
        "failure_modes": ["talks too much"],
    }
    return {"id": id, "persona_ref": persona, "provider": "fake", "model": "m"}


def _verdict(action: str) -> dict[str, Any]:
    said = {"next_action": action, "rationale": "because", "confidence": 0.5, "focus": "the point", "next_agents": []}
    return {**said, **_NONE}


def _entry(output: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "messages": [],
        "tool_events": [],
        "usage": _USAGE,
        "finish_reason": "stop",
        "structured_output": output,
        "raw": None,
        "error": None,
    }
    return {"result": result}
