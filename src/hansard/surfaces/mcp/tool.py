"""A tool: what it takes, what it gives, what it may do, and the function behind it."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from inspect import cleandoc, signature
from itertools import count
from typing import Annotated, Any, Literal, TypeVar

from mcp.server import ServerRequestContext
from mcp.types import InputRequiredResult, InputResponses, ToolAnnotations
from mcp.types import Tool as Described
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field

from hansard.app.serving.tokens import Token
from hansard.app.views import View
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.views import Shown
from hansard.surfaces.shapes import Incoming, Name

Text = Annotated[str, Field(min_length=1, max_length=1_000_000, pattern=r"\S")]
Run = Annotated[Name, Field(description="A run's id, the beginning or the end of one, or `last`.")]

Kind = Literal["reads", "runs", "changes"]
HINTS: dict[Kind, ToolAnnotations] = {
    "reads": ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False),
    "runs": ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True),
    "changes": ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
    ),
}


class Arguments(Incoming):
    """What a caller says."""


class Nothing(Arguments):
    """A tool that needs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool: at which desk, by whom, and what came with it."""

    desk: Desk
    ctx: ServerRequestContext[Any, Any]
    token: Token | None = None
    answers: InputResponses | None = None
    state: str | None = None
    steps: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers what its client is told meanwhile: they grow for as long as the call lasts, however many runs it takes."""

    @property
    def actor(self) -> str | None:
        """Who acts, as the record names him; None is whoever this process belongs to."""
        return self.token.actor if self.token else None

    @property
    def was_cancelled(self) -> bool:
        """Whether its client cancelled this call that is being ended. In the newest generation nothing else ends one but ourselves;
        in the older ones a session that is over does too, and the library keeps to itself which of the two it was."""
        if self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return True
        asked = getattr(getattr(self.ctx.session, "_request_outbound", None), "cancel_requested", None)
        return asked is None or bool(asked.is_set())


class TaskMade(BaseModel):
    """The run goes on as a task: the client asks for it by its id."""

    run: str


A = TypeVar("A", bound=Arguments)
Given = View | InputRequiredResult | TaskMade
Work = Callable[[Call, A], Awaitable[Given]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, as it is listed and called."""

    name: str
    title: str
    description: str
    kind: Kind
    takes: type[Arguments]
    gives: type[Shown]
    work: Callable[[Call, Any], Awaitable[Given]]


@cache
def described(tool: Tool) -> Described:
    """As it is listed. Made once: schemas take so long that clients who list tools would hold up everybody else."""
    takes, gives = tool.takes.model_json_schema(), tool.gives.model_json_schema(mode="serialization")
    for schema in (takes, gives):
        schema.pop("description", None)
    return Described(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=takes,
        output_schema=gives,
        annotations=HINTS[tool.kind],
    )


def tool(title: str, kind: Kind, gives: type[Shown]) -> Callable[[Work[A]], Tool]:
    """Make a tool of a function; its second parameter says what it takes, its docstring is what callers read."""

    def made(work: Work[A]) -> Tool:
        name, words = getattr(work, "__name__", ""), cleandoc(work.__doc__ or "")
        takes = list(signature(work).parameters.values())[1].annotation
        return Tool(name=name, title=title, description=words, kind=kind, takes=takes, gives=gives, work=work)

    return made
