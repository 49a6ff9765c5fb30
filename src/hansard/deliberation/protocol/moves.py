"""What the machine says to its driver and what it hears back. Values only; nothing here decides.

A message is named by its ordinal in the transcript: ids and timestamps are the driver's. Contents are JSON data that
was checked before it came here.
"""

from collections.abc import Mapping
from typing import Any, Literal

from hansard.deliberation.documents.vocabulary import OutputSchema
from hansard.domain.council import TerminationReason, TurnType
from hansard.domain.exchange import ErrorKind
from hansard.domain.value import value

Json = Mapping[str, Any]
Cap = Literal[
    "max_rounds",
    "max_total_tokens",
    "max_total_cost_usd",
    "max_wallclock_seconds",
    "per_agent_token_budget",
    "selector_budget",
]


@value
class Reading:
    """What the driver sees when something happens: the session's age, and whether the host wants it to end."""

    elapsed_us: int = 0
    cancelled: bool = False


@value
class Spent:
    """What one call used, for the caps. What the message says of its usage is kept apart, word for word.

    It is no call where nobody was asked, and where a tool ended the turn: the model's own were `Used` before.
    """

    tokens: int = 0
    cost_usd_nano: int = 0
    calls: int = 1

    def plus(self, other: "Spent") -> "Spent":
        return Spent(
            tokens=self.tokens + other.tokens,
            cost_usd_nano=self.cost_usd_nano + other.cost_usd_nano,
            calls=self.calls + other.calls,
        )


@value
class Selected:
    """The panel stands, in the order in which it will speak."""

    reading: Reading
    panel: tuple[str, ...]


@value
class Unselected:
    """There is no panel: the configuration or the selector failed, or a budget is gone: by default the selector's own."""

    reading: Reading
    reason: Literal["schema_error", "budget_exceeded", "provider_unrecoverable"]
    why: str = ""
    cap: Cap = "selector_budget"


@value
class Used:
    """A call ended in calls for tools. Nothing is answered yet, and what it took counts already."""

    reading: Reading
    spent: Spent


@value
class Answered:
    """A call gave content that fits what was expected."""

    reading: Reading
    content: Json
    usage: Json
    spent: Spent


@value
class Failed:
    """A call gave nothing usable."""

    reading: Reading
    kind: ErrorKind
    retriable: bool
    spent: Spent
    message: str = ""
    details: Json | None = None


@value
class Rested:
    """The pause before a retry is over."""

    reading: Reading


Event = Selected | Unselected | Used | Answered | Failed | Rested


@value
class Select:
    """Say who sits on the panel."""


@value
class Ask:
    """Ask this agent for this turn. `request` and `parent` are set on branch turns, `correcting` after a malformed answer."""

    agent: str
    expect: OutputSchema
    round: int
    turn_index: int
    branch_depth: int = 0
    attempt: int = 1
    correcting: bool = False
    parent: int | None = None
    request: Json | None = None


@value
class Pause:
    """Wait before the next attempt: so many were made, and the last one failed like this."""

    made: int
    failed: Failed


@value
class Stopped:
    """The session terminates. `failed` and `agent` name the call that ended it, `cap` the limit, `why` what kept a panel from sitting."""

    reason: TerminationReason
    cap: Cap | None = None
    pending: Json | None = None
    agent: str | None = None
    failed: Failed | None = None
    why: str = ""


@value
class Synthesized:
    """The session has its answer. `instead_of` is the termination that the synthesis has replaced."""

    ordinal: int
    instead_of: Stopped | None = None


Move = Select | Ask | Pause | Stopped | Synthesized


@value
class Draft:
    """A message without id and timestamp; `parent` is an ordinal. A usage of None is zero."""

    ordinal: int
    type: TurnType
    speaker: str
    content: Json | str
    round: int
    turn_index: int
    branch_depth: int = 0
    parent: int | None = None
    usage: Json | None = None
    suggested_followups: tuple[Json, ...] = ()
    dropped_deferred: tuple[Json, ...] = ()
    schema_failure: tuple[Json, ...] = ()


@value
class Step:
    """What has come of an event: messages for the transcript, earlier ones that were annotated, and the next move."""

    appended: tuple[Draft, ...]
    amended: tuple[Draft, ...]
    move: Move
