"""The longest queue of deferred requests, as a transcript shows it [A-20]: the artifact has no other word on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from hansard.deliberation.documents.config import Config, RuntimeConfig
from hansard.deliberation.protocol.moves import Spent
from hansard.deliberation.protocol.rules import Rules
from hansard.deliberation.protocol.state import State, gate
from hansard.domain.budget import in_nano

Json = Mapping[str, Any]


def longest_queue(messages: Sequence[Json], config: Json, reason: str | None) -> int:
    """How many requests waited at most. `reason` is that of the termination, where the session ended with one."""
    drains = RuntimeConfig.parse(config["runtime"]).knobs.max_deferred_drains_per_round
    places = {message["content"]["agent_id"]: at for at, message in enumerate(messages) if _is_loss(message)}
    undecided = _undecided(messages, config, reason)
    length = longest = round = 0
    for at, message in enumerate(messages):
        if message["round"] != round:
            # Whatever comes of a request that is due, it waits no more.
            round, length = message["round"], max(0, length - drains)
        if message["type"] == "primary_turn" and at != undecided and _requests(message):
            length += _deferred(messages, at, places)
            longest = max(longest, length)
    return longest


def _deferred(messages: Sequence[Json], at: int, places: Mapping[str, int]) -> int:
    """How many requests of this turn were put into the queue: all but those that were answered, dropped or refused at once.

    One that could be routed when it was asked, and not any more when it was due, is among those that failed, too; its
    target left the panel in between.
    """
    message, decided = messages[at], at + 1
    failed = [each["offending_request"].get("target") for each in message.get("schema_failure") or ()]
    left_later = [each for each in failed if each != message["speaker"] and _place(places, each) > decided]
    settled = len(failed) - len(left_later) + len(message.get("dropped_deferred") or ())
    return max(0, len(_requests(message)) - (_answer(messages, at) is not None) - settled)


def _place(places: Mapping[str, int], agent: object) -> int:
    """Where in the transcript somebody leaves the panel; before it begins where he never does."""
    return places.get(agent, -1) if isinstance(agent, str) else -1


def _undecided(messages: Sequence[Json], config: Json, reason: str | None) -> int | None:
    """The turn in which the session ended, before it was decided on what was asked there.

    What an answer took may have ended the session at once; or what a failed call behind it took, which no transcript shows:
    then it was decided, and a note may tell. The clock and the host end calls that are under way, and no answers.
    """
    turns = [at for at, message in enumerate(messages) if message["type"] == "primary_turn"]
    if not turns:
        return None
    last = turns[-1]
    behind = [message for message in messages[last + 1 :] if message["type"] != "synthesis"]
    if not behind:
        return last
    answer = _answer(messages, last)
    is_cut = reason == "budget_exceeded" and len(behind) == 1 and answer is not None and answer["type"] == "branch_turn"
    return last if is_cut and not _is_noted(messages, last) and _may_have_breached(messages, config) else None


def _may_have_breached(messages: Sequence[Json], config: Json) -> bool:
    """Whether the last message can be what has breached a cap: with the others, or with calls that failed before it. One of
    these alone would have ended the session before it.
    """
    rules = Rules.of(Config.parse(config))
    state, spent = State(rules=rules), _spent(messages[-1])
    for message in messages:
        state.spend(message["speaker"], _spent(message))
    may_have_failed = any(_is_loss(each) or rules.retries_of(each["speaker"]) for each in messages[1:])
    return gate(state) is not None or (may_have_failed and bool(spent.tokens or spent.cost_usd_nano))


def _spent(message: Json) -> Spent:
    usage = message["usage"]
    return Spent(tokens=usage["total_tokens"], cost_usd_nano=in_nano(usage["cost_usd"]))


def _is_noted(messages: Sequence[Json], at: int) -> bool:
    """Whether a turn says what came of requests that stand behind the one that was answered at once."""
    message, targets = messages[at], [each["target"] for each in _requests(messages[at])]
    before = targets.index(messages[at + 1]["speaker"]) if messages[at + 1]["speaker"] in targets else 0
    return bool(message.get("dropped_deferred")) or len(message.get("schema_failure") or ()) > before


def _answer(messages: Sequence[Json], at: int) -> Json | None:
    """What follows a turn at once, if it is its branch. The reference runtime does not say where somebody failed who leaves;
    it was here if he was asked here."""
    if at + 1 == len(messages) or messages[at + 1]["round"] != messages[at]["round"]:
        return None
    asked, following = messages[at], messages[at + 1]
    if _is_loss(following):
        return following if following["content"]["agent_id"] in {each["target"] for each in _requests(asked)} else None
    return following if following["branch_depth"] and following.get("parent_id") == asked["id"] else None


def _is_loss(message: Json) -> bool:
    return bool(message["type"] == "panel_contraction")


def _requests(message: Json) -> Sequence[Json]:
    return message["content"].get("direct_requests") or ()
