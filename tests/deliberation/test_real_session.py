"""A session on a real model: five personas, two rounds, JSON held to its shape by a grammar; the artifact and its page are real.

The model is small and knows hardly anything. What it says is not asserted; that it makes a session of the protocol is.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reference_runtime
from hansard.app.archived.evaluating import figures, find_held
from hansard.app.ledgers.verifying import verify_apart
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.convening import Call, convening, default_config
from hansard.app.telling.sessionpage import session_page
from hansard.deliberation.afterwards.validate import directory_breaches
from hansard.domain.exchange import Completion, Exchange, Schema
from hansard.providers.base import Heard, Wrapper, answered
from hansard.providers.local import Local, Serving
from hansard.providers.openai import open_openai
from providers.small_model import weights

pytestmark = pytest.mark.real_model

PROBLEM = "Should a small club keep its own mail server? Answer in a few words."
LONGEST, MOST = 80, 1


class Terse(Wrapper):
    """The model with its grammar made tighter: a model of this size never comes to an end by itself.

    The coordinator has to go on in round 1 and to finish in round 2.
    """

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        action = "continue" if exchange.metadata["round"] == 1 else "finalize"
        schema = tightened(exchange.schema or {}, action)
        limits = replace(exchange.limits, max_output_tokens=700)
        completion = await self.inner.complete(replace(exchange, schema=schema, limits=limits))
        heard.usage = completion.usage
        return completion


def tightened(schema: Schema, action: str) -> dict[str, Any]:
    """The shape with only what must be there, and short."""
    kept = dict(schema)
    if kept.get("type") == "string" and "enum" not in kept:
        kept |= {"minLength": 1, "maxLength": LONGEST}
    if kept.get("type") == "number":
        # A grammar knows no bounds of numbers, and a model of this size is a hundred times sure.
        kept = {"enum": [0.25, 0.5, 0.75]}
    if kept.get("type") == "array":
        kept |= {"maxItems": MOST, "items": tightened(kept["items"], action)}
    if isinstance(properties := kept.get("properties"), Mapping):
        needed = {
            name: tightened(each, action) for name, each in properties.items() if name in kept.get("required", ())
        }
        if "next_action" in needed:
            needed["next_action"] = {"type": "string", "enum": [action]}
        kept |= {"properties": needed, "additionalProperties": False}
    if "$defs" in kept:
        kept["$defs"] = {name: tightened(each, action) for name, each in kept["$defs"].items()}
    return kept


async def test_a_real_model_holds_a_session_that_both_validators_accept(tmp_path: Path) -> None:
    file = await asyncio.to_thread(weights)
    serving = Serving(library=file.parent.parent, weights=file, context=8192, environment={"PATH": "/usr/bin:/bin"})
    model = Terse(Local("small", serving, open_openai))
    settings = Settings(ledger=str(tmp_path / "l.db"), state=tmp_path / "state")
    async with Hansard.open(settings=settings, providers={"small": model}) as hansard:
        call = Call(config=default_config(PROBLEM, "small", "smollm2"), max_rounds=2, runs=tmp_path / "runs")
        run = await hansard.deliberations.convene(convening(hansard.settings, hansard.pool, call))
        try:
            sat = await hansard.deliberations.hold(run)
        finally:
            await model.close()
        artifact, folder = sat.sitting.artifact, sat.sitting.directory
        held = find_held(run, tmp_path, hansard.store)
    assert sat.sitting.reason == "synthesis", artifact["outcome"]
    assert len({message["speaker"] for message in artifact["canonical_transcript"]}) == 7
    assert max(message["round"] for message in artifact["canonical_transcript"]) == 2
    assert folder is not None
    assert directory_breaches(folder) == []
    done = reference_runtime.command("validate", folder / "artifact.json")
    assert done.returncode == 0, done.stderr
    assert figures(held)["tokens_cumulative"]["total_tokens"] > 1_000
    (tmp_path / "page.html").write_text(session_page(held.artifact, held.events), "utf-8")
    assert (await asyncio.to_thread(verify_apart, settings.ledger, deep=True))["ok"] is True
