"""HEAD is GET without its body (RFC 9110, 9.3.2), on every route that knows GET."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Head:
    """Stands before the application, which hears of GET alone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        over = asyncio.Event()

        async def nothing() -> Message:
            # A stream ends when its reader has gone: this one goes when he has the head.
            await over.wait()
            return {"type": "http.disconnect"}

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                over.set()
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, nothing, without_body)
        finally:
            scope["route"] = asked.get("route")
