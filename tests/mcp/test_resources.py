"""What can be read by address, and the prompts for the common jobs."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from deliberating import config, fails, script, synthesis, turn, verdict
from hansard.app.telling.deliberationviews import artifact_on_record
from hansard.errors import StoreError
from mcp_clients import called, client_of, desk_in


async def read(client: Client, address: str) -> Any:
    [shown] = (await client.read_resource(address)).contents
    assert shown.mime_type == "application/json"
    return json.loads(getattr(shown, "text", ""))


async def test_runs_transcripts_and_entries_can_be_read(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        done = await called(client, "submit", {"request": "compare three queues"})
        held = await called(client, "deliberate", {"problem": "Keep our own mail server?"})
        assert await read(client, f"run://{done['run']}") == done
        assert await read(client, f"run://{done['run'].upper()}") == done
        assert await called(client, "run_show", {"run": done["run"].upper()}) == done
        assert (await read(client, "run://last"))["run"] == held["run"]
        said = await read(client, f"transcript://{held['run']}")
        assert len(said["messages"]) == held["messages"]
        assert said["messages"][-1]["content"]["integrated_answer"] == held["synthesis_answer"]
        entry = await read(client, f"ledger://{done['answer_seq']}")
        assert entry == await called(client, "ledger_get", {"seq": done["answer_seq"]})
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert listed == [f"run://{held['run']}", f"transcript://{held['run']}", f"run://{done['run']}"]
        with pytest.raises(MCPError, match="is no deliberation"):
            await client.read_resource(f"transcript://{done['run']}")
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["run://{run}", "transcript://{run}", "ledger://{seq}"]


async def test_a_transcript_is_the_one_whose_digest_is_told_also_where_a_message_was_annotated_later(
    tmp_path: Path,
) -> None:
    first = (turn("ben", "cyd"), turn(), turn(), fails("auth_failure"), verdict())
    said = (*first, turn(), turn(), verdict("finalize"), synthesis())
    asked = {"config": config(on_agent_failure="continue_without").as_data(), "script": script(said).as_data()}
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        held = await called(client, "deliberate", asked)
        run, store = held["run"], desk.hansard.store
        assert [each["data"]["what"] for each in desk.hansard.runs.views(run) if each["kind"] == "turn.amended"]
        assert (await read(client, f"transcript://{run}"))["messages"] == artifact_on_record(store, run)[
            "canonical_transcript"
        ]


async def test_many_runs_are_listed_page_by_page(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        made = [(await called(client, "submit", {"request": "x", "wait": False}))["run"] for _ in range(60)]
        first = await client.list_resources()
        assert len(first.resources) == 50
        rest = await client.list_resources(cursor=first.next_cursor)
        assert [each.uri for each in (*first.resources, *rest.resources)] == [f"run://{run}" for run in made[::-1]]


ABSENT = [
    "run://nothing",
    "run://01a1ddf5-68b5-78f0-a03f-979e532fb034",
    "ledger://1000000000",
    "ledger://-1",
    "ledger://x",
]
FOREIGN = ["file:///etc/passwd", "http://127.0.0.1/", "run://../../etc/passwd", "transcript://a/b", "ledger://1?x=1"]


async def test_what_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        for address in (*ABSENT, *FOREIGN):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(address)
            assert caught.value.error.code == -32602, address
        assert await called(client, "status")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_breaks_behind_a_list_is_told_in_words_and_without_our_insides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    told = {}
    async with desk_in(tmp_path) as desk, client_of(desk, mode) as client:
        for error in (StoreError("the disk is full"), RuntimeError("insides")):
            monkeypatch.setattr("hansard.surfaces.mcp.resources.runs_page", Mock(side_effect=error))
            with pytest.raises(MCPError) as caught:
                await client.list_resources()
            told[caught.value.error.message] = caught.value.error.code
    assert told == {
        "the disk is full": INTERNAL_ERROR,
        "resources/list: a bug of ours; the server's log tells more": INTERNAL_ERROR,
    }


async def test_every_prompt_speaks_of_tools_that_are_there(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        tools = {each.name for each in (await client.list_tools()).tools}
        for prompt in (await client.list_prompts()).prompts:
            given = {each.name: "{run} {request}" for each in prompt.arguments or ()}
            [message] = (await client.get_prompt(prompt.name, given)).messages
            text = getattr(message.content, "text", "")
            assert any(name in text for name in tools)
            assert all(value in text for value in given.values()), "an argument is put in once, and not read again"
            with pytest.raises(MCPError):
                await client.get_prompt(prompt.name, {"else": "x"})
