"""How a model's server is told the shape of an answer: in words where it cannot be made to keep it, and which schemas it can.

What a server promises about a shape is never believed: every answer is checked again.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hansard.domain.exchange import Exchange, Message, Schema

_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_ONE_SCHEMA = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_MANY_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")


def told(exchange: Exchange) -> tuple[Message, ...]:
    """The messages, with the schema described at the end of the last one. The results of calls are left as they are."""
    if exchange.schema is None:
        return exchange.messages
    schema = json.dumps(exchange.schema, ensure_ascii=False)
    words = (
        f"Answer with one JSON object and nothing else: no prose before or after it, no code fence. "
        f"It must be valid against this JSON Schema, `{exchange.schema_name}`:\n{schema}"
    )
    messages = list(exchange.messages)
    last = next((n for n in reversed(range(len(messages))) if _is_question(messages[n])), -1)
    messages[last] = replace(messages[last], content=f"{messages[last].content}\n\n{words}")
    return tuple(messages)


def _is_question(message: Message) -> bool:
    return message.role != "assistant" and message.call_id is None


def label(name: str) -> str:
    """The name of a schema as vendors take it."""
    return _NOT_A_NAME.sub("_", name)[:64] or "answer"


def is_closed(schema: Schema) -> bool:
    """Whether every object in it lists what it may hold."""
    return all(each.get("additionalProperties") is False for each in _within(schema) if _is_object(each))


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def _within(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schema and every schema inside it, by the keywords that hold schemas."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword in _ONE_SCHEMA:
        yield from _within(schema.get(keyword))
    for keyword in _MANY_SCHEMAS:
        for each in schema.get(keyword, ()):
            yield from _within(each)
    for keyword in _NAMED_SCHEMAS:
        for each in schema.get(keyword, {}).values():
            yield from _within(each)
