"""What the protocol asks of an adapter, shown on sessions: the provider contract holds for whoever sits behind a seat."""

from typing import Any

import pytest

from deliberating import Room, config, fails, scripted, synthesis, turn, verdict
from hansard.domain.exchange import Completion, Exchange, Message, Usage
from hansard.providers.base import Heard, answered

requirement = pytest.mark.requirement
ROUND = [turn(), turn(), turn(), verdict("finalize"), synthesis()]


class Says:
    """A provider that gives whatever completion a test wants."""

    id, unmetered = "fake", True

    def __init__(self, **completion: Any) -> None:
        self.given = {"provider": "fake", "requested_model": "m", "returned_model": "m", **completion}

    def describe(self) -> dict[str, str]:
        return {"name": "fake", "kind": "says", "model": "m"}

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        return Completion(**self.given)


@requirement("R-6.1-2")
async def test_shutting_a_provider_down_twice_does_nothing_more() -> None:
    provider = scripted(ROUND)
    await Room().hold(config(), provider)
    await provider.close()
    await provider.close()
    assert provider.in_flight == 0


@requirement("R-6.2-2", "R-6.2-4")
async def test_an_effort_that_a_provider_does_not_know_is_passed_over_silently() -> None:
    data = config().as_data()
    for agent in (*data["agents"], data["coordinator"]):
        agent["reasoning_effort"] = "immense"
    provider = scripted(ROUND)
    sitting = await Room().hold(type(config()).parse(data), provider)
    assert sitting.reason == "synthesis"
    assert provider.calls[0].sampling.reasoning_effort == "immense"


@requirement("R-6.4-1", "R-6.5-2")
@pytest.mark.parametrize("finish", ["tool_call", "error"])
async def test_a_success_that_ended_in_a_tool_call_or_an_error_is_none(finish: Any) -> None:
    sitting = await Room().hold(config(), Says(structured={"text": "done"}, finish=finish))
    ending = sitting.artifact["outcome"]["termination_artifact"]
    assert (ending["reason"], ending["last_provider_failure"]["kind"]) == ("provider_unrecoverable", "internal")


@requirement("R-6.5-2")
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
async def test_a_valid_answer_counts_whichever_way_it_ended(finish: Any) -> None:
    provider = Says(structured={"text": "done"}, finish=finish)
    asked = await provider.complete(Exchange(messages=(Message(role="user", content="?"),)))
    assert asked.ok
    assert asked.finish == finish


@requirement("R-6.9-1")
async def test_usage_is_counted_on_every_result_failed_ones_included() -> None:
    failing = fails("content_filter", tokens=77)
    sitting = await Room().hold(config(on_agent_failure="continue_without"), [failing, turn(), turn(), *ROUND[3:]])
    assert sitting.held is not None
    assert (sitting.held.tokens, sitting.artifact["cumulative_usage"]["total_tokens"]) == (117, 40)
    silent = await Says(text="some words that nobody counted").complete(
        Exchange(messages=(Message(role="user", content="a question"),))
    )
    assert silent.usage == Usage(input_tokens=3, output_tokens=8, estimated=True)
