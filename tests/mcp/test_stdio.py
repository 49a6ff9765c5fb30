"""`hansard mcp` as a client starts it: the official client, the older generations, and whatever else comes down the wire."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import ErrorData

from command_line import environment_of, hansard
from hansard.surfaces.mcp.stdio import MAX_LINE, parsed
from mcp import StdioServerParameters
from mcp_clients import MODERN, Wire, called, command, eventually

GARBAGE: list[tuple[str | bytes, int, Any]] = [
    ("garbage", -32700, None),
    (b"\xff\xfe\x00", -32700, None),
    ("[" * 200_000, -32700, None),
    ("5", -32600, None),
    ("null", -32600, None),
    ('"text"', -32600, None),
    ("{}", -32600, None),
    ("[]", -32600, None),
    ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    ('{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
    ('{"jsonrpc":"2.0","id":8,"method":"ping","params":[]}', -32600, 8),
    ('{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[1,2]}', -32600, 9),
    ('{"jsonrpc":"2.0","id":"a","method":5}', -32600, "a"),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
    ('{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}', -32600, None),
    ('{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"status","arguments":[]}}', -32602, 10),
    ('{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":7}}', -32602, 11),
    ('{"jsonrpc":"2.0","id":12,"method":"nothing/known"}', -32601, 12),
    ('{"jsonrpc":"2.0","id":13,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}', -32602, 13),
    ('{"jsonrpc":"2.0","id":14,"method":"resources/read","params":{"uri":"ledger://../.."}}', -32602, 14),
    ('{"jsonrpc":"2.0","id":15,"method":"prompts/get","params":{"name":"nothing"}}', -32602, 15),
    ('{"jsonrpc":"2.0","id":16,"method":"resources/list","params":{"cursor":"x"}}', -32602, 16),
    ('{"jsonrpc":"2.0","id":17,"method":"tools/list","method":"ping"}', -32700, 17),
    (
        '{"jsonrpc":"2.0","id":18,"method":"tools/call","params":{"name":"route","arguments":{"text":"a","text":"b"}}}',
        -32700,
        18,
    ),
]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = hansard(tmp_path, "mcp", "--folder", "nope", "--provider", "rehearsal")
    assert (said.returncode, "--folder nope" in said.stderr) == (2, True)


async def test_whatever_comes_gets_an_error_and_the_server_lives_on(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        await wire.say("[1, 2]")
        assert (await wire.hear())["error"]["code"] == -32600, "also before the first handshake"
        await wire.greet()
        for line, code, id in GARBAGE:
            await wire.say(line)
            answer = await wire.hear()
            assert (answer["error"]["code"], answer["id"]) == (code, id), line[:80]
            assert "Traceback" not in json.dumps(answer)
        for quiet in ("", "   ", '{"jsonrpc":"2.0","method":"nothing/known"}', '{"jsonrpc":"2.0","id":1,"result":{}}'):
            await wire.say(quiet)
        assert (await wire.ask("tools/call", {"name": "status", "arguments": {}}))["result"]["structuredContent"]
        assert await wire.left() == 0


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
@example(b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 5000)
def test_reading_a_line_never_fails(line: bytes) -> None:
    found = parsed(line)
    assert (found is None) is (not line.strip())


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ('{"a": "\\ud800"}', "this line holds half of a surrogate pair"),
        ('{"a": ' + "[" * 600 + "]" * 600 + "}", "this line is nested too deeply"),
        ("[]", "params must be an object"),
    ],
)
def test_a_message_that_is_one_and_cannot_be_taken_is_told_why(params: str, said: str) -> None:
    found = parsed(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": %b}' % params.encode())
    assert isinstance(found, ErrorData)
    assert said in found.message


def test_a_line_that_is_too_long_is_refused_and_not_parsed() -> None:
    found = parsed(b" " * 10 + b'"' + b"a" * MAX_LINE)
    assert isinstance(found, ErrorData)
    assert "bytes" in found.message


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
async def test_the_older_generations_get_the_version_they_ask_for(tmp_path: Path, version: str) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        hello = await wire.greet(version)
        assert hello["protocolVersion"] == version
        assert hello["serverInfo"]["name"] == "hansard"
        tools = (await wire.ask("tools/list"))["result"]["tools"]
        assert {"submit", "deliberate", "verify"} <= {each["name"] for each in tools}
        answer = await wire.ask("tools/call", {"name": "submit", "arguments": {"request": "compare queues"}})
        assert json.loads(answer["result"]["content"][0]["text"])["state"] == "answered"
        assert (await wire.ask("ping"))["result"] == {}


async def test_the_official_client_finds_and_calls_everything(tmp_path: Path) -> None:
    [program, *words] = command("--provider", "rehearsal")
    server = StdioServerParameters(command=program, args=words, cwd=tmp_path, env=environment_of(tmp_path))
    async with Client(stdio_client(server)) as client:
        assert client.protocol_version == MODERN
        assert client.server_capabilities.extensions == {"io.modelcontextprotocol/tasks": {}}
        assert len((await client.list_tools()).tools) == 23
        done = await called(client, "submit", {"request": "compare three queues"})
        assert (await called(client, "verify", {"deep": True}))["ok"]
        [resource] = (await client.list_resources()).resources
        assert resource.uri == f"run://{done['run']}"
        [shown] = (await client.read_resource(resource.uri)).contents
        assert json.loads(getattr(shown, "text", ""))["answer"] == done["answer"]


async def test_a_notice_of_cancellation_cancels_the_run_and_nothing_else(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--cmd", "sleep 3600") as wire:
        await wire.greet("2025-06-18")
        calls = [
            await wire.asked(
                "tools/call", {"name": "submit", "arguments": {"request": "x", "single": True, "lane": "backend"}}
            )
            for _ in range(2)
        ]
        await eventually(lambda: stand(wire, "running", "running"))
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": calls[0]}}
        await wire.say(json.dumps(notice))
        await eventually(lambda: stand(wire, "cancelled", "running"))
        assert await wire.left() == 0
    told = json.loads(hansard(tmp_path, "runs", "list", "--json", "--ledger", "ledger.db").stdout)
    assert sorted(each["state"] for each in told) == ["cancelled", "interrupted"], "who leaves has cancelled nothing"


async def stand(wire: Wire, *states: str) -> bool:
    """Whether the runs stand so."""
    answer = await wire.ask("tools/call", {"name": "runs_list", "arguments": {}})
    return sorted(each["state"] for each in answer["result"]["structuredContent"]["runs"]) == [*states]


async def test_a_signal_interrupts_what_is_under_way_and_says_so_on_the_record(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--cmd", "sleep 3600") as wire:
        await wire.greet()
        await wire.asked("tools/call", {"name": "submit", "arguments": {"request": "x", "lane": "backend"}})
        await eventually(lambda: stand(wire, "running"))
        wire.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(wire.process.wait(), 30) == 0
    told = json.loads(hansard(tmp_path, "runs", "list", "--json", "--ledger", "ledger.db").stdout)
    assert [each["state"] for each in told] == ["interrupted"]


async def test_a_server_that_nobody_asks_for_anything_seals_its_log(tmp_path: Path) -> None:
    async with Wire.to(tmp_path, "--provider", "rehearsal") as wire:
        await wire.greet()

        async def signed() -> bool:
            status = (await wire.ask("tools/call", {"name": "status", "arguments": {}}))["result"]["structuredContent"]
            return bool(status["signed"] == status["entries"] == 1)

        await eventually(signed)
        assert await wire.left() == 0


async def test_a_client_who_takes_no_answers_is_served_on(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    async with Wire.to(tmp_path, "--provider", "rehearsal", stdout=writing) as wire:
        os.close(writing)
        os.close(reading)
        for line in ("garbage", "more garbage", '{"jsonrpc":"2.0","id":1,"method":"ping"}'):
            await wire.say(line)
        assert await wire.left() == 0


@pytest.mark.parametrize("ending", ["leaves", "signals"])
async def test_a_client_who_reads_nothing_does_not_keep_the_server(tmp_path: Path, ending: str) -> None:
    reading, writing = os.pipe()
    async with Wire.to(tmp_path, "--provider", "rehearsal", stdout=writing) as wire:
        os.close(writing)
        for _ in range(3_000):
            await wire.asked("ping")
        assert await asyncio.to_thread(os.read, reading, 1), "the rest is more than a pipe holds"
        if ending == "signals":
            wire.process.send_signal(signal.SIGTERM)
        assert await wire.left() == 0
    os.close(reading)


async def test_a_program_of_a_run_can_neither_read_nor_spoil_the_wire(tmp_path: Path) -> None:
    rude = tmp_path / "rude.py"
    rude.write_text("import os, sys\nos.write(2, b'noise')\nprint(repr(sys.stdin.read())[:20])\n")
    async with Wire.to(tmp_path, "--cmd", f"python3 {rude}") as wire:
        await wire.greet()
        asked = {"request": "x", "lane": "backend", "judge": "checks", "answer": "join"}
        answer = await wire.ask("tools/call", {"name": "submit", "arguments": asked})
        assert answer["result"]["structuredContent"]["state"] == "answered"
        assert await wire.left() == 0


def test_without_the_library_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise ModuleNotFoundError('no mcp here', name='mcp')")
    done = hansard(tmp_path, "mcp", "--provider", "rehearsal")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hansard: hansard mcp needs mcp: pip install 'hansard[mcp]'\n"


@pytest.mark.parametrize("flags", [("--provider", "nobody"), ("--cmd", "cat", "--api", "some-model")])
def test_flags_that_name_nobody_are_refused_before_anything_is_served(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = hansard(tmp_path, "mcp", "--ledger", "ledger.db", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hansard: ")
    assert not (tmp_path / "ledger.db").exists()
