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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hansard.ledger.body import opens
from hansard.ledger.entry import FIRST_PREV, Entry, parse
from hansard.ledger.merkle import leaf_hash, root_of
from hansard.store.base import Store
from store import writer

PROGRAM = Path(writer.__file__)
PATIENCE_S = 60.0
SOURCES = f"{PROGRAM.parents[2] / 'src'}{os.pathsep}{PROGRAM.parents[1]}"

Acknowledged = dict[int, str]
"""Seqs and leaf hashes that a writer was promised."""


class Child:
    """One writer process. Use as a context; whatever is left of it is gone at the end."""

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        umask: int = -1,
    ) -> None:
        command = [*prefix, sys.executable, "-S", str(PROGRAM), "create" if create else "open", str(path)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCES, **(env or {})},
            start_new_session=True,
            umask=umask,
        )
        self.pid = self._process.pid
        self.acknowledged: Acknowledged = {}
        self.refusals: list[str] = []
        self.stderr = b""
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ears = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._keep_complaints)]
        for ear in self._ears:
            ear.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self.finish()

    def tell(self, order: str) -> None:
        """Give an order; a process that is gone does not hear it."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{order}\n".encode())
            self._process.stdin.flush()

    def hear(self, word: str = "", within_s: float = PATIENCE_S) -> str:
        """The next line that begins with `word`; empty when the process ended without saying it."""
        while True:
            line = self._said.get(timeout=within_s)
            if not line or line.startswith(word):
                return line

    def ask(self, order: str, word: str = "") -> str:
        self.tell(order)
        return self.hear(word)

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    def kill(self) -> None:
        """End it at once; a tracer before it must not outlive it either."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)

    def finish(self) -> int:
        """Let it come to its end, and give the exit status."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        status = self._process.wait(PATIENCE_S)
        for ear in self._ears:
            ear.join(PATIENCE_S)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()
        return status

    def _listen(self) -> None:
        assert self._process.stdout
        for raw in self._process.stdout:
            line = raw.decode().rstrip("\n")
            if line.startswith("ack "):
                self.acknowledged.update(_places(line))
            if line.startswith("refused "):
                self.refusals.append(line)
            self._said.put(line)
        self._said.put("")

    def _keep_complaints(self) -> None:
        assert self._process.stderr
        self.stderr = self._process.stderr.read()


def _places(line: str) -> Acknowledged:
    return {int(seq): leaf for seq, _, leaf in (each.partition(":") for each in line.split()[1:])}


def run(path: Path, orders: Iterable[str], *, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Child:
    """A writer that got all its orders at once and came to its end, whichever."""
    with Child(path, prefix=prefix, env=env) as child:
        for order in orders:
            child.tell(order)
        child.finish()
    return child


def after_fault(path: Path, acknowledged: Acknowledged, *, batch: int) -> list[Entry]:
    """Open what was left behind and hold it against what was promised; then it must take one entry more.

    At most `batch` entries may lie behind the promised ones: those of commits whose end nobody was told.
    """
    store = writer.reopen(path)
    try:
        assert store.broken is None
        entries = walk(store)
        leaves = {entry.seq: leaf_hash(entry.line).hex() for entry in entries}
        lost = {seq for seq, leaf in acknowledged.items() if leaves.get(seq) != leaf}
        assert not lost, f"acknowledged and lost: {sorted(lost)}"
        unexplained = [entry for entry in entries[1:] if entry.kind == "task.noted" and entry.seq not in acknowledged]
        assert len(unexplained) <= batch, f"{len(unexplained)} entries that nobody was promised"
        store.append([[writer.draft("after the fault")]])
        assert store.head().size == len(entries) + 1
    finally:
        store.close()
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
