"""A panel argues to a synthesis, with a tool in Python; its transcript is replayed to the digest that it was given."""

import tempfile
from collections.abc import Mapping

from hansard import run_session, transcript_replay
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

YEAR = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
ALMANAC = {"name": "almanac", "description": "What happened in a year.", "input_schema": YEAR}
PANEL = ["critic", "engineer"]
FAKE = {"provider": "fake", "model": "fake-1"}
CONFIG = {
    "schema_version": "1.0.0",
    "session_id": "moon",
    "originator": "user",
    "problem_statement": "Shall we go to the moon?",
    "selector": {"strategy": "fixed", "default_deliberation_panel": PANEL, "coordinator_agent": "coordinator"},
    "agents": [
        {"id": "critic", "persona_ref": "critic", "tools": [ALMANAC], **FAKE},
        {"id": "engineer", "persona_ref": "engineer", **FAKE},
    ],
    "coordinator": {"id": "coordinator", "persona_ref": "coordinator", **FAKE},
    "budget": {"max_total_tokens": 10_000, "max_total_cost_usd": 1.0, "max_rounds": 2, "max_wallclock_seconds": 60},
    "runtime": {},
}
SETTLED: dict[str, object] = {"resolved_disagreements": [], "unresolved_disagreements": []}
GOES = {"next_action": "finalize", "rationale": "They agree.", "confidence": 0.9, "focus": "it", "next_agents": []}
ANSWERS = [
    {"calls": [{"id": "c1", "name": "almanac", "arguments": {"year": 1969}}]},
    {"structured": {"text": "It was done in 1969."}},
    {"structured": {"text": "Then it can be done."}},
    {"structured": GOES | SETTLED},
    {"structured": {"integrated_answer": "Yes: it was done in 1969.", "confidence": 0.9} | SETTLED},
]


async def almanac(arguments: Mapping[str, object]) -> str:
    return f"In {arguments['year']} somebody walked on the moon."


with tempfile.TemporaryDirectory() as folder:
    model = Scripted(Script.of({"mode": "sequential", "entries": ANSWERS}))
    held = run_session(CONFIG, model, tools={"almanac": almanac}, runs_root=folder, ledger="memory:")
    print(held.outcome.kind, held.cumulative_usage.total_tokens, "tokens")
    print(held.answer)
    print("replayed to its digest:", transcript_replay(held).matches)
