import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hansard.surfaces.http.at_first import AtFirst

SRC = str(Path(__file__).parents[2] / "src")


class Quiet:
    """An application that counts how often it was made, entered, asked and left."""

    made = 0

    def __init__(self) -> None:
        Quiet.made += 1
        self.heard: list[str] = []

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.heard.append("entered")
        yield
        self.heard.append("left")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.heard.append("asked")


class Barred(Quiet):
    """One that cannot be entered."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        raise OSError("barred")
        yield


async def asked(app: AtFirst) -> None:
    async def nothing(*_: Any) -> Any: ...

    await app({"type": "http"}, nothing, nothing)


async def test_it_is_made_once_for_all_who_ask_first_and_left_at_the_end() -> None:
    Quiet.made = 0
    kept: list[Quiet] = []

    def make() -> Quiet:
        kept.append(Quiet())
        return kept[0]

    app = AtFirst("json", make)
    async with app.lifespan():
        await asyncio.sleep(0)
        assert not kept
        await asyncio.gather(*(asked(app) for _ in range(3)))
    assert (Quiet.made, kept[0].heard) == (1, ["entered", "asked", "asked", "asked", "left"])


async def test_what_nobody_asks_for_is_never_made() -> None:
    async with AtFirst("there.is.no.such.module", Quiet).lifespan():
        pass


async def test_whoever_asks_hears_why_there_is_none_and_who_gave_up_spoils_it_for_nobody() -> None:
    async with (broken := AtFirst("there_is_no_such_module", Quiet)).lifespan():
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
                await asked(broken)
    async with (barred := AtFirst("json", Barred)).lifespan():
        with pytest.raises(OSError, match="barred"):
            await asked(barred)
    async with (app := AtFirst("json", Quiet)).lifespan():
        impatient = asyncio.create_task(asked(app))
        await asyncio.sleep(0)
        impatient.cancel()
        await asked(app)


def test_a_daemon_does_not_load_the_library_of_mcp_to_begin() -> None:
    code = "import sys, hansard.surfaces.http.serving, hansard.surfaces.cli.serve; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SRC}, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "fastapi" in loaded
    assert not {"mcp", "mcp_types"} & set(loaded)
