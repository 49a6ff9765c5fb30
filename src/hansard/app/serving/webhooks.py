"""Tells other programs when a gate opens or a run ends: signed, retried, in order, at least once.

Signed as the Standard Webhooks convention has it: HMAC-SHA256 over `id.timestamp.body`. What was delivered stands in the log
of the daemon and in its marks; the record does not depend on who listens.
"""

import asyncio
import base64
import fcntl
import hashlib
import hmac
import http.client
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from hansard.app.posting import aside, check_url, post
from hansard.app.serving.marks import Marks
from hansard.app.views import entry_view
from hansard.errors import HansardError, StoreError
from hansard.ledger.entry import Entry
from hansard.seal import private
from hansard.store.base import Query, Store

KINDS = ("gate.opened", "run.ended")
PAGE = 256
TRIES = 8
FIRST_S, LONGEST_S = 1.0, 60.0
TIMEOUT_S = 10.0

Tell = Callable[..., None]


def webhook_secret(folder: Path) -> bytes:
    """The secret that receivers check signatures with; made at the first use."""
    path = folder / "webhook-secret"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with private.lock_file(folder / "lock") as lock:
            # Daemons that start at once share the first one's.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                private.replace(path, b"whsec_%b\n" % base64.b64encode(secrets.token_bytes(32)))
        secret = base64.b64decode(path.read_text("ascii").strip().removeprefix("whsec_"), validate=True)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot use the webhook secret in {path}: {error}") from error
    if not secret:
        raise StoreError(f"there is no webhook secret in {path}; remove the file, and the next start makes one")
    return secret


def signature(secret: bytes, id: str, timestamp: int, body: bytes) -> str:
    signed = hmac.digest(secret, b"%s.%d.%s" % (id.encode(), timestamp, body), hashlib.sha256)
    return f"v1,{base64.b64encode(signed).decode()}"


class Webhooks:
    """Delivers to some URLs, each in its own order and at its own pace."""

    def __init__(self, urls: tuple[str, ...], secret: bytes, tell: Tell, store: Store, marks: Marks) -> None:
        self._secret, self._tell, self._store, self._marks = secret, tell, store, marks
        self._news = {url: asyncio.Event() for url in urls}
        for url in urls:
            check_url(url, "--webhook")

    def take(self, _: Entry) -> None:
        """There is something that somebody should know of."""
        for news in self._news.values():
            news.set()

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for url, news in self._news.items():
                group.create_task(self._deliver(url, news))

    async def _deliver(self, url: str, news: asyncio.Event) -> None:
        """Whatever is on the record and was not told, and then whatever comes."""
        while True:
            news.clear()
            try:
                while missed := await asyncio.to_thread(self._missed, url):
                    for entry in missed:
                        await self._one(url, entry)
            except HansardError as error:
                # What cannot be read here is told by others; this goes on when it can.
                self._tell("webhooks wait", url=_shown(url), detail=str(error))
                await asyncio.sleep(LONGEST_S)
                continue
            await news.wait()

    def _missed(self, url: str) -> list[Entry]:
        """The next that the receiver was not told of; a new one hears of what comes from now on."""
        after, last = self._marks.of(url), self._store.head().size - 1
        if after is None or after > last:
            # New, or of a ledger that was put back to an earlier state.
            after = last
            self._marks.move(url, after)
        # As of one moment: what comes between two looks would stand before something that is told, and never be told itself.
        found = [
            entry
            for kind in KINDS
            for entry in self._store.select(Query(kind=kind, after=after, before=last + 1, limit=PAGE))
        ]
        return sorted(found, key=lambda entry: entry.seq)[:PAGE]

    async def _one(self, url: str, entry: Entry) -> None:
        for number in range(1, TRIES + 1):
            try:
                said = await aside(lambda: self._post(url, entry))
            except OSError as error:
                said = _why(error)
            self._tell("webhook", url=_shown(url), seq=entry.seq, kind=entry.kind, attempt=number, said=said)
            if said.startswith("2"):
                break
            await asyncio.sleep(min(FIRST_S * 2 ** (number - 1), LONGEST_S))
        await asyncio.to_thread(self._marks.move, url, entry.seq)

    def _post(self, url: str, entry: Entry) -> str:
        """The answer's status, or why there was none."""
        body = json.dumps({"type": entry.kind, "run": entry.run, "entry": entry_view(entry)}).encode()
        id, now = f"{entry.run}.{entry.seq}", int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": "hansard",
            "webhook-id": id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._secret, id, now, body),
        }
        try:
            return str(post(url, body, headers, timeout_s=TIMEOUT_S).status)
        except (OSError, http.client.HTTPException) as error:
            return _why(error)


def webhooks(urls: tuple[str, ...], folder: Path, store: Store, tell: Tell) -> Webhooks:
    """Webhooks whose secret and marks lie in this folder."""
    return Webhooks(urls, webhook_secret(folder), tell, store, Marks(folder, store))


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _shown(url: str) -> str:
    """A URL for the log: its path and query may hold what lets somebody in."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
