"""How a page is made: templates that escape whatever they are given, the headers of a page, errors, forms, static files."""

import hmac
import json
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from hansard.app.serving.tokens import Token
from hansard.app.telling.checks import said_of_answer, said_of_result
from hansard.app.telling.deliberationviews import requested
from hansard.app.telling.escaping import spelled
from hansard.app.views import sum_known, usd
from hansard.errors import HansardError
from hansard.surfaces.http.bodies import in_query, refuse_doubled
from hansard.surfaces.http.dashboard import session
from hansard.surfaces.http.desk import desk_of, refused_at, token_of
from hansard.surfaces.http.problems import Refused

Body = TypeVar("Body", bound=BaseModel)
SHOWN_CHARACTERS = 4_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A browser that may not name the page names no Origin either, and our own forms would be refused.
HEADERS = {"content-security-policy": POLICY, "referrer-policy": "same-origin", "cache-control": "no-store"}
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_TONES = {
    "good": ("answered", "passed", "approved", "synthesis", "here"),
    "bad": ("failed", "stopped", "cancelled", "rejected", "broken", "differs", "missing", "crashed"),
    "warn": ("partial", "waiting", "skipped", "interrupted", "escalated", "flagged", "refused", "edited", "open"),
}
_TITLES = {409: "Not possible", 422: "Not understood"}
"""What a page is called that refuses something, where HTTP has a word that tells people little."""
_TONE = {state: tone for tone, states in _TONES.items() for state in states}


def shown(value: object) -> object:
    """Whatever a template is given, with nothing in it that hides or turns round what follows; the template escapes the rest."""
    if hasattr(value, "__html__"):
        return value
    return spelled(plain(value))


def plain(value: object) -> str:
    """A value of a view as people read it: what is not text stands as JSON does."""
    if value is None:
        return "–"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, list, tuple, dict)) else str(value)


def cut(text: str | None, most: int = SHOWN_CHARACTERS) -> str | None:
    """The beginning of a long text, and how much is left out."""
    if text is None or len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters in the record"


def seconds(us: int | None) -> str | None:
    if us is None:
        return None
    return f"{us / 1_000_000:.2f} s" if us >= 1_000_000 else f"{us / 1_000:.1f} ms"


def clock(moment: str) -> str:
    """A moment of the record for people: to the second, and in UTC as it says."""
    return moment[:19].replace("T", " ") + " UTC" if len(moment) > 19 else moment


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("hansard.surfaces.http.dashboard"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "cut": cut,
        "plain": plain,
        "requested": requested,
        "said_of_answer": lambda each: said_of_answer(each["check"], each["detail"]),
        "said_of_result": said_of_result,
        "usd": usd,
        "sum_known": sum_known,
        "seconds": seconds,
        "clock": clock,
        "segment": lambda text: quote(text, ""),
    }
    found.filters["tone"] = lambda state: _TONE.get(str(state), "dim")
    return found


TEMPLATES = _environment()


async def page(request: Request, template: str, **values: Any) -> Response:
    """A page of what is on the record, made where that is read: one of thousands of tasks takes longer than others can wait."""
    return await desk_of(request).hansard.heavily(made, request, template, **values)


def made(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page for whoever asks, here and now."""
    found = request.scope.get("hansard.token")
    token = found if isinstance(found, Token) else None
    html = TEMPLATES.get_template(template).render(
        who=token.name if token else None,
        may_run=token is not None and token.may("operator"),
        may_decide=token is not None and token.may("approver"),
        form_token=session.form_token(_cookies(request)) if token else "",
        # Before the app has the request, the guard may refuse it, and knows no ledger.
        broken=desk_of(request).hansard.store.broken if token and "app" in request.scope else None,
        here=request.scope["path"],
        **values,
    )
    return Response(html.encode("utf-8", "backslashreplace"), status, HEADERS, "text/html; charset=utf-8")


def refusal(request: Request, refused: Refused) -> Response:
    """A page that says what is refused, and why."""
    title = _TITLES.get(refused.status_code) or HTTPStatus(refused.status_code).phrase
    return made(request, "error.html", refused.status_code, title=title, detail=refused.detail)


def to(place: str) -> Response:
    """Look there next."""
    return RedirectResponse(place, 303, HEADERS)


def to_keep(name: str, html: str) -> Response:
    """A page as a file that needs nothing else, to be kept or sent."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(html.encode("utf-8", "backslashreplace"), 200, headers, "text/html; charset=utf-8")


async def form(request: Request) -> dict[str, list[str]]:
    """The fields of a form of ours; refused unless a page of this very session sent it."""
    fields = await plain_form(request)
    token_of(request)
    if not hmac.compare_digest(one(fields, "form_token").encode(), session.form_token(_cookies(request)).encode()):
        raise Refused(403, "this form is of another session; reload the page and send it again")
    return fields


async def plain_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form that a browser sent from a page of ours; which origins are ours, the guard has settled."""
    if "origin" not in request.headers:
        raise Refused(403, "a form comes from a page, and this has no Origin")
    try:
        return parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=2_000)
    except ValueError as error:
        raise Refused(400, f"this is no form that can be read: {error}") from error


def one(fields: dict[str, list[str]], name: str) -> str:
    """A field; its line ends as people write them, since browsers send two characters."""
    return fields.get(name, [""])[0].replace("\r\n", "\n")


def checked(kind: type[Body], fields: Mapping[str, Any]) -> Body:
    """What a form says, as the body that the same route of the API takes."""
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise Refused(422, f"{'/'.join(map(str, first['loc']))}: {first['msg']}") from error


class Page(APIRoute):
    """A route whose errors are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, known = super().get_route_handler(), in_query(self)

        async def handled(request: Request) -> Response:
            try:
                refuse_doubled(request, known)
                return await handle(request)
            except (HansardError, HTTPException, RequestValidationError) as error:
                return refusal(request, refused_at(desk_of(request), error))

        return handled


def static(name: str, seen: str | None) -> Response:
    """A file of the dashboard. Browsers keep it, and ask whether it is still the same."""
    if name not in STATIC:
        raise Refused(404, f"there is no {name!r:.60}")
    data, media, tag = STATIC[name]
    headers = {"etag": tag, "cache-control": "no-cache"}
    return Response(status_code=304, headers=headers) if _is_seen(tag, seen) else Response(data, 200, headers, media)


def _is_seen(tag: str, seen: str | None) -> bool:
    """Whether a browser has it, of all that If-None-Match names; a proxy that packs what it passes on makes tags weak ones."""
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in (seen or "").split(","))


def _read_static() -> dict[str, tuple[bytes, str, str]]:
    """Everything there is to serve, read once: a name outside of it leads nowhere."""
    found = {}
    for each in (files(__package__) / "static").iterdir():
        media = next((media for end, media in TYPES.items() if each.name.endswith(end)), None)
        if media:
            data = each.read_bytes()
            found[each.name] = (data, media, f'"{sha256(data).hexdigest()[:20]}"')
    return found


STATIC = _read_static()


def _cookies(request: Request) -> list[bytes]:
    return [value for name, value in request.scope["headers"] if name == b"cookie"]
