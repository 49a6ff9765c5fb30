"""A loopback server for real agent CLIs: it speaks Anthropic's Messages, OpenAI's Responses and Gemini's wire formats.

It keeps every request. What it answers is one thing for all: a text, a JSON object where one is asked for, or an error.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "served-model-1"
TOOL = "StructuredOutput"
Event = tuple[str, dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class Wire:
    """What is answered, and what was asked."""

    text: str = "Paris."
    structured: dict[str, Any] | None = None
    status: int = 200
    error: dict[str, Any] = field(default_factory=dict)
    delay_s: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


def messages(wire: Wire, request: dict[str, Any]) -> list[Event]:
    """The stream of a message: the tool by which Claude Code gets an object, or a text."""
    usage = {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    wants = any(tool.get("name") == TOOL for tool in request.get("tools", []))
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": wire.text}
    if wants:
        block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(wire.structured)}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    stop = {"stop_reason": "tool_use" if wants else "end_turn", "stop_sequence": None}
    return [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": {"output_tokens": 15}}),
        ("message_stop", {}),
    ]


def responses(wire: Wire, request: dict[str, Any]) -> list[Event]:
    wants = (request.get("text") or {}).get("format")
    text = json.dumps(wire.structured) if wants else wire.text
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 4},
        "total_tokens": 39,
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    done = {"id": "resp_1", "model": MODEL, "output": [item], "usage": usage}
    return [
        ("response.created", {"response": {"id": "resp_1"}}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": done}),
    ]


def generated(wire: Wire) -> dict[str, Any]:
    counts = {"promptTokenCount": 31, "candidatesTokenCount": 8, "thoughtsTokenCount": 2, "totalTokenCount": 41}
    content = {"role": "model", "parts": [{"text": wire.text}]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": MODEL}


@contextmanager
def serving(wire: Wire) -> Iterator[Wire]:
    """Serve until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.reply(404, json.dumps({"error": {"message": "not here"}}).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            request = json.loads(body or b"{}")
            path = self.path.partition("?")[0]
            if path.endswith("/count_tokens"):
                self.reply(200, b'{"input_tokens": 5}')
                return
            wire.requests.append({"path": path, "body": request, "headers": dict(self.headers)})
            time.sleep(wire.delay_s)
            if wire.status != 200:
                self.reply(wire.status, json.dumps(wire.error).encode())
            elif path.endswith("/messages"):
                self.stream(messages(wire, request))
            elif path.endswith("/responses"):
                self.stream(responses(wire, request))
            else:
                said = json.dumps(generated(wire)).encode()
                streamed = "stream" in path
                self.reply(200, b"data: " + said + b"\r\n\r\n" if streamed else said, events=streamed)

        def stream(self, events: list[Event]) -> None:
            lines = (f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events)
            self.reply(200, "".join(lines).encode(), events=True)

        def reply(self, status: int, body: bytes, *, events: bool = False) -> None:
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if events else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    wire.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield wire
    finally:
        server.shutdown()
        server.server_close()
