"""Where others plug in: context before planning and before tasks, a verifier after the answer, a reviser of it.

Nothing here is trusted on its word: what a source gives is data, bounded and fenced; what a verifier says is recorded as its own
word; what a reviser writes is taken only if it is shorter and covers no less. A crash is recorded, and the run goes on.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.errors import ProviderError, UsageError, told_of
from hansard.ledger.entry import ACTOR
from hansard.providers.checks import BYTES_PER_TOKEN

SEAM_SECONDS = 60.0
CONTEXT_TOKENS = 4_000
When = Literal["request", "task", "both"]
T = TypeVar("T")
PASSES = (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
"""What ends the work of whoever asks; whatever else somebody's code raises is an error of his."""


@value
class Verification:
    """What a verifier says of an answer."""

    outcome: Literal["passed", "refused", "abstained"]
    detail: str = ""


class ContextSource(Protocol):
    """Knows something that may help: about a request, or about one task of it."""

    async def context(self, request: str, task: str | None) -> str: ...


class Verifier(Protocol):
    """Checks an answer by its own means. None: it cannot tell."""

    async def verify(self, request: str, answer: str) -> Verification | None: ...


class Reviser(Protocol):
    """Writes an answer anew, shorter. None: it leaves it as it is."""

    async def revise(self, request: str, answer: str) -> str | None: ...


@value
class Source:
    """A context source with its name, its share of the prompt, and when it is asked."""

    name: str
    source: ContextSource
    max_tokens: int = CONTEXT_TOKENS
    when: When = "request"

    def speaks(self, task: str | None) -> bool:
        return self.when == "both" or self.when == ("request" if task is None else "task")


class Given(NamedTuple):
    """What a source gave, as much as was admitted; None where it failed, and then why."""

    text: str | None
    offered_tokens: int
    admitted_tokens: int
    failure: str = ""


async def heard(work: Awaitable[T]) -> T:
    """What somebody else's code gives, within its time. Where it is cancelled from inside, that is an error like any other."""
    try:
        async with asyncio.timeout(SEAM_SECONDS):
            return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ProviderError("the work was cancelled from inside") from None


async def given_by(source: Source, request: str, task: str | None) -> Given:
    """Ask a source, within its time, and trim what it gives to its share."""
    try:
        text = await heard(source.source.context(request, task))
        if not isinstance(text, str):
            raise TypeError(f"gave a {type(text).__name__} instead of text")
    except PASSES:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever somebody else's code raises, the run goes on
        return Given(None, 0, 0, told_of(error)[:2_000])
    return trimmed(text, source.max_tokens)


def trimmed(text: str, max_tokens: int) -> Given:
    """The beginning of a text that fits into so many tokens."""
    data = text.encode("utf-8", "replace")
    kept = data[: max_tokens * BYTES_PER_TOKEN].decode("utf-8", "ignore")
    return Given(kept, _tokens(data), _tokens(kept.encode()))


def _tokens(data: bytes) -> int:
    return -(-len(data) // BYTES_PER_TOKEN)


def read_seam(fields: Fields) -> dict[str, Any]:
    """The table of a seam: a command, a URL or an entry point, as it is recorded."""
    given = [key for key in ("command", "url", "entry_point") if fields.has(key)]
    if len(given) != 1:
        raise UsageError(f'{fields.where}: write one of command = [...], url = "…", entry_point = "NAME"')
    value = fields.any(given[0])
    if given[0] == "command":
        if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
            raise fields.wrong("command", "a list of texts", value)
    elif not isinstance(value, str) or not value:
        raise fields.wrong(given[0], "a text", value)
    elif given[0] == "url" and not value.startswith(("http://", "https://")):
        raise UsageError(f"{fields.where}: url must begin with http:// or https://, not {value!r:.80}")
    return {given[0]: value}


def read_source(fields: Fields, number: int) -> dict[str, Any]:
    """The table of a context source."""
    table = {
        "name": fields.text("name", f"context-{number}"),
        "max_tokens": fields.count("max_tokens", CONTEXT_TOKENS, least=1),
        "when": fields.choice("when", ("request", "task", "both"), "request"),
        **read_seam(fields),
    }
    fields.done()
    if not ACTOR.fullmatch(actor_of(table["name"])):
        raise UsageError(
            f"{fields.where}: name {table['name']!r:.80} cannot be recorded; write 1 to 120 of A-Z a-z 0-9 . _ : / + -"
        )
    return table


def actor_of(source: str) -> str:
    """The actor as which a source speaks on the record."""
    return f"context:{source}"


def capsule_source(run: str, number: int) -> dict[str, Any]:
    """The table of a context source that tells an earlier run in short. No hansard.toml has one: who submits names the run."""
    return {"name": f"capsule-{number}", "max_tokens": CONTEXT_TOKENS, "when": "both", "run": run}


def read_sources(rows: object, where: str, runs: Sequence[str] = ()) -> tuple[Mapping[str, Any], ...]:
    """The context sources of a configuration, and the earlier runs that are told along."""
    if not isinstance(rows, list | tuple):
        raise UsageError(f"{where}: context must be a list of tables; write [[context]]")
    found = [read_source(Fields(row, f"{where}, context {number}"), number) for number, row in enumerate(rows, 1)]
    found += [capsule_source(run, number) for number, run in enumerate(runs, 1)]
    names = [table["name"] for table in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where}: context {name!r} stands there twice; name them apart")
    return tuple(found)
