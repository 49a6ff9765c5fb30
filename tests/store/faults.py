"""Processes that write and are hurt, and the look at what they left behind. Knows no single fault: each test brings its own.

Whatever happened, four things must hold afterwards: the ledger opens, it verifies, every acknowledged entry is there,
and what lies behind the last acknowledged one is explained by a commit that was under way.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from hansard.ledger.body import opens
from hansard.ledger.entry import FIRST_PREV, Entry, parse
from hansard.ledger.merkle import leaf_hash, root_of
from hansard.ledger.verify import Options, verify
from hansard.store.base import Store
from store import writer

FORMS = ("sqlite", "jsonl")
PATIENCE_S = 60.0

_PROGRAM = Path(writer.__file__)
_SOURCES = f"{_PROGRAM.parents[2] / 'src'}{os.pathsep}{_PROGRAM.parents[1]}"

Acknowledged = dict[int, str]
"""The leaf hash that a writer was promised, by seq."""


class Child:
    """One writer process. Use as a context; whatever is left of it is gone at the end."""

    def __init__(
        self, path: Path, *, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None, umask: int = -1
    ) -> None:
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-S", str(_PROGRAM), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": _SOURCES, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            start_new_session=True,
            umask=umask,
        )
        self.acknowledged: Acknowledged = {}
        self.refusals: list[str] = []
        self.stderr = b""
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ears = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._keep_complaints)]
        for ear in self._ears:
            ear.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.finish()

    @property
    def status(self) -> int | None:
        """How it ended: the exit status, or minus the signal; None while it lives."""
        return self._process.poll()

    def tell(self, order: str) -> None:
        """Give an order; a process that is gone does not hear it."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{order}\n".encode())
            self._process.stdin.flush()

    def hear(self, word: str = "") -> str:
        """The next line that begins with `word`; empty when a refusal comes instead, or the end of the process."""
        while True:
            line = self._said.get(timeout=PATIENCE_S)
            if line.startswith(word):
                return line
            if not line or line.startswith("refused "):
                return ""

    def ask(self, order: str) -> str:
        """The first line that is said after an order."""
        self.tell(order)
        return self.hear()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, and to the tracer that it may have been started by."""
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """Stop it, and come back when it stands still: outside of any system call that changes something."""
        self.signal(signal.SIGSTOP)
        until = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < until, "it does not stop"
            time.sleep(0.0005)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)

    def finish(self) -> None:
        """Let it come to its end when it has done what it was told."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        for ear in self._ears:
            ear.join(PATIENCE_S)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout
        for raw in self._process.stdout:
            line = raw.decode().rstrip("\n")
            if line.startswith("ack "):
                places = (each.partition(":") for each in line.split()[1:])
                self.acknowledged.update({int(seq): leaf for seq, _, leaf in places})
            if line.startswith("refused "):
                self.refusals.append(line)
            self._said.put(line)
        self._said.put("")

    def _keep_complaints(self) -> None:
        assert self._process.stderr
        self.stderr = self._process.stderr.read()


def opened(path: Path) -> Child:
    """A writer that has the ledger open and waits for orders."""
    child = Child(path)
    child.tell("open")
    assert child.hear("ready "), child.stderr
    return child


def run(
    path: Path, orders: Iterable[str], *, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Child:
    """A writer that got all its orders at once and came to its end, whichever."""
    with Child(path, prefix=prefix, env=env) as child:
        for order in orders:
            child.tell(order)
        child.finish()
    return child


def new_ledger(path: Path) -> Path:
    """A ledger of one entry that nobody has open."""
    writer.create(path).close()
    return path


def named(folder: Path, form: str) -> Path:
    """Where a test of one form keeps its ledger."""
    return folder / {"sqlite": "log.db", "jsonl": "log.jsonl"}[form]


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say with a failure where among many faults it happened."""
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise


def after_fault(path: Path, acknowledged: Acknowledged, *, batch: int) -> list[Entry]:
    """Open what was left behind and hold it against what was promised; then it must take one entry more.

    At most `batch` entries may lie behind the promised ones: those of commits whose end nobody was told.
    """
    store = writer.reopen(path)
    try:
        assert store.broken is None, store.broken
        entries = walk(store)
        leaves = {entry.seq: leaf_hash(entry.line).hex() for entry in entries}
        lost = {seq for seq, leaf in acknowledged.items() if leaves.get(seq) != leaf}
        assert not lost, f"acknowledged and lost: {sorted(lost)}"
        untold = [entry.seq for entry in entries if entry.kind == "task.noted" and entry.seq not in acknowledged]
        assert len(untold) <= batch, f"entries that nobody was promised: {untold}"
        [outcome] = store.append([[writer.draft("after the fault")]])
        assert isinstance(outcome, list), outcome
        # Whoever writes first says what he cut off before ([J4]).
        *after, added = walk(store)
        assert [place.seq for place in outcome] == [added.seq]
        assert after[: len(entries)] == entries
        assert {entry.kind for entry in after[len(entries) :]} <= {"log.repaired"}
        entries = after
    finally:
        store.close()
    report = verify(path, Options(deep=True, jobs=1))
    assert report.ok, report.findings
    assert report.size == len(entries) + 1
    assert not list(path.parent.glob("*-wal")), "closing leaves no WAL behind"
    return entries


def walk(store: Store) -> list[Entry]:
    """Every entry, checked by hand: form, place, chain, time, the head, the tree, and every body."""
    entries = [parse(line) for line in store.lines()]
    prev, ts = FIRST_PREV, 0
    for at, entry in enumerate(entries):
        assert (entry.seq, entry.prev) == (at, prev), f"entry {at} does not follow the one before"
        assert entry.ts >= ts
        prev, ts = leaf_hash(entry.line).hex(), entry.ts
        for part, committed in entry.body.items():
            kept = store.body(at, part)
            assert kept is not None, f"part {part} of entry {at} is gone"
            assert opens(committed, kept.salt, kept.media, kept.body)
    head = store.head()
    assert (head.size, head.leaf.hex(), head.ts) == (len(entries), prev, ts)
    assert head.root == root_of([leaf_hash(entry.line) for entry in entries])
    return entries
