"""The rehearsal: canned answers for every role, so that a run can be seen through without a model. Marked as such throughout."""

from collections.abc import Sequence
from typing import Any

from hansard.domain.roster import Lane

REHEARSAL = "rehearsal"


def rehearsal_table(lanes: Sequence[Lane], most: int) -> dict[str, Any]:
    """A scripted provider that goes through the motions with the first of these lanes, in at most so many tasks."""
    first, second = lanes[0].name, lanes[1 % len(lanes)].name
    said = "[rehearsal] No model was asked. Here would stand "
    plan = {
        "tasks": [
            {"id": "look", "lane": first, "instruction": "Rehearse: look into it.", "needs": [], "done_when": []},
            {
                "id": "build",
                "lane": second,
                "instruction": "Rehearse: build on what was found.",
                "needs": [{"task": "look", "kind": "data"}],
                "done_when": [],
            },
        ][:most]
    }
    return {
        "kind": "scripted",
        "model": REHEARSAL,
        "on_exhaustion": "loop",
        "entries": [
            {"match": {"role": "coordinator"}, "structured": plan},
            {
                "match": {"role": "classifier"},
                "structured": {"lane": first, "confidence": 0.5, "reason": f"{said}why this lane fits."},
            },
            {"match": {"role": "worker"}, "text": f"{said}the result of the task."},
            {
                "match": {"role": "validator"},
                "structured": {"ok": True, "score": 0.5, "reasons": f"{said}a verdict."},
            },
            {"match": {"role": "synthesizer"}, "text": f"{said}the answer."},
            {
                "match": {"role": "intent_judge"},
                "structured": {"drifted": False, "reason": f"{said}whether the answer serves the request."},
            },
        ],
    }


def panel_rehearsal_table() -> dict[str, Any]:
    """A scripted provider that goes through the motions of one round and a synthesis."""
    said = "[rehearsal] No model was asked. Here would stand "
    none: dict[str, Any] = {"resolved_disagreements": [], "unresolved_disagreements": []}
    verdict = {
        "next_action": "finalize",
        "rationale": f"{said}why the panel is done.",
        "confidence": 0.5,
        "focus": f"{said}what matters most.",
        "next_agents": [],
        **none,
    }
    expert = {
        "id": "rehearsed-expert",
        "reasoning_scope": f"{said}what the expert speaks for.",
        "reasoning_style": f"{said}how the expert thinks.",
        "behavioral_constraints": [f"{said}what the expert keeps to."],
        "failure_modes": [f"{said}where the expert goes wrong."],
        "output_requirements": [],
        "domain_scope": [],
        "delegates": [],
    }
    return {
        "kind": "scripted",
        "model": REHEARSAL,
        "on_exhaustion": "loop",
        "entries": [
            {
                "match": {"schema": "turn_structured_output"},
                "structured": {"text": f"{said}what this agent thinks."},
            },
            {
                "match": {"schema": "ensemble_answer"},
                "structured": {"text": f"{said}what this agent would answer alone."},
            },
            {"match": {"schema": "verdict"}, "structured": verdict},
            {"match": {"schema": "expert"}, "structured": expert},
            {
                "match": {"schema": "synthesis_content"},
                "structured": {"integrated_answer": f"{said}the answer.", **none},
            },
        ],
    }
