"""What the servers that speak OpenAI's formats can be asked for. A table: it says what is known, and who is asked decides.

Chat Completions is the common ground. Servers that serve Responses beside it often pass over the shape that it asks for.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from hansard.domain.exchange import Exchange
from hansard.domain.value import value
from hansard.providers import parse
from hansard.providers.hosted import shapes
from hansard.providers.hosted.dialect import Said
from hansard.providers.hosted.strict import relaxed, strictified

Structured = Literal["none", "json_object", "json_schema"]
_REASONS = re.compile(r"(?:o\d|gpt-5)")


@value
class Server:
    """What one kind of server makes of a shape that it is given, in each of the two formats."""

    chat: Structured
    responses: Structured
    shows_schema: bool = False
    """Whether the model gets to see the schema that its server was given."""
    token_limit: str = "max_tokens"
    streams: bool = False
    """Whether it has to be asked for a stream to notice that nobody listens any more, and to stop working."""
    vendor: bool = False
    """Whether it is OpenAI itself, whose models have rules of their own about sampling."""


SERVERS: Mapping[str, Server] = {
    "openai": Server(
        chat="json_schema",
        responses="json_schema",
        shows_schema=True,
        token_limit="max_completion_tokens",
        vendor=True,
    ),
    "llama.cpp": Server(chat="json_schema", responses="none", streams=True),
    "vllm": Server(chat="json_schema", responses="none"),
    "ollama": Server(chat="json_schema", responses="none"),
    "ollama-cloud": Server(chat="none", responses="none"),
    "other": Server(chat="json_schema", responses="none"),
}


def shape(exchange: Exchange, structured: Structured) -> dict[str, Any] | None:
    """The shape of the answer as both formats write it, apart from where they put it."""
    if exchange.schema is None or structured == "none":
        return None
    if structured == "json_object":
        return {"type": "json_object"}
    strict = strictified(exchange.schema)
    schema = exchange.schema if strict is None else strict
    name = shapes.label(exchange.schema_name)
    return {"type": "json_schema", "name": name, "strict": strict is not None, "schema": schema}


def relax(said: Said, exchange: Exchange, structured: Structured) -> Said:
    """The answer without the nulls that its strict form asked for. Anything else than one object is not touched."""
    if exchange.schema is None or structured != "json_schema" or strictified(exchange.schema) is None:
        return said
    value = parse.read(said.text).value
    return replace(said, structured=relaxed(value, exchange.schema)) if isinstance(value, dict) else said


def tells(server: Server, structured: Structured) -> bool:
    """Whether the schema has to be described in words."""
    return structured != "json_schema" or not server.shows_schema


def reasons(model: str, server: Server) -> bool:
    """Whether it is one of OpenAI's reasoning models, which take an effort and refuse a temperature and stop words."""
    return server.vendor and _REASONS.match(model) is not None


def sampling(exchange: Exchange, model: str, server: Server) -> dict[str, Any]:
    """What both formats take of the wishes about sampling."""
    wish = exchange.sampling
    if reasons(model, server):
        said: dict[str, Any] = {"reasoning_effort": wish.reasoning_effort}
    else:
        said = {"temperature": wish.temperature, "top_p": wish.top_p}
    return {name: value for name, value in said.items() if value is not None}
