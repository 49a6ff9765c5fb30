"""Errors as RFC 9457 problem details. What is told is what, which and what now; never a traceback and never our insides."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hansard.app.serving.daemon import Draining
from hansard.errors import (
    Fenced,
    HansardError,
    NotAllowed,
    ProviderError,
    RunTaken,
    StoreError,
    Unavailable,
    Unknown,
    UsageError,
)

MEDIA = "application/problem+json"
BUG = 500
SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "description": "RFC 9457 problem details.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "run": {"type": "string", "description": "The run that this is about, which is on the record."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "what"],
                "properties": {"where": {"type": "array", "items": {"type": "string"}}, "what": {"type": "string"}},
            },
        },
    },
}


class Refused(HTTPException):
    """A request that is answered with a problem. Of starlette's own kind: any other is taken for an error of the application."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.more = more


@contextmanager
def refusing(status: int) -> Iterator[None]:
    """What the caller got wrong in here is told with this status, what is not there with 404, what nobody may with 403."""
    try:
        yield
    except RunTaken as error:
        raise Refused(409, str(error), {"location": f"/v1/runs/{error.run}"}, run=error.run) from error
    except NotAllowed as error:
        raise Refused(403, str(error)) from error
    except UsageError as error:
        raise Refused(404 if isinstance(error, Unknown) else status, str(error)) from error


@contextmanager
def on_record(run: str) -> Iterator[None]:
    """What was asked for is on the record. Whoever cannot be shown it just now is told where it is, and not to ask again."""
    try:
        yield
    except Unavailable as error:
        detail = f"run {run} is on the record, and cannot be shown just now: {error}"
        raise Refused(503, detail, {"location": f"/v1/runs/{run}"}, run=run) from error


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems of a route for its description, with those that every route has."""
    common = (400, 401, 403, 408, 413, 421, 422, 429, 431, 503)
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA: schema}}
        for status in sorted({*common, *statuses})
    }


def body_of(status: int, detail: str, request_id: str | None, more: Mapping[str, Any] | None = None) -> bytes:
    view = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    if request_id:
        view["request_id"] = request_id
    return json.dumps({**view, **(more or {})}).encode()


def problem(request: Request, refused: Refused) -> Response:
    request_id = request.scope.get("hansard.request_id")
    body = body_of(refused.status_code, refused.detail, request_id, refused.more)
    return Response(body, refused.status_code, refused.headers, MEDIA)


def refused_by(error: Exception) -> Refused:
    """The problem that an error of ours is."""
    match error:
        case Refused():
            return error
        case UsageError():
            return Refused(400, str(error))
        case Fenced():
            return Refused(409, str(error))
        case Draining():
            return Refused(503, str(error), {"retry-after": "2"})
        case ProviderError():
            return Refused(502, str(error))
        case StoreError():
            return Refused(503, str(error), {"retry-after": "5"})
        case HTTPException():
            return Refused(error.status_code, str(error.detail), error.headers)
        case RequestValidationError():
            return _invalid(error)
        case ClientDisconnect():
            return Refused(400, "the request did not come whole")
    return Refused(BUG, "a bug of ours; the daemon's log tells more under this request_id")


def _invalid(error: RequestValidationError) -> Refused:
    found = [
        # What we said ourselves comes with a word of the library's before it.
        {"where": [str(at) for at in each["loc"]], "what": str(each["msg"]).removeprefix("Value error, ")}
        for each in error.errors()[:20]
    ]
    first = found[0]
    where = "/".join(first["where"])
    return Refused(422, f"{where}: {first['what']}", errors=found)


def install(app: FastAPI, routes: Sequence[BaseRoute], told: Callable[[Exception], Refused]) -> None:
    """Let every error come out as the problem that it is `told` as. Of these routes, a wrong method is told which ones are right, and
    a path that none has where they are described."""

    async def handle(request: Request, error: Exception) -> Response:
        refused, path = told(error), request.scope["path"]
        if refused.status_code == 405:
            allowed = ", ".join(_allowed(routes, path))
            refused = Refused(405, f"{path[:80]!r} takes {allowed} alone", {"allow": allowed})
        elif refused.status_code == 404 and refused is not error and isinstance(error, HTTPException):
            refused = Refused(404, f"there is no route {path[:80]!r}; /openapi.json describes those that there are")
        return problem(request, refused)

    for kind in (HansardError, HTTPException, RequestValidationError, ClientDisconnect, Exception):
        app.add_exception_handler(kind, handle)


def _allowed(routes: Sequence[BaseRoute], path: str) -> list[str]:
    """Every method of a path: the framework names those of the first route that it finds."""
    found = {
        method
        for route in routes
        if isinstance(route, Route) and route.path_regex.match(path)
        for method in route.methods or ()
    }
    return sorted(found | {"HEAD"} if "GET" in found else found)
