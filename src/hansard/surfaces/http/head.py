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

        async def until_head() -> Message:
            # A stream ends when its reader has gone: this one goes when he has the head, if not before.
            either = asyncio.ensure_future(receive()), asyncio.ensure_future(over.wait())
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                return {"type": "http.disconnect"} if over.is_set() else either[0].result()
            finally:
                for each in either:
                    each.cancel()

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                over.set()
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, until_head, without_body)
        finally:
            scope["route"] = asked.get("route")
