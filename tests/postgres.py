"""A real PostgreSQL server for tests: started from the system's own binaries, reached by a socket, gone afterwards.

It knows nothing of ledgers. Databases are cheap copies of an empty template; nothing listens on a port.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Self

import psycopg

from components import need

START_S = 30.0


def binaries() -> Path | None:
    """The newest server's folder: Debian keeps its servers off the PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[4]))
    if installed:
        return installed[-1].parent
    found = shutil.which("postgres")
    return Path(found).parent if found else None


class Server:
    """One cluster in a folder of its own, or a standby of another one. The only way in is its socket."""

    def __init__(self, primary: "Server | None" = None) -> None:
        found = binaries()
        need(found is not None, "a PostgreSQL server (apt install postgresql)")
        assert found is not None
        self._bin = found
        # A socket's path may have 107 bytes, so the folder lies high and has a short name.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._numbers = count()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        if primary:
            source = f"host={primary.folder} user=postgres"
            self._run("pg_basebackup", "-D", "data", "-d", source, "-R", "--no-sync", "-c", "fast")
        else:
            self._lay_out()
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def start(self) -> None:
        """Start, or start again, and return when it answers."""
        until = time.monotonic() + START_S
        while True:
            with (self.folder / "log").open("ab") as log:
                # A killed process loses nothing that it gave to the system; only a power cut would, and nobody cuts it here.
                self._process = subprocess.Popen(
                    [self._bin / "postgres", "-D", "data", "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off"],
                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **as_nobody_special(),
                )  # fmt: skip
            if self._answers(until):
                return
            # After a kill the old shared memory may be in use for a moment; then a new server gives up at once.
            if time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Fast shutdown: sessions are ended, what they had not committed is rolled back."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill every process of the server at once, as a crash would: nobody says goodbye to anybody."""
        assert self._process is not None
        # Halted first: otherwise it would see its children die and begin to recover, or they would see it die.
        self._process.send_signal(signal.SIGSTOP)
        for pid in _children(self._process.pid):
            _kill(pid)
        self._end(signal.SIGKILL)

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Halt every process of the server: it takes what is sent, refuses nothing, and does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        children = _children(self._process.pid)
        for pid in children:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in (*children, self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        # Without the last checkpoint: nobody will read this again.
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def database(self) -> str:
        """A fresh database; comes back its name."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    def url(self, database: str, *, user: str = "postgres", password: str = "", more: str = "") -> str:
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}{more}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, behind the store's back."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _lay_out(self) -> None:
        self._run("initdb", "-D", "data", "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync")
        # Whoever is called "guarded" needs a password; everybody else is trusted.
        rules = "local all guarded scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
        (self.folder / "data" / "pg_hba.conf").write_text(rules, encoding="ascii")

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / name, *arguments], cwd=self.folder, capture_output=True, check=False, **as_nobody_special()
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr.decode(errors='replace')}")

    def _answers(self, until: float) -> bool:
        assert self._process is not None
        while time.monotonic() < until and self._process.poll() is None:
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                time.sleep(0.01)
            else:
                return True
        return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(START_S)
        self._process = None


@cache
def shared() -> Server:
    """One server for all tests that leave it alive."""
    server = Server()
    atexit.register(server.remove)
    return server


def as_nobody_special() -> dict[str, Any]:
    """PostgreSQL refuses to run as root, and so does what stands before it."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def _children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
