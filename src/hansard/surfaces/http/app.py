"""The application: routes, their description, errors, and the guard around them."""

from functools import cache, partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hansard.__about__ import __version__
from hansard.surfaces.http import deliberations, gates, ledger, problems, runs, system
from hansard.surfaces.http.dashboard import routes as dashboard
from hansard.surfaces.http.desk import Desk, refused_at
from hansard.surfaces.http.guard import MCP
from hansard.surfaces.mcp import MISSING

_SECURITY = {"type": "http", "scheme": "bearer", "description": "`hansard serve token list` shows what there is."}
PUBLIC = ("/health",)
MODULES = (system, runs, deliberations, gates, ledger, dashboard)


def make_app(desk: Desk, mcp: ASGIApp | None = None) -> FastAPI:
    """The application without its guard."""
    app = FastAPI(
        title="Hansard",
        version=__version__,
        summary="Runs teams of AI agents and keeps the verbatim record.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.desk = desk
    routes = [*app.routes, *(route for module in MODULES for route in module.router.routes)]
    problems.install(app, routes, partial(refused_at, desk))
    for module in MODULES:
        app.include_router(module.router)
    app.router.routes.append(Route(MCP, mcp) if mcp else Route(MCP, _no_mcp, methods=["GET", "POST", "DELETE"]))
    # Made when somebody asks for it: that takes a quarter of the time in which a daemon starts.
    app.openapi = cache(partial(_described, app))  # type: ignore[method-assign]
    return app


async def _no_mcp(_: Request) -> Response:
    raise problems.Refused(404, f"there is no MCP server here: its library is not installed; {MISSING}")


def _described(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = problems.SCHEMA
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {"bearer": _SECURITY}
    for path, item in found["paths"].items():
        for operation in item.values():
            operation["security"] = [] if path in PUBLIC else [{"bearer": []}]
    return found
