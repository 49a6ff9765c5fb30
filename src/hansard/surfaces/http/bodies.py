"""What comes in, strictly, and what goes out, for the description. Outgoing views are not checked here: tests hold them against this."""

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from hansard.app.archived.documents import check_recordable, read_body
from hansard.app.ids import RUN_ID
from hansard.surfaces import shapes
from hansard.surfaces.http.problems import Refused, refusing
from hansard.surfaces.shapes import MAX_SEQ as MAX_SEQ
from hansard.surfaces.shapes import EntryView as EntryView
from hansard.surfaces.shapes import FullEntryView as FullEntryView
from hansard.surfaces.shapes import FullGateView as FullGateView
from hansard.surfaces.shapes import FullRunView as FullRunView
from hansard.surfaces.shapes import GateView as GateView
from hansard.surfaces.shapes import Name as Name
from hansard.surfaces.shapes import ReceiptView as ReceiptView
from hansard.surfaces.shapes import RunView as RunView
from hansard.surfaces.shapes import StateView as StateView
from hansard.surfaces.shapes import SummaryView as SummaryView

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class Strictly(APIRoute):
    """A route whose body is read as documents are: a name that stands twice is refused, NaN, and half a character. In the query a
    name is refused that the route does not know, and one that stands there twice and has one value.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = in_query(self)

        async def strictly(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    raise _wrong_in_query(name, f"this route takes {', '.join(known) or 'no query'}, and not that")
            refuse_doubled(request, known)
            return await handle(_Strict(request.scope, request.receive))

        return strictly


def in_query(route: APIRoute) -> dict[str, bool]:
    """The parameters of a route's query, each with whether it may stand there several times."""
    found: dict[str, bool] = {}
    for field in route.dependant.query_params:
        members = getattr(field.field_info.annotation, "model_fields", {field.alias: field.field_info})
        found |= {each.alias or name: _is_list(each.annotation) for name, each in members.items()}
    return found


def _is_list(kind: Any) -> bool:
    return any(get_origin(each) is list for each in (kind, *get_args(kind)))


def refuse_doubled(request: Request, known: Mapping[str, bool]) -> None:
    """422 where a name stands more than once that has one value: one of them would be taken, and nobody knows which was meant."""
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        if times > 1 and known.get(name) is False:
            raise _wrong_in_query(name, "it stands more than once, and has one value")


def _wrong_in_query(name: str, what: str) -> Refused:
    name = name[:80]
    return Refused(422, f"query/{name}: {what}", errors=[{"where": ["query", name], "what": what}])


class _Strict(Request):
    async def json(self) -> Any:
        with refusing(422):
            found = read_body(await self.body())
        # It may well be as described.
        with refusing(409):
            check_recordable(found)
        return found


def _without_defaults(schema: dict[str, Any]) -> None:
    """Of what has a default some generators of clients make something that has to be given."""
    for each in schema.get("properties", {}).values():
        each.pop("default", None)


class Incoming(shapes.Incoming):
    model_config = ConfigDict(json_schema_extra=_without_defaults)


def _in_digits(value: object) -> object:
    """A number in a path or a query is text, of which Python takes more for a number than the description does: 1_0, +1, 1.0."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        raise ValueError(f"{value[:40]!r} is not a whole number in digits")
    return value


DIGITS = BeforeValidator(_in_digits)
"""Behind whatever else is asked of a whole number in a path or a query."""
Seq = Annotated[shapes.Seq, DIGITS]


class Listing(BaseModel):
    """Which page of a list."""

    model_config = ConfigDict(extra="forbid")
    after: Seq | None = Field(
        None, description="Where the page begins: the `after` of the Link header of the one before."
    )
    limit: Annotated[int, Field(ge=1, le=500), DIGITS] = 20


class RunsListing(Listing):
    state: shapes.State | None = None


class EntriesListing(Listing):
    limit: Annotated[int, Field(ge=1, le=1000), DIGITS] = 100
    run: Name | None = None
    kind: Name | None = None
    actor: Name | None = None


class GatesListing(Listing):
    limit: Annotated[int, Field(ge=1, le=500), DIGITS] = 100
    run: Name | None = None
    closed: bool = False


class StateListing(Listing):
    limit: Annotated[int, Field(ge=1, le=1000), DIGITS] = 100
    at: Seq | None = None


Id = Annotated[str, Field(pattern=RUN_ID)]
RUN: Any = Field(
    None, description="An id for the run, a UUID of yours: who sends the same again is told that it is there."
)


class Budgeted(Incoming, shapes.Limited):
    """Who is asked, and what it may spend; null leaves it to the daemon's settings."""

    provider: Name | None = Field(None, description="A provider that is configured here, NAME or NAME:MODEL.")


class PlanRequest(Budgeted):
    request: Text
    run: Id | None = RUN


class RunRequest(Budgeted, shapes.Shaped):
    """A request for one judged answer."""

    request: Text
    run: Id | None = RUN


class RouteRequest(Incoming):
    text: Text


class SessionRequest(Incoming):
    """What every session can be asked with."""

    run: Id | None = RUN
    max_rounds: Annotated[int, Field(ge=1, le=1_000), shapes.WHOLE] | None = None
    provider: Name | None = None
    script: dict[str, Any] | None = None
    selector_script: dict[str, Any] | None = None
    experts: Annotated[list[Text], Field(max_length=8)] = Field(
        [], description="Needs, in words; for each a persona is made before the session begins."
    )
    max_expansions: Annotated[int, Field(ge=0, le=5), shapes.WHOLE] | None = Field(
        None, description="How often a session may go on from another, along the whole chain."
    )


class DeliberationRequest(SessionRequest, shapes.Capped):
    """A problem for a panel. A configuration is the protocol's own document."""

    problem: Text | None = None
    config: dict[str, Any] | None = None
    panel: Annotated[list[Name], Field(min_length=1, max_length=50)] | None = None
    ensemble: bool = Field(False, description="First answers of everybody, without sight of the others.")


class ContinuationRequest(SessionRequest):
    """What a session asked for. Who answers is as it was where nobody is named."""

    answer: Text | None = Field(None, description="What it asked for, from whoever knows.")


class RerunRequest(Incoming):
    swap: Annotated[dict[str, Name], BeforeValidator(shapes.few)] = Field(
        {}, description="Roles whose answers come live, and from which provider."
    )


class DecisionRequest(Incoming):
    """What somebody decides at a gate."""

    decision: Literal["approve", "reject", "edit"]
    note: Annotated[str, Field(max_length=10_000)] | None = None
    edit: Annotated[str, Field(max_length=1_000_000)] | None = None
    shown: Annotated[list[Name], Field(max_length=1000)] | None = Field(
        None, description="The commitments that the decider saw; refused when the gate shows something else by now."
    )


class VerifyRequest(Incoming):
    deep: bool = False
    strict: bool = False
    pin: shapes.Pin | None = None


class RouteView(shapes.RouteView):
    entry: int


class BrokenEntryView(BaseModel):
    """An entry that cannot be read, or does not follow the one before."""

    model_config = ConfigDict(extra="forbid")
    seq: int
    broken: str
    line: str


class DeliberationView(shapes.DeliberationView):
    started: str


class CheckpointView(BaseModel):
    size: int
    root: str
    checkpoint: str


class ConsistencyView(BaseModel):
    old: int
    size: int
    consistency: str


class StatusView(shapes.StatusView):
    started: str
    driving: int
    followers: int
    draining: bool


class HealthView(BaseModel):
    ok: bool
