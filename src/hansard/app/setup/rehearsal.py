"""The rehearsal: canned answers for every role, so that a run can be seen through without a model. Marked as such throughout."""

from typing import Any

from hansard.domain.roster import Roster

REHEARSAL = "rehearsal"


def rehearsal_table(roster: Roster) -> dict[str, Any]:
    """A scripted provider that goes through the motions with the first lanes of a roster."""
    first, second = roster.names[0], roster.names[1 % len(roster.names)]
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
        ]
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
                "structured": {"ok": True, "score": 0.5, "reasons": f"{said}what a judge thinks of the result."},
            },
            {"match": {"role": "synthesizer"}, "text": f"{said}the answer."},
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
