import asyncio
import json
import re
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from starlette.types import Message, Receive, Scope, Send

from command_line import started
from daemons import BARE, Served, place, serving, wait_for
from hansard.app.serving.tokens import Tokens
from hansard.surfaces.http.app import make_app
from hansard.surfaces.http.guard import Doors, Guard, Limits
from hansard.surfaces.http.metrics import Metrics
from hansard.surfaces.http.wire import Connection

EVERYTHING = (
    "/v1/status", "/v1/runs", "/v1/runs/last", "/v1/runs/last/events", "/v1/gates", "/v1/ledger/entries",
    "/v1/ledger/entries/0", "/v1/ledger/summary", "/v1/ledger/state", "/v1/ledger/checkpoint", "/metrics", "/checkpoint",
    "/tile/0/000", "/v1/deliberations", "/v1/compare?a=last&b=last", "/nothing", "/mcp",
)  # fmt: skip


CHAIN = {
    "tasks": [
        {"id": f"t{at}", "lane": "backend", "instruction": "x", "needs": [f"t{at - 1}"] if at else []}
        for at in range(12)
    ]
}


@pytest.mark.parametrize("path", EVERYTHING)
def test_without_a_token_nobody_sees_anything(daemon: Served, path: str) -> None:
    for client in (daemon.client(None), daemon.client("hs_wrong")):
        said = client.get(path)
        assert said.status_code in (401, 429)
        assert said.headers["content-type"] == "application/problem+json"
        time.sleep(0.15)
    assert daemon.client(None).get("/health").json() == {"ok": True}


async def test_one_token_leaves_room_for_the_others(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await over.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    tokens = Tokens(tmp_path)
    ann, ben = (tokens.add(name, ("reader",)) for name in ("ann", "ben"))
    guard = Guard(app, tokens, Doors(hosts=frozenset({"x"})), Limits(requests=8), Metrics(), lambda *_, **__: None)

    async def asked(secret: str) -> int:
        headers = [(b"host", b"x"), (b"authorization", f"Bearer {secret}".encode())]
        statuses: list[int] = []

        async def send(message: Message) -> None:
            statuses.extend([message["status"]] if "status" in message else [])

        async def receive() -> Message:
            return {"type": "http.request"}

        await guard({"type": "http", "method": "GET", "path": "/v1/status", "headers": headers}, receive, send)
        return statuses[0]

    async with asyncio.timeout(60):
        held = [asyncio.ensure_future(asked(ann)) for _ in range(6)]
        await asyncio.sleep(0)
        assert await asked(ann) == 429
        held.append(asyncio.ensure_future(asked(ben)))
        await asyncio.sleep(0)
        assert await asked(ann) == 429
        over.set()
        assert await asyncio.gather(*held) == [200] * 7
        assert await asked(ann) == 200


def test_who_has_gone_while_he_waited_for_a_run_leaves_his_place(tmp_path: Path) -> None:
    waiting = {
        "/v1/runs": {"request": "x", **BARE, "provider": "stuck"},
        "/v1/plans": {"request": "x", "provider": "silent"},
        "/v1/deliberations": {"problem": "x", "panel": ["critic"], "provider": "silent"},
    }
    with serving(place(tmp_path), "--provider", "quick", "--max-requests", 4) as daemon:
        watching = daemon.client(daemon.issue("add", "watching", "--roles", "reader"))
        plugs: list[socket.socket] = []
        for path, asked in waiting.items():
            body = json.dumps(asked)
            head = f"POST {path}?wait=600 HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nAuthorization: Bearer {daemon.token}"
            plugs.append(socket.create_connection(("127.0.0.1", daemon.port)))
            media = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
            plugs[-1].sendall(f"{head}\r\n{media}\r\n\r\n{body}".encode())
            wait_for(lambda: watching.get("/v1/status").json()["driving"] == len(plugs))
        assert daemon.get("/v1/runs").status_code == 429
        for plug in plugs:
            plug.close()
        wait_for(lambda: daemon.get("/v1/runs").status_code == 200)
        assert daemon.get("/v1/status").json()["driving"] == len(waiting), "a run is nobody's to end by hanging up"


def test_odd_tokens_are_wrong_tokens(daemon: Served) -> None:
    good, twice = f"Bearer {daemon.token}", "\r\nAuthorization: Bearer x"
    for given in (
        *("Basic aGk6aGk=", "Bearer", "Bearer  ", "bearer x y", "Bearer \xff\xfe"),
        *(f"Basic {daemon.token}", daemon.token, good + twice, f"{good}{twice[:-1]}{daemon.token}"),
    ):
        time.sleep(0.15)
        head = f"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {given}\r\nConnection: close\r\n\r\n"
        assert daemon.raw(head.encode("latin-1")).startswith(b"HTTP/1.1 401 ")


def test_a_reader_may_look_and_nothing_else(daemon: Served) -> None:
    reader = daemon.client(daemon.issue("add", "reader", "--roles", "reader"))
    assert reader.get("/v1/status").status_code == 200
    assert reader.post("/v1/ledger/verify").status_code == 200
    for path in ("/v1/runs", "/v1/route", "/v1/plans", "/v1/deliberations", "/v1/runs/last/cancel"):
        said = reader.post(path, json={"request": "x"})
        assert said.status_code == 403
        assert "this needs operator" in said.json()["detail"]
    assert "this needs approver" in reader.post("/v1/gates/g/decision", json={}).json()["detail"]


def test_an_operator_decides_nothing_and_an_approver_runs_nothing(daemon: Served) -> None:
    operator = daemon.client(daemon.issue("add", "operator", "--roles", "operator"))
    approver = daemon.client(daemon.issue("add", "approver", "--roles", "approver"))
    decision = {"decision": "approve"}
    assert operator.post("/v1/gates/g/decision", json=decision).status_code == 403
    assert approver.post("/v1/gates/g/decision", json=decision).status_code == 404
    assert approver.post("/v1/runs", json={"request": "x"}).status_code == 403
    assert operator.post("/v1/route", json={"text": "x"}).status_code == 200


@pytest.mark.parametrize("end", ["%0A", "/", "%0A%0A", "%2F", "?", ";x"])
def test_no_spelling_of_the_path_makes_an_operator_decide(daemon: Served, end: str) -> None:
    operator = daemon.client(daemon.issue("add", f"spells-{len(end)}{ord(end[-1])}", "--roles", "operator"))
    run = operator.post("/v1/runs", json={"request": "x", **BARE, "gates": ["task:one"]}).json()["run"]
    daemon.until(run, "waiting")
    [gate] = daemon.show(run)["open_gates"]
    said = operator.post(f"/v1/gates/{gate}/decision{end}", json={"decision": "approve"})
    assert said.status_code in (403, 404), said.text
    assert daemon.get(f"/v1/gates/{gate}").json()["decisions"] == []
    daemon.post(f"/v1/runs/{run}/cancel")


def test_a_token_ends(daemon: Served) -> None:
    client = daemon.client(Tokens(daemon.folder / "state" / "serve").add("brief", ("reader",), seconds=0))
    wait_for(lambda: "expired" in client.get("/v1/status").json()["detail"])


def test_who_follows_hears_nothing_more_when_his_token_has_ended(daemon: Served) -> None:
    run = daemon.submit(provider="slow", plan=CHAIN)["run"]
    eve = daemon.client(daemon.issue("add", "eve", "--roles", "reader"))
    with eve.stream("GET", f"/v1/runs/{run}/events") as stream:
        heard = (line for line in stream.iter_lines() if line.startswith("id: "))
        next(heard)
        assert daemon.cli("serve", "token", "revoke", "eve").returncode == 0
        # A change is noticed within a tenth of a second; what was on its way by then has come.
        revoked = time.monotonic()
        late = [line for line in heard if time.monotonic() > revoked + 0.5]
    assert not late
    assert daemon.show(run)["state"] == "running"
    daemon.post(f"/v1/runs/{run}/cancel")


def test_who_follows_his_call_of_a_tool_hears_nothing_more_either_and_has_cancelled_nothing(daemon: Served) -> None:
    pytest.importorskip("mcp")
    adam = daemon.client(
        daemon.issue("add", "adam", "--roles", "operator"), accept="application/json, text/event-stream"
    )
    who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = adam.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": who})
    session = {"mcp-session-id": hello.headers["mcp-session-id"]}
    adam.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    arguments = {"request": "walk a chain", "provider": "slow", "plan": CHAIN}
    asked = {"name": "submit", "arguments": arguments, "_meta": {"progressToken": "p"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    with adam.stream("POST", "/mcp", json=call, headers=session, timeout=60) as stream:
        heard = (line for line in stream.iter_lines() if "jsonrpc" in line)
        next(heard)
        [run] = [each["run"] for each in daemon.get("/v1/runs").json() if each["request"] == "walk a chain"]
        assert daemon.cli("serve", "token", "revoke", "adam").returncode == 0
        revoked = time.monotonic()
        late = [line for line in heard if time.monotonic() > revoked + 0.5]
    assert not late
    assert daemon.until(run, "answered")


def test_a_rotated_token_ends_at_once_or_after_a_while(daemon: Served) -> None:
    old = daemon.issue("add", "turning")
    assert daemon.client(old).get("/v1/status").status_code == 200
    new = daemon.issue("rotate", "turning")
    assert daemon.client(old).get("/v1/status").status_code == 401
    assert "is not known here: it was revoked or rotated" in daemon.client(old).get("/v1/status").json()["detail"]
    newer = daemon.issue("rotate", "turning", "--keep", 600)
    assert [daemon.client(each).get("/v1/status").status_code for each in (new, newer)] == [200, 200]
    daemon.cli("serve", "token", "revoke", "turning")
    wait_for(lambda: all(daemon.client(each).get("/v1/status").status_code == 401 for each in (new, newer)))


def test_tokens_are_kept_as_digests_in_private_files(daemon: Served) -> None:
    secret = daemon.issue("add", "kept")
    folder = daemon.folder / "state" / "serve"
    assert secret not in (folder / "tokens.json").read_text()
    for name in ("tokens.json", "token"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost:1", ""])
def test_another_host_is_refused(daemon: Served, host: str) -> None:
    """DNS rebinding."""
    said = daemon.get("/v1/status", headers={"Host": host})
    assert said.status_code == 421


def test_a_target_in_absolute_form_is_held_to_the_name_in_it(daemon: Served) -> None:
    """It stands in place of Host (RFC 9112, 3.2.2)."""
    ours = f"127.0.0.1:{daemon.port}"
    for target, host, status in (
        (f"http://{ours}/health", ours, b"200"),
        ("HTTP://LOCALHOST/health", ours, b"200"),
        (f"http://{ours}/health", "evil.example", b"200"),
        ("http://evil.example/health", ours, b"421"),
        (f"http://evil.example:{daemon.port}/health", ours, b"421"),
        ("http://localhost@evil.example/health", ours, b"421"),
        ("http://evil.example@localhost/health", ours, b"421"),
        ("/nothing?to=http://evil.example/", ours, b"401"),
    ):
        said = daemon.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert said.split(b" ")[1] == status, target
    said = daemon.raw(f"GET http://{ours}/health HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
    assert said.split(b" ")[1] == b"421", "a name in the target is no excuse for a head without Host"


def test_no_host_and_two_hosts_are_refused(daemon: Served) -> None:
    good = f"Host: 127.0.0.1:{daemon.port}\r\n"
    for hosts, status in (("", b"421"), (good + good, b"421"), (good, b"200")):
        said = daemon.raw(f"GET /health HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        assert said.split(b" ")[1] == status


def test_a_page_of_another_site_may_not_call(daemon: Served) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{daemon.port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        said = daemon.post("/v1/runs", {"request": "x"}, headers=headers)
        assert said.status_code == 403
        assert "access-control-allow-origin" not in said.headers
    assert daemon.get("/v1/status", headers={"Origin": daemon.address}).status_code == 200
    assert daemon.get("/v1/status", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/plans"])
def test_whoever_waits_is_shown_nothing_when_his_token_has_ended(daemon: Served, path: str) -> None:
    caller = daemon.client(daemon.issue("add", "leaver", "--roles", "operator"))
    with ThreadPoolExecutor(1) as aside:
        run = str(uuid4())
        body = {"request": "please", "provider": "silent", "run": run}
        waiting = aside.submit(caller.post, f"{path}?wait=60", json=body)
        wait_for(lambda: daemon.get(f"/v1/runs/{run}").json().get("state") == "running")
        assert daemon.cli("serve", "token", "revoke", "leaver").returncode == 0
        daemon.post(f"/v1/runs/{run}/cancel")
        said = waiting.result()
    assert (said.status_code, said.json()["run"]) == (401, run)


def test_members_without_number_are_told_of_once(daemon: Served) -> None:
    many = {str(each): 1 for each in range(60_000)}
    for path, body in ("/v1/ledger/verify", many), ("/v1/runs", {"request": "x", **many}):
        said = daemon.post(path, body)
        assert (said.status_code, len(said.json()["errors"])) == (422, 1)
        assert said.json()["detail"] == f"body: it has {len(body):,} members; at most 1,000 are read"
    run = daemon.submit(wait=30)["run"]
    said = daemon.post(f"/v1/runs/{run}/rerun", {"swap": many})
    assert (said.status_code, said.json()["errors"][0]["where"]) == (422, ["body", "swap"])


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_a_form_could_send_is_refused(daemon: Served, media: str) -> None:
    body = b'{"request": "x"}'
    for sent in (body, iter([body])):
        # The second is sent in chunks, without a length.
        said = daemon.client().post("/v1/runs", content=sent, headers={"Content-Type": media})
        assert said.status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        "/tile/../../etc/passwd", "/tile/%2e%2e/%2e%2e/etc/passwd", "/tile/0/x000/../000", "/tile//etc/passwd",
        "/v1/runs/..%2f..%2fstatus", "/v1/ledger/entries/0/parts/..%2f..%2ftokens.json", "/..%2fserve%2ftoken",
        "/tile/0/%00", "/v1/runs/%0d%0aX-Evil:1",
    ],
)  # fmt: skip
def test_no_path_leads_out(daemon: Served, path: str) -> None:
    head = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {daemon.token}\r\nConnection: close\r\n\r\n"
    )
    said = daemon.raw(head.encode())
    assert said.split(b" ")[1] in (b"400", b"404", b"422")
    assert b"root:" not in said
    assert daemon.token.encode() not in said
    assert b"\r\nx-evil" not in said.lower()


def test_a_body_that_is_too_large_is_refused_before_it_is_read(daemon: Served) -> None:
    said = daemon.client().post("/v1/runs", json={"request": "x" * 2_000_000})
    assert said.status_code == 413
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {daemon.token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    said_raw = b""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=20) as plug:
        try:
            plug.sendall(head.encode())
            for _ in range(40):
                plug.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        with suppress(ConnectionResetError):
            said_raw = plug.recv(65536)
    assert said_raw == b"" or said_raw.startswith(b"HTTP/1.1 413 ")


def test_a_head_that_is_too_long_is_refused(daemon: Served) -> None:
    said = daemon.raw(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 431 ")
    assert daemon.get("/health").status_code == 200


SMUGGLED = (
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\nContent-Length: 6\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 5, 5\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding : chunked\r\n",
    "X: a\r\n Y: b\r\n",
    "Bad Name: x\r\n",
    "X: a\0b\r\n",
)


@pytest.mark.parametrize("headers", SMUGGLED)
def test_smuggled_requests_are_refused(daemon: Served, headers: str) -> None:
    """Whatever a proxy might read otherwise: nothing behind it is taken for a request."""
    auth = f"Host: 127.0.0.1\r\nAuthorization: Bearer {daemon.token}\r\n"
    smuggled = f"0\r\n\r\nGET /v1/status HTTP/1.1\r\n{auth}\r\n"
    said = daemon.raw(
        f"POST /v1/route HTTP/1.1\r\n{auth}Content-Type: application/json\r\n{headers}\r\n{smuggled}".encode(), 3
    )
    assert said.count(b"HTTP/1.1 ") <= 1
    assert not said.startswith(b"HTTP/1.1 2")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 100_000, b'{"request": "\xff\xfe"}', b"7", b"[]", b"null", b'{"request": ' + b"9" * 5000 + b"}"],
)
def test_malformed_bodies_are_told_and_the_daemon_lives_on(daemon: Served, body: bytes) -> None:
    said = daemon.client().post("/v1/runs", content=body, headers={"Content-Type": "application/json"})
    assert said.status_code in (400, 422), said.text
    assert "Traceback" not in said.text
    assert daemon.get("/health").status_code == 200


def test_lone_surrogates_and_odd_characters_are_recorded_or_refused(daemon: Served) -> None:
    for text, status in (('"\\ud800 x"', 409), ('"a\\u2028b\\u0000c"', 200), ('"\\u0085"', 422)):
        said = daemon.client().post(
            "/v1/route", content=f'{{"text": {text}}}'.encode(), headers={"Content-Type": "application/json"}
        )
        assert said.status_code == status, said.text


def test_every_answer_has_an_id_and_a_given_one_is_kept(daemon: Served) -> None:
    assert daemon.get("/health", headers={"X-Request-Id": "mine-7"}).headers["x-request-id"] == "mine-7"
    odd = daemon.get("/health", headers={"X-Request-Id": "a b;c"}).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{13,}", odd)


def test_nothing_that_a_caller_said_is_run_or_kept_by_a_browser(daemon: Served) -> None:
    page = "<!doctype html><script>alert(1)</script>"
    seq = daemon.submit(page, wait=30)["first_seq"]
    part = f"/v1/ledger/entries/{seq}/parts/request"
    assert daemon.get(part).text == page
    for path in (part, "/health", "/v1/status", "/v1/nothing"):
        told = daemon.get(path).headers
        assert told["content-type"].split(";")[0] != "text/html"
        assert told["x-content-type-options"] == "nosniff"
        assert told["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
        assert (told["referrer-policy"], told["cache-control"]) == ("no-referrer", "no-store")


def test_methods_that_are_not_there_are_named(daemon: Served) -> None:
    for path in ("/v1/runs/last", "/openapi.json"):
        said = daemon.client().request("DELETE", path)
        assert (said.status_code, said.headers["allow"]) == (405, "GET, HEAD")
        assert said.headers["content-type"] == "application/problem+json"
        assert said.json()["detail"] == f"'{path}' takes GET, HEAD alone"


def test_a_path_that_no_route_has_is_named_with_where_they_are_described(daemon: Served) -> None:
    for path in ("/v1/run", "/v1/runs/", "/v1/ledger/entries/2/parts/a%2Fb"):
        said = daemon.get(path)
        assert (said.status_code, said.headers["content-type"]) == (404, "application/problem+json")
        told = f"there is no route {path.replace('%2F', '/')!r}; /openapi.json describes those that there are"
        assert said.json()["detail"] == told


def test_what_libraries_say_of_a_caller_is_no_line_of_the_log(daemon: Served) -> None:
    client = daemon.client(accept="application/json, text/event-stream")
    who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = client.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": who})
    session = {"mcp-session-id": hello.headers["mcp-session-id"], "x-request-id": "odd"}
    odd = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}
    assert client.post("/mcp", json=odd, headers=session).status_code == 202
    wait_for(lambda: any(line.get("request_id") == "odd" for line in daemon.logged()))
    lines = daemon.log.read_text().splitlines()
    assert [line for line in lines if not line.startswith("{")] == []


@pytest.mark.parametrize(
    ("path", "media"),
    [("/mcp", "json"), ("/v1/runs", "json"), ("/dashboard/sign-in", "x-www-form-urlencoded")],
)
def test_who_hangs_up_within_his_request_is_no_bug_of_ours(daemon: Served, path: str, media: str) -> None:
    before = len(daemon.logged())
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nOrigin: {daemon.address}\r\n"
    head += f"Authorization: Bearer {daemon.token}\r\nMCP-Protocol-Version: 2026-07-28\r\n"
    head += "Accept: application/json, text/event-stream\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port)) as plug:
        plug.sendall(f"{head}Content-Type: application/{media}\r\nContent-Length: 100\r\n\r\n{{".encode())
    said = wait_for(lambda: [line for line in daemon.logged()[before:] if line.get("path") == path])
    assert said[0]["status"] == 400
    assert [line for line in daemon.logged()[before:] if "exception" in line] == []


def test_the_log_tells_what_happened_and_no_secret(daemon: Served) -> None:
    secret = "sk-very-secret-value"
    daemon.get(f"/v1/ledger/entries?actor={secret}", headers={"X-Request-Id": "looked-for", "X-Key": secret})
    daemon.post("/v1/route", {"text": secret})
    lines = wait_for(lambda: [line for line in daemon.logged() if line.get("request_id") == "looked-for"])
    wait_for(lambda: daemon.logged()[-1].get("path") == "/v1/route")
    assert [(line["method"], line["path"], line["status"], line["token"]) for line in lines] == [
        ("GET", "/v1/ledger/entries", 200, "default")
    ]
    text = daemon.log.read_text()
    assert secret not in text
    assert daemon.token not in text
    assert "Traceback" not in text


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(
        place(tmp_path_factory.mktemp("narrow")),
        "--provider",
        "quick",
        "--rate",
        5,
        "--max-requests",
        3,
        "--patience",
        2,
        "--public-log",
        "--allow-host",
        "ledger.example",
        "--allow-origin",
        "https://ui.example",
    ) as served:
        yield served


def test_who_asks_too_often_has_to_wait(narrow: Served) -> None:
    said = [narrow.get("/v1/status") for _ in range(30)]
    late = [each for each in said if each.status_code == 429]
    assert late
    assert late[0].headers["retry-after"] == "1"
    time.sleep(1)
    assert narrow.get("/v1/status").status_code == 200


def test_too_many_requests_at_once_are_refused(narrow: Served) -> None:
    run = narrow.submit(provider="stuck")["run"]
    time.sleep(1)
    streams = [narrow.client().stream("GET", f"/v1/runs/{run}/events") for _ in range(3)]
    opened = [stream.__enter__() for stream in streams]
    assert [each.status_code for each in opened] == [200, 200, 200]
    assert narrow.get("/health").status_code == 503
    for stream in streams:
        stream.__exit__(None, None, None)
    wait_for(lambda: narrow.get("/health").status_code == 200)


@contextmanager
def within_files(folder: Path, soft: int, hard: int) -> "Iterator[tuple[subprocess.Popen[str], int]]":
    """A daemon that may open so many files, and its port."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with (folder / "daemon.log").open("w") as log:
        words = ("serve", "--port", 0, "--json", "--provider", "quick", "--patience", 600)
        process = started(place(folder), *words, stderr=log, preexec_fn=limit)
    try:
        assert process.stdout
        yield process, int(json.loads(process.stdout.readline())["listening"].rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_more_callers_than_there_are_files_for_are_told_so_and_leave_files_for_the_rest(tmp_path: Path) -> None:
    with within_files(tmp_path, 128, 128) as (_, port), ExitStack() as held:
        for _ in range(200):
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as late:
            assert late.recv(100).startswith(b"HTTP/1.1 503")
        held.close()
        wait_for(lambda: health_at(port).startswith(b"HTTP/1.1 200"))
    told = [json.loads(line) for line in (tmp_path / "daemon.log").read_text().splitlines()]
    assert [each["requests"] for each in told if each["event"] == "fewer requests at once"] == [32]
    assert not [each for each in told if each["event"] == "trouble"]


def health_at(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plug:
        plug.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        return plug.recv(100)


def test_a_daemon_asks_for_the_files_that_its_callers_need(tmp_path: Path) -> None:
    with within_files(tmp_path, 128, 1_024) as (process, _):
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (1_024, 1_024)


def test_a_name_and_a_page_that_were_allowed_are_let_in_and_no_others(narrow: Served) -> None:
    anybody = narrow.client(None)
    for headers, status in (
        ({"Host": "Ledger.example"}, 200),
        ({"Host": "ledger.example", "Origin": "http://ledger.example"}, 200),
        ({"Host": "ledger.example", "Origin": "https://ledger.example"}, 403),
        ({"Host": "other.example"}, 421),
        ({"Origin": "https://UI.example", "Sec-Fetch-Site": "cross-site"}, 200),
        ({"Origin": "https://ui.example.evil.example"}, 403),
    ):
        assert anybody.get("/health", headers=headers).status_code == status, headers


def test_an_auditor_needs_no_token_where_the_log_is_public(narrow: Served) -> None:
    anybody = narrow.client(None)
    assert anybody.get("/tile/9/000").status_code == 404
    assert anybody.get("/checkpoint").status_code in (200, 404)
    assert anybody.get("/v1/status").status_code == 401


def test_slow_heads_and_bodies_are_cut_off(narrow: Served) -> None:
    said: dict[str, bytes] = {}

    def ask(name: str, data: str) -> None:
        said[name] = narrow.raw(data.encode(), timeout_s=40)

    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {narrow.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    threads = [
        threading.Thread(target=ask, args=("head", "GET /health HTTP/1.1\r\nHost: 127")),
        threading.Thread(target=ask, args=("nothing", "")),
        threading.Thread(target=ask, args=("body", head)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said["head"].startswith(b"HTTP/1.1 408 ")
    assert said["nothing"].startswith(b"HTTP/1.1 408 ")
    assert said["body"].startswith(b"HTTP/1.1 408 ")


def test_a_reader_is_waited_for_as_long_as_he_reads_on() -> None:
    connection, left = Connection.__new__(Connection), 10_000_000
    connection.patience_s, connection.flow = 10.0, Mock()
    connection.loop, connection.transport = Mock(), Mock(get_write_buffer_size=lambda: left)

    def time_is_over() -> None:
        within_s, look, *given = connection.loop.call_later.call_args.args  # type: ignore[attr-defined]
        assert within_s == connection.patience_s
        look(*given)

    connection.pause_writing()
    while left > 100_000:
        left -= 70_000
        time_is_over()
        connection.transport.abort.assert_not_called()
    left -= 1
    time_is_over()
    connection.transport.abort.assert_called_once()


def test_who_guesses_tokens_is_slowed_down(narrow: Served) -> None:
    client = narrow.client("hs_guess")
    wait_for(lambda: client.get("/v1/status").status_code == 401)
    said = [client.get("/v1/status").status_code for _ in range(10)]
    assert 429 in said
    time.sleep(1)
    assert narrow.get("/v1/status").status_code == 200


def test_a_reader_that_takes_nothing_is_cut_off(narrow: Served) -> None:
    ask = f"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:{narrow.port}\r\n\r\n".encode()
    with socket.socket() as plug:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plug.settimeout(30)
        plug.connect(("127.0.0.1", narrow.port))
        plug.sendall(ask * 200)
        wait_for(lambda: not _is_held(narrow.port, plug.getsockname()[1]))
        read = 0
        with suppress(ConnectionResetError):
            while part := plug.recv(65536):
                read += len(part)
    whole = len(narrow.client(None).get("/openapi.json").content)
    assert read < 200 * whole


def _is_held(server: int, client: int) -> bool:
    """Whether the server still holds a connection. Whoever does not read is not told: its end stands behind the rest."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    ends = f":{server:04X}", f":{client:04X}"
    return any((row[1][-5:], row[2][-5:], row[3]) == (*ends, "01") for row in rows)


def test_the_mcp_server_stands_behind_the_same_door(daemon: Served) -> None:
    pytest.importorskip("mcp")
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    headers = {"Accept": "application/json, text/event-stream"}
    assert daemon.client(None).post("/mcp", json=hello, headers=headers).status_code == 401
    said = daemon.post("/mcp", hello, headers=headers)
    assert said.status_code == 200, said.text
    assert '"serverInfo"' in said.text


def test_head_is_get_without_its_body(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    client = daemon.client()
    for path in ("/health", f"/v1/runs/{run}", "/v1/ledger/entries/0", "/v1/ledger/checkpoint", "/v1/runs/none", "/"):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers.get("content-type") == got.headers.get("content-type")
        assert head.headers["content-length"] == got.headers["content-length"]
    assert client.head("/v1/route").status_code == 405
    # Whoever answers there reads the request to its end first.
    assert client.head("/mcp", timeout=20).status_code == client.get("/mcp").status_code
    assert daemon.client(token="wrong").head("/v1/status").status_code == 401


def test_head_of_a_stream_ends_at_once(daemon: Served) -> None:
    run = daemon.submit(provider="stuck")["run"]
    daemon.until(run, "running")
    newest = daemon.get("/v1/status").json()["entries"]
    head = daemon.client().head(f"/v1/runs/{run}/events", headers={"Last-Event-ID": str(newest)}, timeout=5)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert daemon.post(f"/v1/runs/{run}/cancel").status_code in (200, 202)


def test_tokens_that_cannot_be_read_are_told_in_the_log_and_to_no_stranger(tmp_path: Path) -> None:
    with serving(place(tmp_path)) as daemon:
        [file] = tmp_path.rglob("tokens.json")
        kept = file.read_bytes()
        file.write_bytes(b"{}")
        stranger = daemon.client("hs_nobody")
        said = wait_for(lambda: found if (found := stranger.get("/v1/status")).status_code == 503 else None)
        assert (str(tmp_path) in said.text, "its log tells more" in said.json()["detail"]) == (False, True)
        told = wait_for(lambda: [line["error"] for line in daemon.logged() if line["event"] == "nobody is let in"])[0]
        assert told.startswith(f"{file} cannot be read")
        file.write_bytes(kept)
        wait_for(lambda: daemon.get("/v1/status").status_code == 200)


async def test_where_the_library_of_mcp_is_missing_its_install_line_is_told() -> None:
    said: list[Any] = []
    head = {"type": "http", "method": "POST", "path": "/mcp", "headers": [], "query_string": b"", "root_path": ""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        said.append(message)

    desk: Any = None
    await make_app(desk, None)(head, receive, send)
    assert said[0]["status"] == 404
    assert "pip install 'hansard[mcp]'" in json.loads(said[1]["body"])["detail"]


async def test_a_bug_is_told_as_a_problem_and_logged_under_its_request(tmp_path: Path) -> None:
    said, logged = list[Any](), list[Any]()

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        said.append(message)

    # Nothing that a route needs is there.
    nobody: Any = None
    tokens = Tokens(tmp_path)
    headers = [(b"host", b"x"), (b"authorization", f"Bearer {tokens.add('ann', ('reader',))}".encode())]
    head = {"type": "http", "method": "GET", "path": "/v1/status", "headers": headers, "query_string": b""}
    doors = Doors(hosts=frozenset({"x"}))
    guard = Guard(
        make_app(nobody), tokens, doors, Limits(), Metrics(), lambda *what, **more: logged.append((what, more))
    )
    with pytest.raises(AttributeError):
        await guard({**head, "root_path": ""}, receive, send)
    start, body = said
    problem = json.loads(body["body"])
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (500, b"application/problem+json")
    [bug] = [more for what, more in logged if what == ("bug",)]
    assert problem["request_id"] == bug["request_id"]
    assert "AttributeError" in bug["error"]
    assert "AttributeError" not in problem["detail"]
