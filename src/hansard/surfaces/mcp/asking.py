"""Asking the person behind a client for a decision at a gate, as each generation of the protocol does it.

Only where decisions were granted, and only a decision in so many words counts: whoever declines or closes the form has decided nothing.
"""

import asyncio
import json
from dataclasses import replace
from itertools import count
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)

from hansard.app.people import human
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.surfaces.mcp.results import sendable
from hansard.surfaces.mcp.tool import Call

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["approve", "reject"]},
        "note": {"type": "string", "title": "Note", "maxLength": 10_000},
    },
    "required": ["decision"],
}
SHOWN = 4_000


def may_decide(call: Call) -> bool:
    """Whether this caller's decisions count: that was granted here and, where there are tokens, his may approve."""
    return call.desk.gates and (call.token is None or call.token.may("approver"))


def can_be_asked(call: Call) -> bool:
    elicits = ClientCapabilities(elicitation=ElicitationCapability())
    return may_decide(call) and call.ctx.session.check_client_capability(elicits)


def questions(call: Call, run: str) -> dict[str, ElicitRequest]:
    """A form for each open gate of a run that this caller has not decided at yet; its key is the gate's."""
    found, gates = {}, call.desk.hansard.gates
    for gate in gates.listed(run=run):
        if any(each["by"] == (call.actor or human()) for each in gate["decisions"]):
            continue
        form = ElicitRequestFormParams(message=_message(gates.show(gate["gate"])), requested_schema=FORM)
        found[str(gate["gate"])] = ElicitRequest(params=form)
    return found


def _message(gate: View) -> str:
    what = f"task {gate['task']}" if gate["task"] else f"the {gate['before']}"
    results = [f"Built on the result of {each['task']}:\n\n{each['text'] or ''}" for each in gate["built_on"]]
    text = sendable("\n\n".join([str(gate["question"] or ""), *results]))
    cut = "" if len(text) <= SHOWN else f"\n… ({len(text) - SHOWN:,} more characters: gates_list shows all)"
    return f"Run {gate['run']} waits at gate {gate['gate']} before {what}. Approve?\n\n{text[:SHOWN]}{cut}"


def input_required(call: Call, run: str, asked: dict[str, ElicitRequest]) -> InputRequiredResult:
    """The answer that asks back; the state says which run it is about and how much was told of it, and the server seals it."""
    state = json.dumps({"run": run, "step": next(call.steps)})
    return InputRequiredResult(input_requests=dict(asked), request_state=state)


def taken_up(call: Call) -> tuple[Call, str]:
    """The call that comes again as the one that it goes on from, and its run. To whoever waits the two are one."""
    state = json.loads(call.state or "")
    return replace(call, steps=count(state["step"])), str(state["run"])


async def decide(call: Call, run: str, answers: InputResponses) -> int:
    """Record what was decided; answers to what nobody asks, or of whom nobody would ask, are passed over. Gives how many counted."""
    if not may_decide(call):
        # What an approver was asked may come back from somebody else.
        return 0
    open_now = await asyncio.to_thread(questions, call, run)
    counted = 0
    for key, answer in answers.items():
        decision = _decision(answer)
        if key in open_now and decision:
            await _record(call, key, *decision)
            counted += 1
    if counted:
        call.desk.nudge(run)
    return counted


def _decision(answer: object) -> tuple[str, str | None] | None:
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return None
    content = answer.content or {}
    decision, note = content.get("decision"), content.get("note")
    if decision not in ("approve", "reject"):
        raise UsageError(f"the decision is {decision!r:.40}; it must be approve or reject")
    return str(decision), str(note) if note else None


async def _record(call: Call, gate: str, decision: str, note: str | None) -> None:
    await call.desk.hansard.gates.decide(
        gate,
        decision,  # type: ignore[arg-type]
        actor=call.actor,
        note=note,
        authenticated=call.token is not None,
    )


async def ask_now(call: Call, run: str, asked: dict[str, ElicitRequest]) -> int:
    """Ask a client of an older generation, in the middle of his call. Gives how many decisions counted."""
    counted = 0
    for key, question in asked.items():
        assert isinstance(question.params, ElicitRequestFormParams)
        try:
            answer = await call.ctx.session.elicit_form(
                question.params.message, question.params.requested_schema, call.ctx.request_id
            )
        except MCPError:
            # He could not be asked, then.
            continue
        counted += await decide(call, run, {key: answer})
    return counted
