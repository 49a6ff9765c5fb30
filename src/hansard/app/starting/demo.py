"""The demonstration: one request through the real engine, from route to answer, with a receipt for what was answered.

One of its tasks is rejected on two rungs and settled by a panel, whose session stands in the same run.

Only the models' answers are written down here, for a scripted provider; `local` asks a real small model on this machine instead.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hansard.app.ledgers.custody import receipt
from hansard.app.settings import Settings
from hansard.app.wiring import open_ledger
from hansard.errors import unwritten

REQUEST = "Build a sign-in service: an accounts table, rate limits against abuse, and a short guide for its users."
ACTOR = "human:demo"

PLAN = {
    "tasks": [
        {
            "id": "schema",
            "lane": "backend",
            "instruction": "Design the table for accounts, in one sentence.",
            "needs": [],
            "done_when": ["no password is stored"],
        },
        {
            "id": "limits",
            "lane": "sre-ops",
            "instruction": "Propose rate limits for sign-in, in one sentence.",
            "needs": [],
            "done_when": ["every limit is a number"],
        },
        {
            "id": "endpoint",
            "lane": "backend",
            "instruction": "Sketch the endpoint on this table, within these limits, in one sentence.",
            "needs": [{"task": "schema", "kind": "data"}, {"task": "limits", "kind": "data"}],
            "done_when": [],
        },
        {
            "id": "guide",
            "lane": "technical-writing",
            "instruction": "Write the guide for users, in two sentences.",
            "needs": [{"task": "limits", "kind": "data"}],
            "done_when": ["at most two sentences"],
        },
    ]
}

# Per task: how long it takes on the cheap rung, what comes back, and what the validator makes of it.
_WORK: tuple[tuple[str, str, float, str, bool, str], ...] = (
    (
        *("schema", "cheap", 0.5),
        "accounts(id, email_hash, password_hash, created_at), unique on email_hash.",
        *(True, "Only hashes are stored."),
    ),
    (
        *("limits", "cheap", 0.8),
        "Unlimited attempts are fine, as long as passwords are long.",
        *(False, "It names no limit at all, and unlimited attempts invite guessing."),
    ),
    (
        *("limits", "capable", 0.9),
        "Five attempts per account and minute.",
        *(False, "Nothing slows down one address that tries many accounts."),
    ),
    (
        *("limits", "panel:security", 0.0),
        "Five attempts per account and minute, fifty per address and hour, then a delay that doubles.",
        *(True, "Every limit is a number, and both ways in are covered."),
    ),
    (
        *("endpoint", "cheap", 0.7),
        "POST /sign-in looks the account up by email_hash, counts the attempt, and answers 401 or 429 alike in time.",
        *(True, "It builds on the table and on the limits."),
    ),
    (
        *("guide", "cheap", 0.4),
        "Sign in with your address and password. After five wrong tries, wait a minute.",
        *(True, "Two sentences, and they agree with the limits."),
    ),
)
_DISSENT = {
    "topic": "locking accounts out",
    "positions": [
        {"agent": "critic", "claim": "a lock is a way to lock others out"},
        {"agent": "engineer", "claim": "a lock is the simplest thing that works"},
    ],
}
# Who sits on the panel, and what each says.
_DEBATE = (
    ("critic", "An attacker with one address and a list of accounts never meets a limit per account."),
    ("engineer", "Then count per address too, and let the delay double instead of locking anybody out for good."),
)
_ANSWER = """\
Keep accounts(id, email_hash, password_hash, created_at), unique on email_hash. Allow five attempts per account
and minute and fifty per address and hour, then delay. POST /sign-in counts each attempt and answers 401 or 429.
Tell the users: after five wrong tries, wait a minute."""


def scripted(folder: Path, *, pace: float) -> Settings:
    """Two scripted models, a small and a large one. `pace` 1 lets them take their time, 0 none."""
    small, large = (
        {"kind": "scripted", "model": f"scripted-{name}", "entries": list(entries)}
        for name, entries in (("small", _small(pace)), ("large", _large(pace)))
    )
    return Settings(
        ledger=str(folder / "ledger.db"),
        state=folder / "state",
        providers={"small": small, "large": large},
        tiers={"cheap": "small", "capable": "large"},
        run={"ladder": ["cheap", "capable", "panel:security"]},
        panels={"security": {"agents": [agent for agent, _ in _DEBATE], "provider": "large", "max_calls": 6}},
        budget={"max_calls": 30, "max_seconds": 300},
    )


def local(folder: Path) -> Settings:
    """A real small model on this machine, on every rung: it works, judges and answers, on the plan of the demonstration."""
    return Settings(
        ledger=str(folder / "ledger.db"),
        state=folder / "state",
        providers={"local": {"kind": "local", "context": 8192}},
        tiers=dict.fromkeys(("cheap", "capable", "frontier"), "local"),
        # A model of this size never comes to an end by itself.
        run={"max_output_tokens": 400, "tries": 2},
        budget={"max_calls": 60, "max_seconds": 1800},
    )


def keep_receipt(settings: Settings, seq: int) -> Path:
    """A receipt for the answer, with the answer in it, beside the ledger."""
    path = Path(settings.ledger).with_name("answer.tlog-proof")
    with open_ledger(settings, writing=True) as opened:
        text = receipt(opened, seq, ("answer",))["receipt"]
    try:
        path.touch(0o600)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise unwritten(f"cannot write {path}: {error.strerror}", error) from error
    return path


def _small(pace: float) -> Iterator[dict[str, Any]]:
    for task, rung, latency_s, text, _, _ in _WORK:
        if rung == "cheap":
            yield {"match": {"role": "worker", "task": task}, "text": text, "latency_s": latency_s * pace}


def _large(pace: float) -> Iterator[dict[str, Any]]:
    yield {"match": {"role": "coordinator"}, "structured": PLAN, "latency_s": 0.6 * pace}
    for task, rung, latency_s, text, ok, reasons in _WORK:
        if rung == "capable":
            yield {"match": {"role": "worker", "task": task}, "text": text, "latency_s": latency_s * pace}
        verdict = {"ok": ok, "score": 0.9 if ok else 0.1, "reasons": reasons}
        attempt = {"cheap": 1, "capable": 2}.get(rung, 3)
        match = {"role": "validator", "task": task, "attempt": attempt}
        yield {"match": match, "structured": verdict, "latency_s": 0.3 * pace}
    yield {"match": {"role": "synthesizer"}, "text": _ANSWER, "latency_s": 0.6 * pace}
    yield from _panel(pace)


def _panel(pace: float) -> Iterator[dict[str, Any]]:
    """One round of the panel, its verdict and its synthesis."""
    for agent, text in _DEBATE:
        match = {"agent_id": agent, "schema": "turn_structured_output"}
        yield {"match": match, "structured": {"text": text}, "latency_s": 0.4 * pace}
    settled = next(text for task, rung, _, text, _, _ in _WORK if rung == "panel:security")
    verdict = {
        "next_action": "finalize",
        "rationale": "Both agree on two limits and a delay.",
        "confidence": 0.8,
        "focus": "what is left is a matter of taste",
        "next_agents": [],
        "resolved_disagreements": [],
        "unresolved_disagreements": [_DISSENT],
    }
    yield {"match": {"schema": "verdict", "agent_id": "coordinator"}, "structured": verdict, "latency_s": 0.3 * pace}
    synthesis = {"integrated_answer": settled, "resolved_disagreements": [], "unresolved_disagreements": [_DISSENT]}
    yield {"match": {"schema": "synthesis_content"}, "structured": synthesis, "latency_s": 0.3 * pace}
