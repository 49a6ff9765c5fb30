"""The door: request ids, Host and Origin, tokens and roles, sizes and rates, the access log. What it refuses goes no further.

Plain ASGI around the whole application, so that a body is not read before its sender is known.
"""

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import ceil
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hansard.app.serving.tokens import Role, Token, Tokens
from hansard.errors import StoreError
from hansard.surfaces.http.dashboard import session
from hansard.surfaces.http.dashboard.pages import refusal
from hansard.surfaces.http.desk import BEARER, check_role
from hansard.surfaces.http.metrics import Metrics
from hansard.surfaces.http.problems import BUG, MEDIA, Refused, body_of, refused_by
from hansard.surfaces.http.wire import WHOLE

PUBLIC = frozenset({"/health", "/openapi.json"})
AUDITORS = ("/checkpoint", "/tile/")
MCP = "/mcp"
"""Which tools a caller may use there, its own door says."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_DECISION = re.compile(r"/(v1|dashboard)/gates/[^/]*/decision/?")
_BOOT, _NUMBERS = os.urandom(6).hex(), count(1)
"""Request ids: this process, and a number."""
SAFE = ("GET", "HEAD", "OPTIONS")
JSON, FORM = b"application/json", b"application/x-www-form-urlencoded"
SPELLED = 3
"""A form spells a byte in up to so many, and may be so much longer."""
WRONG_SHARE = 50
"""Of its rate a caller may spend so small a share on wrong tokens."""
SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cache-control", b"no-store"),
]

Log = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one caller may use."""

    body_bytes: int = 1 << 20
    requests: int = 4_096
    """Requests at once, followers of events included."""
    rate: float = 5_000.0
    """Requests a second of one token."""
    patience_s: float = 10.0
    """How long the head of a request may take, its body, and a reader that takes nothing."""

    @property
    def share(self) -> int:
        """Requests of one token at once: others have work too, and somebody asks whether the daemon is well."""
        return ceil(self.requests * 3 / 4)


class Bucket:
    """So many a second, and as many at once."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._left, self._at = rate, rate, now

    def take(self, now: float) -> bool:
        self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Under which names the daemon answers, and whose pages may call it."""

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    public_log: bool = False


class Guard:
    """Stands around the application."""

    def __init__(self, app: ASGIApp, tokens: Tokens, doors: Doors, limits: Limits, metrics: Metrics, log: Log) -> None:
        self._app, self._tokens, self._doors, self._limits = app, tokens, doors, limits
        self._metrics, self._log = metrics, log
        self._buckets: dict[str, Bucket] = {}
        self._open: Counter[str] = Counter()
        """Requests under way, by token."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(scope, send, self._limits)
        began = time.monotonic()
        self._metrics.open += 1
        try:
            self._check(scope, request)
            await self._app(scope, lambda: request.receive(receive), request.send)
        except Exception as error:
            refused = refused_by(error)
            if refused.status_code == BUG:
                self._log("bug", request_id=request.id, error=f"{type(error).__name__}: {error}", exc_info=error)
            if request.status:
                raise
            await request.refuse(refused)
        except asyncio.CancelledError:
            # Nobody but a daemon that goes home ends a request so. It stops here: the server would call it an error of ours.
            if not request.status:
                await request.refuse(Refused(503, "the daemon is shutting down; try again in a moment"))
        finally:
            self._metrics.open -= 1
            if request.token:
                self._open[request.token.digest] -= 1
            self._account(scope, request, time.monotonic() - began)

    def _check(self, scope: Scope, request: "_Request") -> None:
        headers = request.headers
        self._check_host(headers)
        if self._metrics.open > self._limits.requests:
            raise Refused(503, "too many requests at once; try again in a moment", {"retry-after": "1"})
        if not self._is_public(scope["path"]):
            self._admit(scope, headers, request)
        if scope["method"] not in SAFE:
            self._check_body(headers, request.most, FORM if session.is_page(scope["path"]) else JSON)

    def _check_host(self, headers: dict[bytes, list[bytes]]) -> None:
        """DNS rebinding: a page of somebody else's reaches us under a name of its own."""
        hosts = [each.decode("latin-1").lower() for each in headers.get(b"host", [])]
        if len(hosts) != 1 or not {hosts[0], "*"} & self._doors.hosts:
            raise Refused(421, f"this daemon does not answer as {', '.join(hosts)[:80] or 'nobody'}; see --allow-host")
        for origin in headers.get(b"origin", []):
            name = origin.decode("latin-1").lower()
            if name not in self._doors.origins and name != f"http://{hosts[0]}":
                raise Refused(403, f"pages of {name[:80]} may not call this daemon; see --allow-origin")
        if headers.get(b"sec-fetch-site", [b""])[0] in (b"cross-site", b"same-site") and b"origin" not in headers:
            raise Refused(403, "a page of another site may not call this daemon; to look at it, type its address")

    def _is_public(self, path: str) -> bool:
        return path in PUBLIC or session.is_open(path) or (self._doors.public_log and path.startswith(AUDITORS))

    def _admit(self, scope: Scope, headers: dict[bytes, list[bytes]], request: "_Request") -> None:
        challenge, path = {"www-authenticate": 'Bearer realm="hansard"'}, scope["path"]
        secret = _secret(path, headers)
        token = self._known(secret) if secret else None
        if token is None or self._tokens.is_over(token):
            client = (scope.get("client") or ("?",))[0]
            self._take(f"wrong {client}", max(1.0, self._limits.rate / WRONG_SHARE))
            if session.is_page(path) and not path.startswith(session.DATA):
                again = bool(secret)
                if scope["method"] in SAFE:
                    leads = session.sign_in_at(_asked_for(scope), again=again)
                else:
                    leads = session.sign_in_for(path, again=again)
                raise Refused(303, "sign in first", {"location": leads})
            unknown = "this token is not known here: it was revoked or rotated, or is for another daemon"
            why = "this token has expired" if token else unknown if secret else BEARER
            raise Refused(401, f"{why}; `hansard serve token list` shows what there is", challenge)
        request.token = token
        self._open[token.digest] += 1
        if self._open[token.digest] > self._limits.share:
            raise Refused(429, f"too many requests of token {token.name!r} at once; let one end", {"retry-after": "1"})
        request.may_go_on = lambda: self._is_good(secret)
        scope["hansard.token"], scope["hansard.may_go_on"] = token, request.may_go_on
        self._take(token.digest, self._limits.rate)
        check_role(token, role_for(scope["method"], path))

    def _known(self, secret: str) -> Token | None:
        try:
            return self._tokens.known(secret)
        except StoreError as error:
            # What is wrong with our files is nothing for whoever was not let in.
            self._log("nobody is let in", error=str(error))
            said = "the tokens of this daemon cannot be read, so nobody is let in; its log tells more"
            raise Refused(503, said, {"retry-after": "5"}) from error

    def _is_good(self, secret: str) -> bool:
        token = self._known(secret)
        return token is not None and not self._tokens.is_over(token)

    def _take(self, whose: str, rate: float) -> None:
        now = time.monotonic()
        if len(self._buckets) > 10_000:
            self._buckets.clear()
        bucket = self._buckets.setdefault(whose, Bucket(rate, now))
        if not bucket.take(now):
            raise Refused(429, f"more than {rate:g} requests a second; wait a moment", {"retry-after": "1"})

    def _check_body(self, headers: dict[bytes, list[bytes]], most: int, wanted: bytes) -> None:
        length = headers.get(b"content-length", [b"0"])[0]
        if length.isdigit() and int(length) > most:
            raise Refused(413, f"the body has {int(length):,} bytes; at most {most:,} are taken")
        if length == b"0" and b"transfer-encoding" not in headers:
            return
        media = headers.get(b"content-type", [b""])[0].split(b";")[0].strip().lower()
        if media != wanted:
            raise Refused(415, f"the body must be {wanted.decode()}")

    def _account(self, scope: Scope, request: "_Request", took_s: float) -> None:
        # Only routes of the framework's own make say which they are.
        route = getattr(scope.get("route"), "path", None) or (MCP if scope["path"] == MCP else "other")
        self._metrics.request(scope["method"], route, request.status, took_s)
        self._log(
            "request",
            request_id=request.id,
            method=scope["method"],
            path=scope["path"][:200],
            status=request.status,
            ms=round(took_s * 1000, 1),
            token=request.token.name if request.token else None,
            client=(scope.get("client") or (None,))[0],
        )


def role_for(method: str, path: str) -> Role:
    """What a caller must be allowed to."""
    if method in SAFE or path in ("/v1/ledger/verify", session.SIGN_OUT, MCP):
        return "reader"
    return "approver" if _DECISION.fullmatch(path) else "operator"


def _asked_for(scope: Scope) -> str:
    """The page that somebody wants to see, with what he filters it by or chose on it."""
    query = scope["query_string"].decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def _secret(path: str, headers: dict[bytes, list[bytes]]) -> str:
    """What the caller shows: a cookie on the pages of the dashboard, which nothing else takes; elsewhere a bearer token."""
    if session.is_page(path):
        return session.secret_of(headers.get(b"cookie", []))
    given = headers.get(b"authorization", [])
    scheme, _, secret = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
    return secret.strip() if scheme.lower() == "bearer" else ""


class _Request:
    """One request on its way through the door."""

    def __init__(self, scope: Scope, send: Send, limits: Limits) -> None:
        self.headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name, []).append(value)
        given = self.headers.get(b"x-request-id", [b""])[0]
        self.id = given.decode() if _REQUEST_ID.fullmatch(given) else f"{_BOOT}{next(_NUMBERS):x}"
        scope["hansard.request_id"] = self.id
        self.token: Token | None = None
        self.may_go_on: Callable[[], bool] = lambda: True
        """Whether a stream is still for this caller: his token may end while he follows."""
        self.status = 0
        self._scope = scope
        self.most = limits.body_bytes * (SPELLED if session.is_page(scope["path"]) else 1)
        self._send, self._read = send, 0
        self._whole = False
        self._sent_away = asyncio.Event()
        self._until = time.monotonic() + limits.patience_s

    async def receive(self, receive: Receive) -> Message:
        if self._whole:
            return await self._gone(receive)
        if WHOLE in self._scope:
            message = await receive()
        else:
            message = await self._in_time(receive)
        self._read += len(message.get("body", b""))
        if self._read > self.most:
            raise Refused(413, f"the body has more than {self.most:,} bytes", {"connection": "close"})
        self._whole = not message.get("more_body", False)
        return message

    async def _gone(self, receive: Receive) -> Message:
        """Nothing comes behind a body but the news that its sender has gone, or was sent away."""
        either = asyncio.ensure_future(receive()), asyncio.ensure_future(self._sent_away.wait())
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in either:
                each.cancel()
        return {"type": "http.disconnect"} if self._sent_away.is_set() else either[0].result()

    async def _in_time(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                return await receive()
        except TimeoutError:
            raise Refused(408, "the body did not come in time", {"connection": "close"}) from None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            have = {name.lower() for name, _ in message["headers"]}
            more = [each for each in SECURITY if each[0] not in have]
            message = {**message, "headers": [*message["headers"], *more, (b"x-request-id", self.id.encode())]}
        elif self._sent_away.is_set():
            return
        elif message.get("more_body") and not self.may_go_on():
            if self._scope["method"] == "GET":
                self._sent_away.set()
                message = {"type": "http.response.body", "body": b""}
            else:
                # A call that is hung up on is a call that is cancelled: this one goes on, and he hears nothing of it.
                message = {**message, "body": b""}
        await self._send(message)

    async def refuse(self, refused: Refused) -> None:
        if session.is_seen(self._scope["path"]) and refused.status_code >= 400:
            told = refusal(HttpRequest(self._scope), refused)
        else:
            told = Response(body_of(refused.status_code, refused.detail, self.id, refused.more), media_type=MEDIA)
        headers = [*told.raw_headers]
        headers += [(name.encode(), value.encode("latin-1")) for name, value in (refused.headers or {}).items()]
        start: dict[str, Any] = {"type": "http.response.start", "status": refused.status_code, "headers": headers}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": told.body})
