"""The way in: the front door, signing in and out, static files; and every other page of the dashboard."""

from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from hansard.surfaces.http.dashboard import deliberations, gates, ledger, runs, session, verifying
from hansard.surfaces.http.dashboard.pages import Page, form, made, one, plain_form, static, to
from hansard.surfaces.http.problems import Refused

router = APIRouter(route_class=Page, include_in_schema=False)


@router.get("/")
@router.get(session.ROOT)
async def door(request: Request) -> Response:
    return to(f"{session.ROOT}/")


@router.get(session.SIGN_IN)
async def sign_in(request: Request, to: str = "", again: str = "", undone: str = "") -> Response:
    """Asks for a token."""
    return made(request, "sign_in.html", place=session.safe_place(to), again=bool(again), undone=bool(undone))


@router.post(session.SIGN_IN)
async def signed_in(request: Request) -> Response:
    """Keeps the token; the next page finds out whether it is good."""
    fields = await plain_form(request)
    place = session.safe_place(one(fields, "to"))
    cookie = session.cookie_of(one(fields, "token").strip(), https=request.headers["origin"].startswith("https:"))
    answer = to(place if cookie else session.sign_in_at(place, again=True))
    if cookie:
        answer.headers["set-cookie"] = cookie
    return answer


@router.post(session.SIGN_OUT)
async def signed_out(request: Request) -> Response:
    await form(request)
    answer = to(session.SIGN_IN)
    answer.headers["set-cookie"] = session.no_cookie()
    return answer


@router.get(session.STATIC + "{name}")
async def file(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    return static(name, if_none_match)


for each in (runs, deliberations, gates, ledger, verifying):
    router.include_router(each.router)


@router.get(session.ROOT + "/{rest:path}")
async def nowhere(request: Request, rest: str) -> Response:
    raise Refused(404, f"there is no page {rest!r:.60} here")
