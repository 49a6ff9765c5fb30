"""A short way for the one request that comes by the thousand: routing. What it does not understand goes the long way round.

The long way is the route of the same path, with the same body and the same answer; a test holds them against each other.
"""

from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from hansard.app.archived.documents import check_recordable, read_body
from hansard.app.views import encoded
from hansard.errors import HansardError, UsageError
from hansard.surfaces.http.bodies import RouteRequest
from hansard.surfaces.http.desk import Desk, refused_at
from hansard.surfaces.rereading import again, body_of, heard

PATH = "/v1/route"
ONE_TEXT = 4
"""The quotation marks of an object that has one name and one text without any."""


class Shortcut:
    """Stands between the guard, who has let the caller in, and the application."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app, self._desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST" or scope["query_string"]:
            await self._app(scope, receive, send)
            return
        messages = await heard(receive)
        try:
            wanted = _read(body_of(messages))
        except (UsageError, ValidationError):
            await self._app(scope, again(messages, receive), send)
            return
        scope["route"] = self
        try:
            view = await self._desk.daemon.route(wanted.text, surface="http", actor=scope["hansard.token"].actor)
        except HansardError as error:
            raise refused_at(self._desk, error) from error
        body = encoded(view)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    @property
    def path(self) -> str:
        """As the metrics name it."""
        return PATH


def _read(body: bytes) -> RouteRequest:
    if body.count(b'"') == ONE_TEXT:
        # Nothing in it can stand twice, so the quick reading is the strict one.
        return RouteRequest.model_validate_json(body)
    given = read_body(body)
    check_recordable(given)
    return RouteRequest.model_validate(given)
