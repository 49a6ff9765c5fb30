"""A witness as people meet it: a process of its own that listens on loopback, in a folder of its own."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from command_line import started
from hansard.app.ledgers.witness import Service, witness_folder


@dataclass(slots=True, kw_only=True)
class Watching:
    """A witness that takes requests."""

    folder: Path
    process: "subprocess.Popen[str]"
    url: str
    key: str
    log: Path

    def trust(self, pin: str) -> None:
        """As `hansard witness trust` has it; the witness's folder is safe between processes."""
        Service(witness_folder(self.folder / "state")).trust(pin)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str, str]:
        """The status, the media type and the text of an answer."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("content-type", ""), answer.read().decode()
        finally:
            connection.close()

    def newest(self, origin: str) -> str:
        status, _, text = self.ask("GET", f"/logs/{sha256(origin.encode()).hexdigest()}/checkpoint")
        assert status == 200, text
        return text


@contextmanager
def watching(folder: Path, name: str = "witness.example/w1") -> Iterator[Watching]:
    """A witness on a free port; it is told to stop at the end, if it still runs."""
    folder.mkdir(exist_ok=True)
    log = folder / "witness.log"
    with log.open("a") as errors:
        process = started(folder, "witness", "--name", name, "--port", 0, "--json", stderr=errors)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        said = json.loads(line)
        yield Watching(folder=folder, process=process, url=said["listening"], key=said["key"], log=log)
        if process.poll() is None:
            process.terminate()
            assert process.wait(timeout=30) == 0, log.read_text()
    finally:
        process.kill()
        process.communicate()
