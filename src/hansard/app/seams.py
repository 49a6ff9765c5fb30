"""Opens what is plugged into runs: a program, a URL, an entry point of an installed package, or an object handed in.

A program and a URL get one JSON object and give text, or JSON where there is more to say. Each call has its time limit.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hansard.errors import ProviderError, UsageError, told_of
from hansard.orchestration.judge import Programs
from hansard.orchestration.seams import SEAM_SECONDS, ContextSource, Reviser, Source, Verification, Verifier
from hansard.providers.tools import Handler, Refusal

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = {
    "context": "hansard.context",
    "verifier": "hansard.verifiers",
    "reviser": "hansard.revisers",
    "tool": "hansard.tools",
}
METHODS = {"context": "context", "verifier": "verify", "reviser": "revise", "tool": "__call__"}
"""What each is asked by."""
MOST_BYTES = 4 * 1024 * 1024


class Asks(Protocol):
    """Sends one JSON object somewhere and gives back what came. Where only the beginning would do, `whole` is False."""

    async def __call__(self, question: Mapping[str, Any], *, whole: bool = False) -> str: ...


class TooLong(ProviderError):
    """More was said than is taken."""


class Remote:
    """A program or URL as a context source, a verifier and a reviser at once: each asks in its own words."""

    def __init__(self, ask: Asks) -> None:
        self._ask = ask

    async def context(self, request: str, task: str | None) -> str:
        return await self._ask({"seam": "context", "request": request, "task": task})

    async def verify(self, request: str, answer: str) -> Verification | None:
        said = await self._ask({"seam": "verifier", "request": request, "answer": answer}, whole=True)
        try:
            found = json.loads(said)
            outcome, detail = found["outcome"], str(found.get("detail", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ProviderError(
                'a verifier says {"outcome": "passed" | "refused" | "abstained", "detail": "…"}; '
                f"this one said {said!r:.200}"
            ) from error
        return Verification(outcome=outcome, detail=detail)

    async def revise(self, request: str, answer: str) -> str | None:
        return await self._ask({"seam": "reviser", "request": request, "answer": answer}, whole=True) or None

    def handler(self, tool: str) -> Handler:
        """The same as what runs a tool: text is its result, and `{"error": "…"}` says why there is none."""

        async def handle(arguments: Mapping[str, Any]) -> object:
            try:
                said = await self._ask({"seam": "tool", "tool": tool, "arguments": arguments}, whole=True)
            except TooLong as error:
                return Refusal(message=str(error))
            try:
                found = json.loads(said)
            except (ValueError, RecursionError):
                return said
            refused = isinstance(found, dict) and found.keys() == {"error"}
            return Refusal(message=str(found["error"])) if refused else said

        return handle


class Capsule:
    """What another run knows, as context."""

    def __init__(self, run: str, capsule: Callable[[str], str]) -> None:
        self._run, self._capsule = run, capsule

    async def context(self, request: str, task: str | None) -> str:
        return await asyncio.to_thread(self._capsule, self._run)


def open_source(
    table: Mapping[str, Any], programs: Programs, given: Mapping[str, Any], capsule: Callable[[str], str]
) -> Source:
    """A context source from its table."""
    found: ContextSource
    found = Capsule(str(table["run"]), capsule) if "run" in table else _opened("context", table, programs, given)
    return Source(name=str(table["name"]), source=found, max_tokens=int(table["max_tokens"]), when=table["when"])


def open_verifier(table: Mapping[str, Any], programs: Programs, given: Mapping[str, Any]) -> Verifier:
    found: Verifier = _opened("verifier", table, programs, given)
    return found


def open_reviser(table: Mapping[str, Any], programs: Programs, given: Mapping[str, Any]) -> Reviser:
    found: Reviser = _opened("reviser", table, programs, given)
    return found


def open_handler(name: str, table: Mapping[str, Any], programs: Programs, given: Mapping[str, Any]) -> Handler:
    """What runs a tool."""
    found = _opened("tool", table, programs, given)
    handler: Handler = found.handler(name) if isinstance(found, Remote) else found
    return handler


def _opened(seam: str, table: Mapping[str, Any], programs: Programs, given: Mapping[str, Any]) -> Any:
    if "command" in table:
        return Remote(_command(tuple(table["command"]), programs))
    if "url" in table:
        return Remote(_url(str(table["url"])))
    name = str(table.get("entry_point") or table.get("python") or "")
    if name in given:
        return given[name]
    if "python" in table:
        raise UsageError(f"the {seam} {name!r} was handed in by a Python program; go on with this run from there")
    return _entry_point(seam, name)


def _command(argv: tuple[str, ...], programs: Programs) -> Asks:
    async def ask(question: Mapping[str, Any], *, whole: bool = False) -> str:
        ran = await programs(argv, json.dumps(question).encode(), SEAM_SECONDS)
        if ran.exit_code != 0:
            said = ran.stderr[-500:].decode("utf-8", "replace").strip()
            raise ProviderError(f"{argv[0]} ended with exit code {ran.exit_code}: {said}")
        if whole and ran.truncated:
            raise TooLong(f"{argv[0]} printed more than the {len(ran.stdout):,} bytes that are taken")
        return ran.stdout.decode("utf-8", "replace").strip()

    return ask


def _url(url: str) -> Asks:
    # Imported when it is used: most runs have nothing that is asked over HTTP.
    from http.client import HTTPException

    from hansard.app.posting import aside, check_url, post

    check_url(url, "url")

    def fetch(question: Mapping[str, Any], whole: bool) -> str:
        body, headers = json.dumps(question).encode(), {"Content-Type": "application/json"}
        try:
            status, data = post(url, body, headers, timeout_s=SEAM_SECONDS, most_bytes=MOST_BYTES + 1)
        except (OSError, HTTPException) as error:
            raise ProviderError(f"{url}: {error or type(error).__name__}") from error
        if not 200 <= status < 300:
            raise ProviderError(f"{url}: answered with status {status}")
        if whole and len(data) > MOST_BYTES:
            raise TooLong(f"{url}: answered with more than the {MOST_BYTES:,} bytes that are taken")
        return data[:MOST_BYTES].decode("utf-8", "replace").strip()

    async def ask(question: Mapping[str, Any], *, whole: bool = False) -> str:
        return await aside(lambda: fetch(question, whole))

    return ask


def installed(seam: str) -> "dict[str, EntryPoint]":
    """What installed packages bring for a seam, by name."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUPS[seam])}


def _entry_point(seam: str, name: str) -> Any:
    found = installed(seam)
    if name not in found:
        known = ", ".join(sorted(found)) or "none are installed"
        raise UsageError(f"no installed package brings the {seam} {name!r} (entry points {GROUPS[seam]}: {known})")
    try:
        made = found[name].load()
        made = made() if isinstance(made, type) else made
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        why = told_of(error)
        raise UsageError(f"the {seam} {name!r} ({found[name].value}) cannot be loaded: {why}") from error
    if not callable(getattr(made, METHODS[seam], None)):
        raise UsageError(f"the {seam} {name!r} ({found[name].value}) is none: it has no method {METHODS[seam]}")
    return made
