"""The server over streamable HTTP, as an ASGI application. Host, Origin, tokens and sizes are the guard's who stands before it."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from anyio import BrokenResourceError, ClosedResourceError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import INVALID_REQUEST, ErrorData
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from hansard.app.serving.tokens import Token
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.messages import id_of, parsed
from hansard.surfaces.mcp.server import build
from hansard.surfaces.mcp.sessions import MOST, Sessions
from hansard.surfaces.rereading import again, body_of, heard

MAX_BODY = 4_000_000
IDLE_S = 1_800.0
STREAM, BAD_REQUEST, NOT_FOUND = 200, 400, 404
SESSION = b"mcp-session-id"
LIBRARY = logging.getLogger("mcp.server.streamable_http")


class HttpApp:
    """Answers at whatever path it is called for, inside of `lifespan`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open = Sessions(MOST)
        self._sessions = StreamableHTTPSessionManager(
            app=build(desk), session_idle_timeout=IDLE_S, max_request_body_size=MAX_BODY
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """As long as this lasts, the application answers; it can be entered once."""
        LIBRARY.addFilter(_is_trouble)
        try:
            async with self._sessions.run():
                try:
                    yield
                finally:
                    # Before the sessions go: a call that ends with us is no call that its client cancelled.
                    self._desk.closing = True
            await self._desk.close()
        finally:
            LIBRARY.removeFilter(_is_trouble)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = scope.get("hansard.token")
        if isinstance(token, Token):
            # A session is his who opened it: nobody else may end it, or cancel what is called in it.
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=token.name, scopes=[*token.roles]))
        who, session = token.name if isinstance(token, Token) else "", _session(scope["headers"])
        messages = await heard(receive, MAX_BODY) if scope["method"] == "POST" else []
        if messages and (fault := _fault(messages)):
            for message in _error(BAD_REQUEST, fault, id_of(body_of(messages))):
                await send(message)
            return
        receive = again(messages, receive)
        idle: list[str] = []
        answer = _Answer(send, lambda new: idle.extend(() if session else self._open.opened(who, new)))
        try:
            with self._open.used(who, session):
                try:
                    await self._sessions.handle_request(scope, receive, answer.send)
                except (BrokenResourceError, ClosedResourceError):
                    answer.overtaken()
                await answer.release()
        finally:
            if session and (scope["method"] == "DELETE" or answer.status == NOT_FOUND):
                self._open.ended(who, session)
            for each in idle:
                await self._end(each, scope)

    async def _end(self, session: str, scope: Scope) -> None:
        """End a session as its client would."""

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(_: Message) -> None:
            return

        ending = {**scope, "method": "DELETE", "headers": [(SESSION, session.encode())]}
        await self._sessions.handle_request(ending, nothing, unheard)


def _fault(messages: list[Message]) -> ErrorData | None:
    """What is wrong with a body that came whole, so that it is no message."""
    if messages[-1].get("more_body") or messages[-1]["type"] != "http.request":
        return None
    found = parsed(body_of(messages), where="the body")
    return found if isinstance(found, ErrorData) else None


def _error(status: int, error: ErrorData, id: int | str | None = None) -> list[Message]:
    """An error of the protocol; without an id it is for nobody's request in particular."""
    said = {"code": error.code, "message": error.message}
    body = json.dumps({"jsonrpc": "2.0", "id": id, "error": said}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start = {"type": "http.response.start", "status": status, "headers": headers}
    return [start, {"type": "http.response.body", "body": body}]


def _session(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The session that a head speaks of, empty where it speaks of none."""
    return next((value.decode("latin-1") for name, value in headers if name.lower() == SESSION), "")


class _Answer:
    """What the library answers. It says 202 to a notice before it hands it on: whoever hears that and ends his session would
    overtake his own notice. And where an end overtakes one after all, it would say two things."""

    def __init__(self, send: Send, opened: Callable[[str], None]) -> None:
        self._send, self._opened = send, opened
        self._held: list[Message] = []
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._held.clear()
            self.status = message["status"]
            if self.status == STREAM and (session := _session(message["headers"])):
                # Before its client hears of it, and comes again.
                self._opened(session)
        if self._held or message.get("status", STREAM) != STREAM:
            self._held.append(message)
        else:
            await self._send(message)

    def overtaken(self) -> None:
        """The session was ended while the message was on its way to it."""
        if self._held:
            self._held = _error(NOT_FOUND, ErrorData(code=INVALID_REQUEST, message="Session has been terminated"))

    async def release(self) -> None:
        for message in self._held:
            await self._send(message)


def _is_trouble(record: logging.LogRecord) -> bool:
    """Not that a client hung up, or ended his session, within a request: the library calls that an error of ours."""
    return not (record.exc_info and _is_gone(record.exc_info[1]))


def _is_gone(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_gone, error.exceptions))
    return isinstance(error, BrokenResourceError | ClosedResourceError | ClientDisconnect)
