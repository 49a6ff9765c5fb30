"""Tells a model what was wrong with an answer that has not the shape it was asked for, and which answers are worth that.

Who asks, how often, and what each attempt costs is the driver's affair: he records and charges every one of them.
"""

from dataclasses import replace

from hansard.domain.exchange import Completion, Exchange, Message

NOTHING_SAID = "(no text)"


def wants_correction(completion: Completion) -> bool:
    """Whether another turn that quotes the fault may help."""
    why = completion.failure
    return why is not None and why.kind == "malformed_response" and why.retryable


def corrected(exchange: Exchange, completion: Completion) -> Exchange:
    """The same question once more, with the malformed answer word for word and what is wrong with it [R-6.7-4]."""
    details = completion.failure.details if completion.failure else {}
    said = completion.text or details.get("raw_attempt") or NOTHING_SAID
    added = (
        Message(role="assistant", content=str(said)),
        Message(role="user", content=_correction(exchange, completion)),
    )
    return replace(exchange, messages=(*exchange.messages, *added), metadata=_next_turn(exchange))


def _correction(exchange: Exchange, completion: Completion) -> str:
    why = completion.failure
    details = why.details if why else {}
    path = details.get("failing_path") or "(the whole answer)"
    message = details.get("validator_message") or (why.message if why else "")
    return (
        f"Your last answer is not a valid `{exchange.schema_name}`.\n"
        f"Where: {path}\nWhat is wrong: {message}\n"
        f"Answer again with one bare JSON object that fits the `{exchange.schema_name}` schema: "
        "no prose before or after it, no code fence."
    )


def _next_turn(exchange: Exchange) -> dict[str, str | int]:
    turn = exchange.metadata.get("turn", 1)
    return {**exchange.metadata, "turn": turn + 1 if isinstance(turn, int) else 2}
