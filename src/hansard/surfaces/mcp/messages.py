"""A message of JSON-RPC as it comes in, whatever it comes over: what has no reading, or two, is told to its sender as an error."""

import json

from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from hansard.app.archived.documents import check_recordable, read_body
from hansard.errors import UsageError


def parsed(text: bytes, *, where: str) -> JSONRPCMessage | ErrorData:
    """The message in a text, or what is wrong with it."""
    try:
        found = read_body(text, where=where)
    except UsageError as error:
        return ErrorData(code=PARSE_ERROR, message=str(error))
    try:
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
        # A request whose id is none would pass for a notification, which nobody answers.
        if not isinstance(message, JSONRPCNotification) or "id" not in found:
            return message
    except (ValidationError, RecursionError):
        pass
    if isinstance(found, list):
        return ErrorData(code=INVALID_REQUEST, message="batches are not taken; send one message at a time")
    if isinstance(found, dict) and not isinstance(found.get("params", {}), dict):
        return ErrorData(code=INVALID_REQUEST, message="params must be an object")
    try:
        # JSON like any other, of which the library says that it is none.
        check_recordable(found, where=where)
    except UsageError as error:
        return ErrorData(code=INVALID_REQUEST, message=str(error))
    return ErrorData(code=INVALID_REQUEST, message="this is no JSON-RPC 2.0 message")


def id_of(text: bytes) -> int | str | None:
    """The id of a message that cannot be used otherwise, so that its sender knows which one is meant."""
    try:
        found = json.loads(text)
        id = found.get("id") if isinstance(found, dict) else None
        # Half of a surrogate pair cannot be sent back.
        str(id).encode()
    except (ValueError, RecursionError):
        return None
    return id if isinstance(id, int | str) and not isinstance(id, bool) else None
