"""People at the dashboard: one who sends forms as a browser would, and a real browser where there is one."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from components import need
from daemons import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000
"""How long a browser is waited for: the machine may be busy with other tests."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


class Visitor:
    """Somebody with a browser that keeps cookies and follows nothing by itself."""

    def __init__(self, daemon: Served, token: str | None = "") -> None:
        self.daemon = daemon
        self.client = daemon.client(None)
        self.client.headers["Origin"] = daemon.address
        if token is not None:
            self.sign_in(token or daemon.token)

    def sign_in(self, token: str, to: str = "") -> httpx2.Response:
        return self.client.post("/dashboard/sign-in", data={"token": token, "to": to})

    def see(self, path: str) -> httpx2.Response:
        return self.client.get(path)

    def text(self, path: str) -> str:
        said = self.see(path)
        assert said.status_code == 200, (said.status_code, said.text[:500])
        return said.text

    def form_token(self) -> str:
        found = re.search(r'name="form_token" value="([0-9a-f]{64})"', self.text("/dashboard/verify"))
        assert found
        return found[1]

    def send(self, path: str, **fields: Any) -> httpx2.Response:
        return self.client.post(path, data={"form_token": self.form_token(), **fields})


class Markup(HTMLParser):
    """Which elements a page has, with their attributes, as a browser would read them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


@dataclass(slots=True, kw_only=True)
class Browsing:
    """A real browser, and whatever it had to complain about."""

    browser: "Browser"
    complaints: list[str] = field(default_factory=list)
    _contexts: "list[BrowserContext]" = field(default_factory=list)

    def visit(self, daemon: Served, *, width: int = 1200, token: str = "", **how: Any) -> "Page":
        """A page of a fresh profile, signed in."""
        page = self._page(viewport={"width": width, "height": 800}, base_url=daemon.address, **how)
        page.goto("/")
        page.get_by_label("Token").fill(token or daemon.token)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/dashboard/")
        return page

    def opened(self, file: Path) -> "Page":
        """A page of a fresh profile that shows a file, without any network."""
        page = self._page(offline=True)
        page.goto(file.as_uri())
        return page

    def _page(self, **how: Any) -> "Page":
        context = self.browser.new_context(**how)
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return page

    def close(self) -> None:
        """Every page; before their daemon ends, or a live page complains that it is gone."""
        while self._contexts:
            self._contexts.pop().close()


@contextmanager
def chromium() -> "Iterator[Browser]":
    """Chromium without a window; skips visibly where there is none."""
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    need(find_spec("playwright") is not None and path is not None, "playwright and chromium (apt install chromium)")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
