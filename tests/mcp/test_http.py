"""The server at /mcp: the official client over a loopback socket, both generations; roles, and what is no MCP at all."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from starlette.types import Message, Receive, Scope, Send

from hansard.app.service import Hansard
from hansard.app.serving.tokens import ROLES, Role, Token
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.surfaces.mcp import http_app
from mcp_clients import MODERN, REHEARSAL, called, envelope, eventually, refused
from running import Answers

GENERATIONS = pytest.mark.parametrize("mode", ["auto", "legacy"])
POST = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@asynccontextmanager
async def served(
    folder: Path,
    *,
    roles: tuple[Role, ...] | None = None,
    people: dict[str, tuple[Role, ...]] | None = None,
    slow: Answers | None = None,
    **options: Any,
) -> AsyncIterator[tuple[str, Hansard]]:
    """The application on a socket of its own, behind a door that knows one token, or one for each of these people."""
    settings = Settings(ledger=str(folder / "ledger.db"), state=folder / "state")
    known = people or ({"visitor": roles} if roles is not None else {})
    tokens = {name: Token(name=name, roles=each, digest="", created_s=0) for name, each in known.items()}
    given = {slow.id: slow} if slow else {}
    async with Hansard.open(settings=settings, providers=given) as hansard:
        app = http_app(hansard, **({"folder": folder} | ({} if slow else {"wishes": REHEARSAL}) | options))

        async def door(scope: Scope, receive: Receive, send: Send) -> None:
            who = dict(scope.get("headers", ())).get(b"x-who", b"visitor").decode()
            if who in tokens:
                scope["hansard.token"] = tokens[who]
            await app(scope, receive, send)

        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = uvicorn.Server(uvicorn.Config(door, lifespan="off", log_config=None, timeout_graceful_shutdown=2))
            async with app.lifespan():
                serving = asyncio.create_task(server.serve(sockets=[listening]))
                await eventually(lambda: server.started)
                yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", hansard
                server.should_exit = True
                await serving


@GENERATIONS
async def test_the_official_client_calls_tools_over_http(tmp_path: Path, mode: str) -> None:
    words: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        words.append(message or "")

    async with served(tmp_path) as (address, _), Client(address, mode=mode) as client:
        assert (client.protocol_version == MODERN) is (mode == "auto")
        done = await called(client, "submit", {"request": "compare three queues"}, progress_callback=told)
        assert done["state"] == "answered"
        assert "ended answered" in words
        assert (await called(client, "verify"))["ok"]
        assert len((await client.list_tools()).tools) == 23
        assert (await client.list_prompts()).prompts
        assert (await client.list_resource_templates()).resource_templates
        assert "request" in await refused(client, "submit", {})


@pytest.mark.parametrize(("roles", "may"), [(("reader",), 1), (("operator",), 2), (ROLES, 3)])
async def test_a_tokens_roles_decide_what_may_be_called(tmp_path: Path, roles: tuple[Role, ...], may: int) -> None:
    async with served(tmp_path, roles=roles, gates=True) as (address, hansard), Client(address) as client:
        assert await called(client, "status")
        submit = {"request": "x", "gates": ["plan"]}
        if may < 2:
            assert "this needs operator" in await refused(client, "submit", submit)
            return
        waiting = await called(client, "submit", submit)
        assert hansard.runs.views(waiting["run"])[0]["actor"] == "human:visitor"
        decide = {"gate": waiting["open_gates"][0], "decision": "approve"}
        if may < 3:
            assert "approver" in await refused(client, "gate_decide", decide)
            return
        decided = await called(client, "gate_decide", decide)
        assert [(each["by"], each["authenticated"]) for each in decided["decisions"]] == [("human:visitor", True)]


async def test_an_approval_over_http_without_the_grant_is_not_offered_to_anybody(tmp_path: Path) -> None:
    async with served(tmp_path, roles=ROLES) as (address, _), Client(address) as client:
        assert "gate_decide" not in {each.name for each in (await client.list_tools()).tools}


BODIES: list[tuple[bytes, int, int | None]] = [
    (b"garbage", -32700, None),
    (b"\xff\xfe", -32700, None),
    (b"[" * 100_000, -32700, None),
    (b"5", -32600, None),
    (b"[]", -32600, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b"{}", -32600, None),
]


@pytest.mark.parametrize("version", [None, "2025-06-18", MODERN])
async def test_what_is_no_message_gets_an_error_over_http(tmp_path: Path, version: str | None) -> None:
    headers = POST | ({"mcp-protocol-version": version} if version else {})
    async with served(tmp_path) as (address, _), httpx2.AsyncClient(timeout=None) as http:
        for body, code, id in BODIES:
            answer = await http.post(address, content=body, headers=headers)
            assert answer.status_code == 400, body[:60]
            assert (answer.json()["error"]["code"], answer.json()["id"]) == (code, id), body[:60]
            assert "validation error" not in answer.text
        async with Client(address) as client:
            assert await called(client, "status")


async def test_arguments_that_have_two_readings_are_refused_over_http(tmp_path: Path) -> None:
    params = {"name": "route", "arguments": {"text": "a"}, "_meta": envelope()}
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = POST | {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "route"}
    async with served(tmp_path) as (address, _), httpx2.AsyncClient(timeout=None) as http:
        assert (await http.post(address, content=call, headers=headers)).status_code == 200
        answer = await http.post(address, content=call.replace('"a"', '"a", "text": "b"'), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
        assert "'text' stands twice in one object" in answer.text


async def post(
    http: httpx2.AsyncClient,
    address: str,
    method: str,
    params: dict[str, Any],
    *,
    who: str = "visitor",
    meta: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A request of the newest generation, by hand."""
    name = str(params.get("name") or params.get("taskId"))
    headers = POST | {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": name, "x-who": who}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta or envelope()}}
    answer = await http.post(address, json=message, headers=headers, timeout=60)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    found: dict[str, Any] = json.loads(lines[-1] if lines else answer.text)
    return found


async def test_a_task_is_made_and_asked_for_over_http(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, _), httpx2.AsyncClient(timeout=None) as http:
        call = {"name": "submit", "arguments": {"request": "compare three queues"}}
        made = (await post(http, address, "tools/call", call))["result"]
        assert made["resultType"] == "task"

        async def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = (await post(http, address, "tasks/get", {"taskId": made["taskId"]}))["result"]
            return found if found["status"] != "working" else None

        task = await eventually(ended)
        assert task["result"]["structuredContent"]["state"] == "answered"


async def test_an_answer_to_what_an_approver_was_asked_counts_only_where_an_approver_gives_it(tmp_path: Path) -> None:
    people: dict[str, tuple[Role, ...]] = {"boss": ROLES, "helper": ("operator",)}
    call = {"name": "submit", "arguments": {"request": "compare three queues", "gates": ["plan"]}}
    async with (
        served(tmp_path, people=people, gates=True) as (address, hansard),
        httpx2.AsyncClient(timeout=None) as http,
    ):

        async def said(who: str, **more: Any) -> dict[str, Any]:
            return await post(http, address, "tools/call", call | more, who=who, meta=envelope(()))

        asked = (await said("boss"))["result"]
        [gate] = asked["inputRequests"]
        accept = {gate: {"action": "accept", "content": {"decision": "approve"}}}
        answer = {"requestState": asked["requestState"], "inputResponses": accept}
        await said("helper", **answer)
        assert hansard.gates.show(gate)["decisions"] == []
        assert (await said("boss", **answer))["result"]["structuredContent"]["state"] == "answered"
        assert [each["by"] for each in hansard.gates.show(gate)["decisions"]] == ["human:boss"]


async def test_who_may_only_look_sets_no_task_going_again(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    async with served(tmp_path, slow=slow) as (address, _), Client(address) as client:
        run = (await called(client, "submit", {"request": "x", "lane": "backend", "wait": False}))["run"]
        await slow.asked_times(1)
    looks: tuple[Role, ...] = ("reader", "approver")
    runs: tuple[Role, ...] = ("operator",)
    for roles, claims in ((looks, 1), (runs, 2)):
        async with (
            served(tmp_path, roles=roles, slow=slow) as (address, hansard),
            httpx2.AsyncClient(timeout=None) as http,
        ):
            task = (await post(http, address, "tasks/get", {"taskId": run}))["result"]
            assert (task["status"], task["statusMessage"]) == ("working", "interrupted")
            if roles == looks:
                said = (await post(http, address, "tasks/cancel", {"taskId": run}))["error"]
                assert "this needs operator" in said["message"]
            await asyncio.sleep(0.3)
            assert [each["kind"] for each in hansard.runs.views(run)].count("run.claimed") == claims


async def test_a_client_who_hangs_up_cancels_his_run(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    async with served(tmp_path, slow=slow) as (address, hansard), Client(address) as client:
        call = asyncio.create_task(client.call_tool("submit", {"request": "x", "lane": "backend"}))
        await slow.asked_times(1)
        call.cancel()
        [run] = [each["run"] for each in hansard.runs.listed()]
        await eventually(lambda: hansard.runs.show(run)["state"] == "cancelled")


async def greeted(http: httpx2.AsyncClient, address: str) -> dict[str, str]:
    """The headers of a session of an older generation."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}
    answer = await http.post(address, json=hello, headers=POST)
    headers = POST | {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    await http.post(address, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


LONG = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "submit", "arguments": {"request": "x"}}}

PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
CANCELLING = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": LONG["id"]}}


@pytest.mark.parametrize("ending", ["deletes it", "is away for long"])
async def test_a_session_that_is_over_has_cancelled_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("hansard.surfaces.mcp.http.IDLE_S", 0.5)
    slow = Answers(pause_s=3600)
    wishes = Wishes(provider=slow.id)
    async with (
        served(tmp_path, slow=slow, wishes=wishes) as (address, hansard),
        httpx2.AsyncClient(timeout=None) as http,
    ):
        session = await greeted(http, address)
        call = asyncio.create_task(http.post(address, json=LONG, headers=session))
        await slow.asked_times(1)
        if ending == "deletes it":
            assert (await http.delete(address, headers=session)).status_code == 200
        call.cancel()
        await asyncio.sleep(1.5)
        assert (await http.post(address, json=LONG, headers=session)).status_code == 404, "the session is over"
        assert [each["state"] for each in hansard.runs.listed()] == ["running"]


@asynccontextmanager
async def within(
    folder: Path, slow: Answers, heard: Callable[[Message], Awaitable[None]] | None = None
) -> AsyncIterator[tuple[httpx2.AsyncClient, Hansard]]:
    """A client of the application without a socket in between. `heard` sees what is answered, as it is."""
    settings = Settings(ledger=str(folder / "ledger.db"), state=folder / "state")
    async with Hansard.open(settings=settings, providers={slow.id: slow}) as hansard:
        app = http_app(hansard, folder=folder, wishes=Wishes(provider=slow.id))

        async def telling(scope: Scope, receive: Receive, send: Send) -> None:
            async def told(message: Message) -> None:
                await send(message)
                if heard:
                    await heard(message)

            await app(scope, receive, told)

        async with app.lifespan(), httpx2.AsyncClient(timeout=None, transport=httpx2.ASGITransport(telling)) as http:
            yield http, hansard


HERE = "http://here/mcp"


async def test_a_cancellation_that_was_accepted_counts_though_the_session_ends_that_moment(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    ends = asyncio.Event()

    async def eager(message: Message) -> None:
        if ends.is_set() and message.get("status") == 202:
            ends.clear()
            assert (await http.delete(HERE, headers=session)).status_code == 200

    async with within(tmp_path, slow, eager) as (http, hansard):
        session = await greeted(http, HERE)
        call = asyncio.create_task(http.post(HERE, json=LONG, headers=session))
        await slow.asked_times(1)
        ends.set()
        assert (await http.post(HERE, json=CANCELLING, headers=session)).status_code == 202
        assert not ends.is_set()
        [run] = [each["run"] for each in hansard.runs.listed()]
        await eventually(lambda: hansard.runs.show(run)["state"] == "cancelled")
        await call


async def test_a_notice_that_the_end_of_its_session_overtakes_is_no_error_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with within(tmp_path, Answers()) as (http, _):
        for _ in range(5):
            session = await greeted(http, HERE)
            notice, end = http.post(HERE, json=CANCELLING, headers=session), http.delete(HERE, headers=session)
            told, ended = await asyncio.gather(notice, end)
            assert told.status_code in (202, 404)
            assert ended.status_code == 200
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_session_is_used_with_the_token_that_opened_it(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    wishes = Wishes(provider=slow.id)
    people = {"owner": ROLES, "looker": ROLES[:1]}
    async with (
        served(tmp_path, people=people, slow=slow, wishes=wishes) as (address, hansard),
        httpx2.AsyncClient(timeout=None, headers={"x-who": "owner"}) as owner,
        httpx2.AsyncClient(timeout=None, headers={"x-who": "looker"}) as looker,
    ):
        session = await greeted(owner, address)
        call = asyncio.create_task(owner.post(address, json=LONG, headers=session))
        await slow.asked_times(1)
        assert (await looker.post(address, json=CANCELLING, headers=session)).status_code == 404
        assert (await looker.delete(address, headers=session)).status_code == 404
        [run] = [each["run"] for each in hansard.runs.listed()]
        assert hansard.runs.show(run)["state"] == "running"
        assert (await owner.post(address, json=CANCELLING, headers=session)).status_code == 202
        await eventually(lambda: hansard.runs.show(run)["state"] == "cancelled")
        await call


async def test_sessions_that_a_client_leaves_behind_make_room_and_lock_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.surfaces.mcp.http.MOST", 3)
    slow = Answers(pause_s=3600)
    wishes, people = Wishes(provider=slow.id), {"forgetful": ROLES, "other": ROLES}
    async with (
        served(tmp_path, people=people, slow=slow, wishes=wishes) as (address, _),
        httpx2.AsyncClient(timeout=None, headers={"x-who": "forgetful"}) as forgetful,
        httpx2.AsyncClient(timeout=None, headers={"x-who": "other"}) as other,
    ):
        busy, used = await greeted(forgetful, address), await greeted(forgetful, address)
        kept = await greeted(other, address)
        call = asyncio.create_task(forgetful.post(address, json=LONG, headers=busy))
        await slow.asked_times(1)
        left = [await greeted(forgetful, address)]
        for _ in range(4):
            assert (await forgetful.post(address, json=PING, headers=used)).status_code == 200
            left.append(await greeted(forgetful, address))
        for session in left[:-1]:
            assert (await forgetful.post(address, json=PING, headers=session)).status_code == 404
        for who, session in ((forgetful, busy), (forgetful, used), (forgetful, left[-1]), (other, kept)):
            assert (await who.post(address, json=PING, headers=session)).status_code == 200
        assert (await forgetful.post(address, json=CANCELLING, headers=busy)).status_code == 202
        await call


async def test_a_server_that_stops_leaves_its_runs_to_be_resumed(tmp_path: Path) -> None:
    slow = Answers(pause_s=3600)
    async with served(tmp_path, slow=slow) as (address, _), Client(address) as client:
        run = (await called(client, "submit", {"request": "x", "lane": "backend", "wait": False}))["run"]
        await slow.asked_times(1)
    settings = Settings(ledger=str(tmp_path / "ledger.db"), state=tmp_path / "state")
    async with Hansard.open(settings=settings) as hansard:
        assert hansard.runs.show(run)["state"] == "interrupted"
