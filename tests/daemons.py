"""The daemon as people meet it: a process of its own that listens on loopback, and a client that knows its token."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from command_line import environment_of
from preloaded import Forked
from shell import hansard

ECHO = """\
import sys, time
prompt = sys.stdin.read()
time.sleep(float(sys.argv[1]))
print("\\n".join(line for line in prompt.splitlines() if "mark" in line) or "a fine result")
"""
FINE = '{ok = true, score = 0.9, reasons = "fine"}'
SETTINGS = """\
ledger = "l.db"
[providers.quick]
kind = "scripted"
on_exhaustion = "loop"
entries = [
  {{match = {{role = "coordinator"}}, structured = {{tasks = [
    {{id = "only", lane = "backend", instruction = "do it", needs = [], done_when = []}}]}}}},
  {{match = {{role = "classifier"}}, structured = {{lane = "backend", confidence = 0.9, reason = "it fits"}}}},
  {{match = {{role = "worker"}}, text = "the result"}},
  {{match = {{role = "validator"}}, structured = {fine}}},
  {{match = {{role = "synthesizer"}}, text = "the answer"}},
]
[providers.slow]
kind = "scripted"
on_exhaustion = "loop"
entries = [
  {{match = {{role = "worker"}}, text = "the slow result", latency_s = 0.5}},
  {{match = {{role = "validator"}}, structured = {fine}}},
  {{match = {{role = "synthesizer"}}, text = "the answer"}},
]
[providers.stuck]
kind = "scripted"
on_exhaustion = "loop"
entries = [{{match = {{role = "worker"}}, text = "too late", latency_s = 600}}]
[providers.silent]
kind = "scripted"
on_exhaustion = "loop"
entries = [{{text = "too late", latency_s = 600}}]
[providers.echo]
kind = "command"
argv = ["{python}", "{echo}", "{pause}"]
"""
ONE: dict[str, Any] = {"tasks": [{"id": "one", "lane": "backend", "instruction": "do one"}]}
BARE: dict[str, Any] = {"plan": ONE, "judge": "checks", "answer": "join"}
"""What a request needs so that nobody but the worker is asked."""


def place(folder: Path, *, pause_s: float = 0, more: str = "") -> Path:
    """A folder with a hansard.toml and providers that answer at once, slowly, or not at all."""
    (folder / "echo.py").write_text(ECHO)
    text = SETTINGS.format(python=sys.executable, echo=folder / "echo.py", pause=pause_s, fine=FINE)
    (folder / "hansard.toml").write_text(text + more)
    return folder


@dataclass(slots=True, kw_only=True)
class Served:
    """A daemon that takes requests."""

    folder: Path
    process: Forked
    address: str
    token: str
    log: Path
    _clients: list[httpx2.Client] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def client(self, token: str | None = "", **headers: str) -> httpx2.Client:
        """Somebody with the default token, with another one, or (None) without any."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token or self.token}"
        made = httpx2.Client(base_url=self.address, headers=headers, timeout=60, verify=False)
        self._clients.append(made)
        return made

    def get(self, path: str, **how: Any) -> httpx2.Response:
        return self._clients[0].get(path, **how)

    def post(self, path: str, body: Any = None, **how: Any) -> httpx2.Response:
        return self._clients[0].post(path, json=body, **how) if body is not None else self._clients[0].post(path, **how)

    def submit(self, text: str = "please", wait: float = 0, **more: Any) -> dict[str, Any]:
        said = self.post(f"/v1/runs?wait={wait}", {"request": text, **BARE, **more})
        assert said.status_code in (200, 202), said.text
        return dict(said.json())

    def show(self, run: str) -> dict[str, Any]:
        return dict(self.get(f"/v1/runs/{run}").json())

    def until(self, run: str, *states: str, timeout_s: float = 60) -> dict[str, Any]:
        """The run, once it is in one of these states."""
        return dict(wait_for(lambda: found if (found := self.show(run))["state"] in states else None, timeout_s))

    def cli(self, *words: object) -> "subprocess.CompletedProcess[str]":
        return hansard(self.folder, *words)

    def issue(self, *words: object) -> str:
        """The token that `serve token` made with these words; a daemon notices a change within a tenth of a second."""
        made = self.cli("serve", "token", *words, "--json")
        assert made.returncode == 0, made.stderr
        time.sleep(0.15)
        return str(json.loads(made.stdout)["token"])

    def raw(self, data: bytes, timeout_s: float = 10) -> bytes:
        """What comes back for these very bytes, until the other side hangs up or the time is over."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s) as plug:
            plug.sendall(data)
            said = b""
            try:
                while part := plug.recv(65536):
                    said += part
            except (TimeoutError, ConnectionResetError):
                pass
            return said

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 60) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=timeout_s)

    def logged(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for line in self.log.read_text().splitlines()
            if line.startswith("{") and line.endswith("}")
        ]


def wait_for(look: Callable[[], Any], timeout_s: float = 60) -> Any:
    """What `look` finds, as soon as it finds something."""
    until = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > until:
            raise AssertionError("it did not come about")
        time.sleep(0.02)
    return found


@contextmanager
def serving(folder: Path, *flags: object) -> Iterator[Served]:
    """A daemon on a free port; it is told to stop at the end, if it still runs."""
    log = folder / "daemon.log"
    with log.open("a") as errors:
        argv = ["serve", "--port", "0", "--json", *map(str, flags)]
        process = Forked(folder, environment_of(folder), argv, errors.fileno())
    served = None
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        said = json.loads(line)
        token = Path(said["token_file"]).read_text().strip()
        served = Served(folder=folder, process=process, address=said["listening"], token=token, log=log)
        served.client()
        yield served
        if process.poll() is None:
            assert served.stop() == 0, log.read_text()[-2000:]
    finally:
        for client in served._clients if served else ():
            client.close()
        process.kill()
        process.communicate()


def events(text: str) -> list[dict[str, Any]]:
    """The data of server-sent events."""
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
