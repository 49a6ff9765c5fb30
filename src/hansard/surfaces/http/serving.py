"""From options to a daemon that listens, and back to nothing in good order: open, bind, serve, drain, close."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from hansard.__about__ import __version__
from hansard.app.ledgers.cosigning import configured
from hansard.app.pool import Pool
from hansard.app.posting import check_url, is_loopback
from hansard.app.service import Hansard
from hansard.app.serving.cosigner import Cosigner
from hansard.app.serving.daemon import Daemon
from hansard.app.serving.tokens import Tokens
from hansard.app.serving.webhooks import webhooks
from hansard.app.settings import Settings, recordable
from hansard.app.setup.configuring import run_config
from hansard.app.setup.convening import check_folder
from hansard.app.setup.costs import allowed, of_server
from hansard.app.setup.wishes import Wishes, flagged
from hansard.app.telling.following import OVER
from hansard.errors import UsageError, first_of
from hansard.surfaces.http.app import make_app
from hansard.surfaces.http.at_first import AtFirst
from hansard.surfaces.http.desk import Desk
from hansard.surfaces.http.files import MOST_WAITING, at_once_within, files_for, requests_within
from hansard.surfaces.http.guard import Doors, Guard, Limits
from hansard.surfaces.http.head import Head
from hansard.surfaces.http.logs import Log, troubles
from hansard.surfaces.http.metrics import Metrics
from hansard.surfaces.http.pace import Pace
from hansard.surfaces.http.shortcut import Shortcut
from hansard.surfaces.http.telemetry import Telemetry, check_collector
from hansard.surfaces.http.wire import Connection
from hansard.surfaces.leaving import when_told_to_end

THREADS = 2
"""Who reads beside the event loop. Each one more makes it wait for the GIL once more, and a turn has several such waits."""
GOODBYE_S = 2
HANGS_S = 15.0
"""So long after the grace, whatever is not at an end hangs."""
LOOK_S = 0.1
"""A change of the tokens is noticed within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the flags of `hansard serve` say."""

    host: str = "127.0.0.1"
    port: int = 7411
    wishes: Wishes = field(default_factory=Wishes)
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    public_log: bool = False
    resume: bool = True
    commands: bool = False
    most_runs: int = 256
    grace_s: float = 10.0
    limits: Limits = field(default_factory=Limits)
    webhooks: tuple[str, ...] = ()
    sessions: Path | None = None
    traces: str | None = None


class Server(uvicorn.Server):
    """uvicorn, which leaves signals to us: the runs come first."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            # asyncio lets in at once as many as may wait. Whoever has to wait for his turn is not turned away.
            each.listen(MOST_WAITING)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: Settings, options: Options, ready: Callable[[str, Path | None], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` hears the address when requests are taken, and the file of the default token."""
    recordable(settings.folder)
    # A mistake in the flags is told now, before there is a ledger, and not to the first caller.
    allowed(settings, options.wishes)
    if flagged(options.wishes)[0] is not None or settings.providers:
        pool = Pool(settings)
        run_config(settings, pool, options.wishes)
        await pool.close()
    configured(settings.witnesses)
    for url in options.webhooks:
        check_url(url, "--webhook")
    if options.traces is not None:
        check_collector(options.traces)
    if options.sessions is not None:
        check_folder(options.sessions)
    listening = bound(options.host, options.port)
    tokens = Tokens.of(settings.state, look_s=LOOK_S)
    token_file = tokens.ensure()
    async with Hansard.open(settings=settings) as hansard:
        hansard.stay(THREADS)
        log = Log(hansard)
        try:
            with troubles(log):
                await _serve(hansard, options, tokens, listening, log, lambda address: ready(address, token_file))
        finally:
            log.close()


async def _serve(
    hansard: Hansard,
    options: Options,
    tokens: Tokens,
    listening: socket.socket,
    log: Log,
    ready: Callable[[str], None],
) -> None:
    port = listening.getsockname()[1]
    metrics = Metrics()
    files = files_for(options.limits.requests)
    limits = _within(options.limits, files, log)
    hooks = webhooks(options.webhooks, tokens.folder, hansard.store, log) if options.webhooks else None
    daemon = Daemon(hansard, log, most=options.most_runs, resume=options.resume, webhooks=hooks)
    desk = Desk(
        hansard=hansard,
        daemon=daemon,
        metrics=metrics,
        wishes=of_server(hansard.settings, options.wishes),
        commands=options.commands,
        sessions=options.sessions,
    )
    doors = Doors(
        hosts=frozenset(names(options.host, port, options.hosts)),
        origins=frozenset(each.lower() for each in options.origins),
        public_log=options.public_log,
    )
    try:
        cosigner = Cosigner(hansard.recorder, configured(hansard.settings.witnesses), log)
        with _telemetry(daemon, metrics, options.traces), cosigner.working():
            async with _mcp(daemon, options) as mcp:
                app = Shortcut(Pace(Head(make_app(desk, mcp))), desk)
                guard = Guard(app, tokens, doors, limits, metrics, log)
                server = Server(_config(guard, limits, at_once_within(files)))
                await _until_told(daemon, server, listening, log, ready, options.grace_s)
    except ExceptionGroup as errors:
        raise first_of(errors) from None
    log("stopped")


async def _until_told(
    daemon: Daemon, server: "Server", listening: socket.socket, log: Log, ready: Callable[[str], None], grace_s: float
) -> None:
    """Serve, until a signal says otherwise; then drain."""
    stop, address, place = asyncio.Event(), address_of(listening), daemon.hansard.store.place
    when_told_to_end(stop.set, place, within_s=grace_s + HANGS_S)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(daemon.work())
        serving = group.create_task(server.serve(sockets=[listening]))
        await server.up.wait()
        log("listening", address=address, ledger=place)
        ready(address)
        await stop.wait()
        log("draining", runs=daemon.driving, grace_s=grace_s)
        await daemon.drain(grace_s)
        server.should_exit = True
        await serving
        working.cancel()


def _within(limits: Limits, files: int, log: Log) -> Limits:
    """The limits, with no more requests at once than there are files for."""
    room = requests_within(files)
    if room >= limits.requests:
        return limits
    log("fewer requests at once", requests=room, detail=f"the system lets this process open {files} files (ulimit -n)")
    return replace(limits, requests=room)


def _config(guard: ASGIApp, limits: Limits, at_once: int) -> uvicorn.Config:
    # uvicorn makes connections of a class, so what is set for them is set on one of ours.
    kind = type("Connection", (Connection,), {"most": 2 * limits.requests, "patience_s": limits.patience_s})
    return uvicorn.Config(
        guard,
        http=kind,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=at_once,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GOODBYE_S,
    )


@asynccontextmanager
async def _mcp(daemon: Daemon, options: Options) -> AsyncIterator[ASGIApp | None]:
    """The MCP surface, where its library is installed."""
    if find_spec("mcp") is None:
        yield None
        return
    from hansard.surfaces.mcp import http_app

    app = AtFirst(
        "hansard.surfaces.mcp.http",
        lambda: http_app(
            daemon.hansard,
            wishes=options.wishes,
            commands=options.commands,
            sessions=options.sessions,
            daemon=daemon,
        ),
    )
    async with app.lifespan():
        yield app


@contextlib.contextmanager
def _telemetry(daemon: Daemon, metrics: Metrics, url: str | None) -> Iterator[None]:
    """Finished runs for a collector, where one is named."""
    if url is None:
        yield
        return
    telemetry = Telemetry(daemon.hansard, url, __version__)
    daemon.follower.listen(lambda entry: telemetry.take(entry.run, entry.seq), OVER)
    metrics.untraced = lambda: telemetry.dropped
    try:
        yield
    finally:
        telemetry.close()


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens here; UsageError when the address is taken or not ours."""
    if not host:
        # The system takes it for every address that there is.
        raise UsageError("--host is empty; leave it out, or name an address: 0.0.0.0 is all of them")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, since asyncio turns Nagle's delay off for nothing else.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(MOST_WAITING)
    except (OSError, OverflowError) as error:
        made.close()
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen on {host}:{port}: {why}; choose another --host or --port") from error
    return made


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def names(host: str, port: int, more: tuple[str, ...]) -> list[str]:
    """Under which names the daemon is meant, with and without its port."""
    found = [host if ":" not in host else f"[{host}]", *(each.lower() for each in more)]
    if host in ("0.0.0.0", "::") or is_loopback(host):
        found += ["localhost", "127.0.0.1", "[::1]"]
    return [*found, *(f"{each}:{port}" for each in found)]
