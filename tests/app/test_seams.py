"""What is asked over HTTP on behalf of a run: a server that never ends, breaks off or says no has given no answer."""

import asyncio
import http.server
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hansard.app import seams
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.errors import ProviderError, UsageError
from hansard.providers.programs.process import Ran
from hansard.providers.tools import Refusal


class Speaking(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say()

    def say(self) -> None:
        self.begin(200)
        self.wfile.write(b"an answer")

    def begin(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


class Dripping(Speaking):
    """Says a little all the time, and never all of it."""

    def say(self) -> None:
        self.begin(200)
        with suppress(OSError):
            while True:
                self.wfile.write(b".")
                time.sleep(0.05)


class Breaking(Speaking):
    """Promises more than it says."""

    def say(self) -> None:
        self.begin(200, content_length="1000")
        self.wfile.write(b"half of an answ")


class Babbling(Speaking):
    """Speaks no HTTP."""

    def say(self) -> None:
        self.wfile.write(b"hello\r\n\r\n")


class Refusing(Speaking):
    def say(self) -> None:
        self.begin(500)
        self.wfile.write(b"an answer")


@contextmanager
def serving(kind: type[Speaking]) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}/"
        found.shutdown()


async def no_programs(argv: tuple[str, ...], stdin: bytes, timeout_s: float) -> Ran:
    raise AssertionError(f"{argv} is not to be run")


async def test_a_url_gives_what_it_says() -> None:
    with serving(Speaking) as url:
        assert await seams.open_handler("look", {"url": url}, no_programs, {})({"at": "Paris"}) == "an answer"


class Long(Speaking):
    def say(self) -> None:
        self.begin(200)
        self.wfile.write(b"x" * (seams.MOST_BYTES + 1))


async def test_of_a_tool_that_says_too_much_the_model_hears_that_and_not_the_half(tmp_path: Path) -> None:
    async with Hansard.open(settings=Settings(ledger="memory:", state=tmp_path)) as hansard:
        argv = [sys.executable, "-c", "print('x' * (1 << 20) + 'the end')"]
        [handle] = hansard.pool.handlers({"look": {"command": argv}}, str(tmp_path)).values()
        said = await handle({})
    assert isinstance(said, Refusal)
    assert "printed more than the 1,048,576 bytes" in said.message
    with serving(Long) as url:
        said = await seams.open_handler("look", {"url": url}, no_programs, {})({})
    assert isinstance(said, Refusal)
    assert "more than the" in said.message


@pytest.mark.parametrize("kind", [Dripping, Breaking, Babbling, Refusing])
async def test_what_a_url_does_not_say_whole_and_in_time_is_no_answer(
    kind: type[Speaking], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seams, "SEAM_SECONDS", 0.5)
    with serving(kind) as url:
        handle = seams.open_handler("look", {"url": url}, no_programs, {})
        async with asyncio.timeout(20):
            with pytest.raises(ProviderError, match=re.escape(url)):
                await handle({})


GIVES_UP = """
import asyncio, sys
from hansard.app import seams

async def main():
    handle = seams.open_handler("look", {"url": sys.argv[1]}, None, {})
    asked = asyncio.ensure_future(handle({}))
    await asyncio.to_thread(sys.stdin.readline)
    asked.cancel()
    await asyncio.wait([asked])

seams.SEAM_SECONDS = 600.0
asyncio.run(main())
"""


def test_whoever_gives_up_on_a_url_that_hangs_ends_without_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}/"
        program = subprocess.Popen([sys.executable, "-c", GIVES_UP, url], stdin=subprocess.PIPE)
        try:
            asked, _ = hanging.accept()
            with asked:
                program.communicate(b"\n", timeout=60)
        finally:
            program.kill()
    assert program.returncode == 0


BROUGHT = """
async def word(arguments): return 'a word'
number = 1
class Leaves:
    def __init__(self): raise SystemExit(0)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a word for every seam, which can be called and has no method of any."""
    brought = tmp_path / "brought_here-1.dist-info"
    brought.mkdir()
    (brought / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-here\nVersion: 1\n")
    names = "\n".join(f"{name} = brought_here:{name}" for name in ("word", "number", "Leaves"))
    points = [f"[{group}]\n{names}\n" for group in seams.GROUPS.values()]
    (brought / "entry_points.txt").write_text("\n".join(points))
    (tmp_path / "brought_here.py").write_text(BROUGHT)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("seam", "name", "method"),
    [
        ("context", "word", "context"),
        ("verifier", "word", "verify"),
        ("reviser", "word", "revise"),
        ("tool", "number", "__call__"),
    ],
)
def test_an_entry_point_that_cannot_be_asked_is_refused_when_it_is_opened(seam: str, name: str, method: str) -> None:
    said = rf"the {seam} '{name}' \(brought_here:{name}\) is none: it has no method {method}"
    with pytest.raises(UsageError, match=said):
        seams._entry_point(seam, name)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("seam", seams.GROUPS)
def test_an_entry_point_that_would_end_the_process_is_refused(seam: str) -> None:
    with pytest.raises(UsageError, match=rf"the {seam} 'Leaves' .* cannot be loaded: SystemExit: 0"):
        seams._entry_point(seam, "Leaves")


@pytest.mark.usefixtures("installed")
async def test_a_function_that_an_installed_package_brings_runs_a_tool() -> None:
    assert await seams._entry_point("tool", "word")({}) == "a word"
