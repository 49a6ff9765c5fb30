"""What every exchange is checked for before it is asked, and every completion before it is handed on.

Pure: it sees the two values and what the provider says of itself. The rules are those of the deliberation protocol's
section 6, kept for every provider, because third-party ones are wrong about them in good faith.
"""

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, get_args

from hansard.domain.budget import MOST_SPENT
from hansard.domain.exchange import (
    Completion,
    Cost,
    CostBasis,
    ErrorKind,
    Exchange,
    Failure,
    Tool,
    ToolCall,
    ToolEvent,
    Usage,
)
from hansard.domain.value import replace
from hansard.errors import UsageError
from hansard.providers.parse import Reading, judged, plain, read
from hansard.providers.schema import Breach, compile

KINDS: frozenset[str] = frozenset(get_args(ErrorKind))
BYTES_PER_TOKEN = 4
MOST_TOKENS = 10**9
"""Of one kind in one answer. Whoever says more has not counted: no model reads or writes that much."""
MOST_USD_NANO = 10**14
"""For one answer: a hundred thousand dollars. Sums of such figures still fit into the record, which ends at 2^53 - 1."""
MOST_NAME = 200
MOST_MESSAGE = 4_000
"""Characters of what is said of a failure: people read it in one line, and later prompts quote it."""
_BASES: frozenset[str] = frozenset(get_args(CostBasis))
_BYTES = ("raw", "output", "stderr", "diff")
_UNMETERED = Cost(basis="unmetered")
_EXIT_CODES = range(-(2**31), 2**32)
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SUCCESS = frozenset({"stop", "length", "content_filter"})
_FAILURE = frozenset({"error", "length", "content_filter"})
_written = json.JSONEncoder(ensure_ascii=False).encode


def fault_of(exchange: Exchange) -> Failure | None:
    """Why this exchange cannot be asked of anybody, or None."""
    messages = exchange.messages
    if not messages:
        return _invalid("there is no message to answer")
    if "system" in [message.role for message in messages[1:]]:
        return _invalid("a system message may only come first")
    if messages[-1].role == "assistant":
        return _invalid("the last message is the assistant's own, which servers take for the beginning of its answer")
    if not exchange.limits.timeout_s > 0:
        return _invalid(f"the time limit must be more than 0 s, not {exchange.limits.timeout_s}")
    for number, message in enumerate(messages):
        if not message.content.isascii():
            try:
                message.content.encode()
            except UnicodeEncodeError as error:
                return _invalid(f"message {number} holds half of a surrogate pair at character {error.start}")
    try:
        if exchange.schema is not None:
            compile(exchange.schema)
    except UsageError as error:
        return _invalid(str(error))
    return _fault_of_tools(exchange.tools)


def _fault_of_tools(tools: Sequence[Tool]) -> Failure | None:
    names: set[str] = set()
    try:
        for tool in tools:
            check_tool(tool)
            if tool.name in names:
                return _invalid(f"two tools are named {tool.name}")
            names.add(tool.name)
    except UsageError as error:
        return _invalid(str(error))
    return None


def check_tool(tool: Tool) -> None:
    """UsageError where no provider would take this tool. Arguments are always an object."""
    if not _TOOL_NAME.fullmatch(tool.name):
        raise UsageError(f"the tool {tool.name!r:.80} needs a name of 1 to 64 letters, digits, _ and -")
    try:
        compile(tool.input_schema)
    except UsageError as error:
        raise UsageError(f"the input of the tool {tool.name}: {error}") from error
    if tool.input_schema.get("type", "object") != "object":
        raise UsageError(f"the input of the tool {tool.name}: its type must be object, as arguments have names")


def _invalid(message: str) -> Failure:
    return Failure(kind="invalid_request", message=message, retryable=False)


def requested_model(exchange: Exchange, description: Mapping[str, str]) -> str:
    return exchange.model or description.get("model") or "default"


def settled(
    exchange: Exchange,
    completion: Completion,
    *,
    id: str,
    unmetered: bool,
    description: Mapping[str, str],
    reported: Usage | None,
    latency_us: int,
) -> Completion:
    """The completion as it is handed on: named, bounded, consistent, valid against the schema, and counted."""
    for name in _BYTES:
        if (kept := getattr(completion, name)) is not None and not isinstance(kept, bytes):
            raise TypeError(f"its {name} is a Python {type(kept).__name__} instead of bytes")
    good = checked(exchange, _bounded(exchange, _encodable(completion)))
    requested = completion.requested_model or requested_model(exchange, description)
    return replace(
        good,
        provider=completion.provider or id,
        requested_model=requested,
        returned_model=_name(completion.returned_model) or requested,
        latency_us=good.latency_us if good.latency_us and _is_count(good.latency_us, MOST_SPENT) else latency_us,
        fingerprint=None if good.fingerprint is None else _name(good.fingerprint) or None,
        exit_code=good.exit_code if type(good.exit_code) is int and good.exit_code in _EXIT_CODES else None,
        usage=_usage(exchange, good, reported),
        cost=settled_cost(good.cost, unmetered=unmetered),
        tool_events=tuple(map(_recordable_event, good.tool_events)),
        # Whoever was asked cannot say that nobody was.
        refused=False,
    )


def count(counts: Any, name: str) -> int:
    """A number of tokens in a report, 0 where it says none. What cannot be one becomes more than is believed of anybody."""
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return 0 if value is None else value if _is_count(value, MOST_TOKENS) else MOST_TOKENS + 1


def is_honest(usage: Usage) -> bool:
    """Whether these can be the tokens of one answer."""
    return (
        type(usage.estimated) is bool
        and _is_count(usage.input_tokens, MOST_TOKENS)
        and _is_count(usage.output_tokens, MOST_TOKENS)
        and _is_count(usage.cached_tokens, MOST_TOKENS)
    )


def _is_count(value: object, most: int) -> bool:
    """Whether a figure from outside can be one: whole, not negative, and no more than this."""
    return type(value) is int and 0 <= value <= most


def _name(said: object) -> str:
    """What a model or a server calls itself, as it can be recorded."""
    return _as_characters(said[:MOST_NAME]) if isinstance(said, str) else ""


def _as_characters(said: str) -> str:
    """The text with a mark in place of each half of a character, which no record holds."""
    return said if said.isascii() else said.encode("utf-8", "replace").decode()


def checked(exchange: Exchange, completion: Completion) -> Completion:
    """The completion if it holds together and fits the schema; otherwise its failure, as it can be recorded."""
    good = _structured(exchange, _consistent(exchange, completion))
    return good if good.failure is None else replace(good, failure=_recordable(good.failure))


def spoiled(completion: Completion, why: Failure) -> Completion:
    """An answer that came and does not count. Its text and its cost stay; what it calls for is not to be run."""
    finish = completion.finish if completion.finish in _FAILURE else "error"
    return replace(completion, structured=None, calls=(), thought=None, failure=why, finish=finish)


def malformed(exchange: Exchange, completion: Completion, breach: Breach) -> Completion:
    """An answer that misses the schema, with everything that a correction has to quote [R-6.5-1]."""
    attempt = completion.text or _as_text(completion.structured)
    if completion.finish == "length":
        message = f"the answer was cut off at its length limit and is no valid {exchange.schema_name}: {breach}"
        return spoiled(completion, Failure(kind="context_length_exceeded", message=message, retryable=False))
    details = {
        "validator": breach.rule,
        "expected_output_schema": exchange.schema_name,
        "failing_path": breach.path,
        "validator_message": breach.message,
        "raw_attempt": attempt,
    }
    message = f"no valid {exchange.schema_name}: {breach}"
    why = Failure(kind="malformed_response", message=message, retryable=True, details=details)
    return replace(spoiled(completion, why), finish="error", text=attempt)


def _encodable(completion: Completion) -> Completion:
    """Text that can be recorded. What was no character is replaced, and stays in `raw`."""
    try:
        completion.text.isascii() or completion.text.encode()
    except UnicodeEncodeError:
        kept = completion.text.encode("utf-8", "surrogatepass")
        text = kept.decode("utf-8", "replace")
        return replace(completion, text=text, raw=kept if completion.raw is None else completion.raw)
    return completion


def _bounded(exchange: Exchange, completion: Completion) -> Completion:
    size = _length(completion.text) + _size(completion.calls)
    return completion if size <= exchange.limits.max_output_bytes else _cut(exchange, completion, size)


def _cut(exchange: Exchange, completion: Completion, size: int) -> Completion:
    """An answer that is longer than was asked for."""
    limit = exchange.limits.max_output_bytes
    cut = completion.text.encode()[: max(0, limit)].decode("utf-8", "ignore")
    message = f"the answer is {size} bytes long; at most {limit} were asked for"
    why = Failure(kind="malformed_response", message=message, retryable=False)
    return replace(spoiled(completion, completion.failure or why), text=cut)


def _consistent(exchange: Exchange, completion: Completion) -> Completion:
    """Finish, calls and failure tell the same story, and the kind is one of the twelve."""
    why = completion.failure or _contradiction(exchange, completion)
    if why is None:
        return completion
    if why.kind not in KINDS:
        why = replace(why, kind="internal", message=f"{why.kind}: {why.message}", retryable=False)
    if not why.message:
        why = replace(why, message=why.kind.replace("_", " "))
    if why.retry_after_s is not None and not (isfinite(why.retry_after_s) and why.retry_after_s >= 0):
        why = replace(why, retry_after_s=None)
    return spoiled(completion, why)


def _contradiction(exchange: Exchange, completion: Completion) -> Failure | None:
    """Why this is no success, although the provider says so."""
    calls, finish = completion.calls, completion.finish
    if not calls and finish in _SUCCESS:
        return None
    if not calls:
        message = f"the provider calls this a success and says that it ended with {finish!r}"
        return Failure(kind="internal", message=message, retryable=False)
    names = ", ".join(call.name for call in calls)
    if not exchange.tools:
        return _miscalled(f"the model asked for {names}, and no tool was offered")
    if finish != "tool_call":
        return _miscalled(f"the model asked for {names}, and the provider says that it ended with {finish!r}")
    return None


def _miscalled(message: str) -> Failure:
    return Failure(kind="tool_failure", message=message, retryable=False)


def _called(completion: Completion) -> Completion:
    """The calls as JSON holds them. The text beside them is no answer yet, whatever shape was asked for."""
    readings = [plain({"id": call.id, "name": call.name, "arguments": call.arguments}) for call in completion.calls]
    if breach := next((each.breach for each in readings if each.breach), None):
        return spoiled(completion, _miscalled(f"a call for a tool is no JSON: {breach}"))
    calls = tuple(ToolCall(**each.value) for each in readings)
    return replace(completion, structured=None, calls=calls, thought=plain(completion.thought).value)


def _structured(exchange: Exchange, completion: Completion) -> Completion:
    if completion.failure is not None:
        return completion
    if completion.calls:
        return _called(completion)
    validator, text = compile(exchange.schema) if exchange.schema is not None else None, completion.text
    if completion.structured is not None:
        reading, limit = plain(completion.structured), exchange.limits.max_output_bytes
        # Beside a text it says the same once more.
        if reading.breach or _at_most(reading.value) > limit:
            size = len(_as_text(completion.structured).encode())
            if size > limit:
                return _cut(exchange, completion, size)
        if reading.breach is None:
            text = text or _as_text(reading.value)
            reading = judged(reading.value, validator)
    elif validator:
        reading = read(completion.text, validator, max_bytes=exchange.limits.max_output_bytes)
        if reading.breach is None and reading.value is None:
            reading = Reading(breach=Breach(path="", rule="type", message="must be an answer, but is null"))
    else:
        return completion
    if reading.breach:
        return malformed(exchange, completion, reading.breach)
    return replace(completion, structured=reading.value, text=text)


def _recordable(why: Failure) -> Failure:
    """The failure in characters and JSON, and its message no longer than anybody reads."""
    message = why.message if len(why.message) <= MOST_MESSAGE else f"{why.message[: MOST_MESSAGE - 1]}…"
    return replace(why, message=_as_characters(message), details=_as_json(why.details))


def _recordable_event(event: ToolEvent) -> ToolEvent:
    """The same for what a tool was asked and said."""
    return replace(
        event,
        name=_as_characters(event.name),
        arguments=_as_json(event.arguments),
        result=None if event.result is None else _as_characters(event.result),
        error=None if event.error is None else _as_characters(event.error),
    )


def _as_json(table: object) -> Mapping[str, Any]:
    """A table as JSON holds it: a value that is none is told as text."""
    if not isinstance(table, Mapping):
        return {}
    if plain(dict(table)).breach is None:
        return table
    return {
        _as_characters(str(name)): each if plain(each).breach is None else _as_text(each)
        for name, each in table.items()
    }


def _as_text(value: Any) -> str:
    try:
        return "" if value is None else _written(value).encode().decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value).encode("utf-8", "replace").decode()


def _at_most(value: Any) -> int:
    """As many bytes as a JSON value may take when it is written, by the lengths of what is in it: most are far from any limit."""
    kind = type(value)
    if kind is str:
        return 2 + 6 * len(value)
    if kind is dict:
        return 2 + sum([6 * len(name) + 6 + _at_most(each) for name, each in value.items()])
    if kind is list:
        return 2 + sum([_at_most(each) + 2 for each in value])
    return 24


def _usage(exchange: Exchange, completion: Completion, reported: Usage | None) -> Usage:
    """What was reported, or an estimate where something was generated and nobody counted, or nobody can have counted that."""
    usage = completion.usage
    if is_honest(usage) and (reported is not None or usage.total or usage.cached_tokens):
        return usage
    if completion.failure and completion.failure.kind != "timeout" and not completion.text and not completion.output:
        return Usage()
    return guessed(exchange, completion)


def guessed(exchange: Exchange, completion: Completion) -> Usage:
    """The tokens of a question and its answer, by their lengths."""
    asked = sum([_length(message.content) + _size(message.calls) for message in exchange.messages])
    # What was spilled is kept for the record; nobody's answer is longer than was asked for.
    said = _length(completion.text) + _size(completion.calls) or min(
        len(completion.output or b""), exchange.limits.max_output_bytes
    )
    return Usage(input_tokens=_tokens(asked), output_tokens=_tokens(said), estimated=True)


def estimated(text: str) -> int:
    """About how many tokens a text has."""
    return _tokens(_length(text))


def _length(text: str) -> int:
    """How many bytes a text is."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _size(calls: Sequence[ToolCall]) -> int:
    """How many bytes the calls are, with their arguments as JSON."""
    if not calls:
        return 0
    return sum(len(f"{call.id}{call.name}{_as_text(call.arguments)}".encode("utf-8", "replace")) for call in calls)


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def settled_cost(cost: Cost, *, unmetered: bool) -> Cost:
    """Where nobody sends a bill, a price is an estimate of what it would have been. One that cannot be is no price."""
    if not _is_count(cost.usd_nano, MOST_USD_NANO) or cost.basis not in _BASES:
        cost = Cost()
    if not unmetered:
        return cost
    if cost.basis in {"unknown", "unmetered"}:
        return Cost(usd_nano=cost.usd_nano, basis="unmetered") if cost.usd_nano else _UNMETERED
    return Cost(usd_nano=cost.usd_nano, basis="estimate")
