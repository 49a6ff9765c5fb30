"""The server over streamable HTTP, as an ASGI application. Host, Origin, tokens and sizes are the guard's who stands before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from hansard.app.serving.tokens import Token
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.server import build

MAX_BODY = 4_000_000
IDLE_S = 1_800.0


class HttpApp:
    """Answers at whatever path it is called for, inside of `lifespan`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sessions = StreamableHTTPSessionManager(
            app=build(desk), session_idle_timeout=IDLE_S, max_request_body_size=MAX_BODY
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """As long as this lasts, the application answers; it can be entered once."""
        async with self._sessions.run():
            try:
                yield
            finally:
                # Before the sessions go: a call that ends with us is no call that its client cancelled.
                self._desk.closing = True
        await self._desk.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = scope.get("hansard.token")
        if isinstance(token, Token):
            # A session is his who opened it: nobody else may end it, or cancel what is called in it.
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=token.name, scopes=[*token.roles]))
        await self._sessions.handle_request(scope, receive, send)
