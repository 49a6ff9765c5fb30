"""The Model Context Protocol: the same service for other agents, over standard input or at /mcp of the daemon.

Names nothing of the service's insides, and imports the `mcp` library only when somebody asks for a server.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from hansard.errors import MissingExtra

if TYPE_CHECKING:
    from hansard.app.service import Hansard
    from hansard.app.serving.daemon import Daemon
    from hansard.app.setup.wishes import Wishes
    from hansard.surfaces.mcp.http import HttpApp

MISSING = "pip install 'hansard[mcp]'"


def http_app(
    hansard: "Hansard",
    *,
    wishes: "Wishes | None" = None,
    gates: bool = False,
    commands: bool = False,
    folder: Path | None = None,
    sessions: Path | None = None,
    daemon: "Daemon | None" = None,
) -> "HttpApp":
    """The server as an ASGI application for the path `/mcp`, whole: give it to `Route("/mcp", app)`, not to a mount.

    It answers only inside `async with app.lifespan():`, which can be entered once. Leaving it interrupts what is driven
    here for its clients: the record says so, and it can go on. Host, Origin and tokens are the guard's who stands before
    it; where he leaves a token in the scope (`hansard.token`), its roles decide which tools may be called. `gates` offers
    `gate_decide`, and asks the person behind a client. `sessions` is where deliberations have their directories. What is
    submitted here is the `daemon`'s, where there is one.
    """
    try:
        from hansard.surfaces.mcp.http import HttpApp
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the MCP server needs {error.name}: {MISSING}") from error
    from hansard.surfaces.mcp.desk import Desk

    desk = Desk.of(
        hansard, wishes=wishes, gates=gates, commands=commands, folder=folder, sessions=sessions, daemon=daemon
    )
    return HttpApp(desk)
