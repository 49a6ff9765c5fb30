"""What every route works with, and how it answers: views as JSON, store reads off the event loop."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.responses import Response

from hansard.app.service import Hansard
from hansard.app.serving.daemon import Daemon
from hansard.app.serving.tokens import Role, Token
from hansard.app.setup.wishes import Wishes
from hansard.app.views import encoded
from hansard.errors import HansardError
from hansard.surfaces.afar import from_afar
from hansard.surfaces.http.metrics import Metrics
from hansard.surfaces.http.problems import Refused, refused_by

BEARER = "a token is needed: Authorization: Bearer TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One open ledger behind the routes. `wishes` is what the flags and the file's budget say for every run."""

    hansard: Hansard
    daemon: Daemon
    metrics: Metrics
    wishes: Wishes = field(default_factory=Wishes)
    commands: bool = False
    """Whether a plan that comes in may have checks that run programs here."""
    sessions: Path | None = None
    """Where deliberations get their directories; None where they get none."""
    answering: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever answers a session for which one answer is enough."""

    def wished(self, provider: str | None, **more: Any) -> Wishes:
        """What a caller asks for, within what the flags say. He chooses among what is configured, and brings no programs."""
        return self.wishes.for_caller(provider, **more)


def desk_of(request: Request) -> Desk:
    found: Desk = request.app.state.desk
    return found


def refused_at(desk: Desk, error: Exception) -> Refused:
    """The problem that an error is, as whoever asks from afar is told of it. What routes say themselves is said for him."""
    refused, cause = refused_by(error), error.__cause__ if isinstance(error, Refused) else error
    if isinstance(cause, HansardError):
        refused.detail = from_afar(refused.detail, desk.hansard, "http")
    return refused


def token_of(request: Request) -> Token:
    """Who asks; the guard has let him in."""
    found = request.scope.get("hansard.token")
    if not isinstance(found, Token):
        raise Refused(401, BEARER)
    return found


def check_role(token: Token, role: Role) -> None:
    """403 where a token is not for this."""
    if not token.may(role):
        raise Refused(403, f"token {token.name!r} has the roles {', '.join(token.roles)}; this needs {role}")


def answer(view: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A view as it is: the same text that `--json` prints, on one line."""
    return Response(encoded(view), status, dict(headers or {}), "application/json")


def page(request: Request, views: Any, after: object | None, **meant: str) -> Response:
    """A page of a list, or of what has one in it; where there is more, the Link header says where (RFC 8288), and names what was
    `meant` here."""
    if after is None:
        return answer(views)
    following = request.url.include_query_params(after=after, **meant)
    return answer(views, headers={"link": f'<{following.path}?{following.query}>; rel="next"'})
