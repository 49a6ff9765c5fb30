import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hansard.errors import OutcomeUnknown, StoreError
from hansard.ledger.entry import Entry
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.verify import Options, verify
from hansard.store.base import Seal, StoredCheckpoint
from hansard.store.conformance.sample import draft, fill, genesis, kinds, note, part, put, walk
from hansard.store.jsonl import Durability, JsonlStore, writing
from hansard.store.jsonl.files import Paths
from hansard.store.jsonl.log import LineLog

SOURCE = Path(__file__).parents[2] / "src"
WRITER = """
import sys
from pathlib import Path
from hansard.store.conformance.sample import draft, part, put
from hansard.store.jsonl import JsonlStore

store = JsonlStore.open(Path(sys.argv[1]), durability=sys.argv[2])
print("ready", flush=True)
for at in range(int(sys.argv[3])):
    places = put(store, *[draft(data={"n": at}, parts=[part(b"body %d" % at * 50)]) for _ in range(1 + at % 3)])
    print(*[f"{place.seq}:{place.leaf.hex()}" for place in places], flush=True)
sys.stdin.read()
"""

SHORT_OF_FILES = """
import os, resource, sys
from pathlib import Path
from hansard.errors import StoreError
from hansard.store.conformance.sample import genesis
from hansard.store.jsonl import JsonlStore

limits = resource.getrlimit(resource.RLIMIT_NOFILE)
opened = max(map(int, os.listdir("/proc/self/fd")))
for more in range(40):
    path = Path(sys.argv[1]) / f"{more}.jsonl"
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + more, limits[1]))
    try:
        store = JsonlStore.create(path, genesis())
    except StoreError as error:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        print("made" if path.exists() else "not made", error)
        if path.exists():
            JsonlStore.open(path).close()
    else:
        store.close()
        print("done")
        break
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    JsonlStore.create(path, genesis()).close()
    return path


def writer(path: Path, *, durability: Durability = "each", count: int = 0) -> "subprocess.Popen[bytes]":
    """A process that holds the ledger, writes so many groups, and says which places were acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", WRITER, str(path), durability, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # What a buffer had read ahead would be missing from what `communicate` reads.
        bufsize=0,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process: "subprocess.Popen[bytes]") -> bytes:
    process.kill()
    said, _ = process.communicate()
    return said


def sound(path: Path) -> list[Entry]:
    """Open, append, close, open again; every entry, after the verifier accepted the files."""
    store = JsonlStore.open(path)
    assert store.broken is None
    put(store, draft(data={"n": -1}, parts=[part(b"after")]))
    store.close()
    store = JsonlStore.open(path)
    entries = walk(store)
    store.close()
    report = verify(path, Options(deep=True, jobs=1))
    assert report.ok, report.findings
    return entries


def test_a_second_writer_is_refused_by_name_and_a_reader_is_not(path: Path) -> None:
    process = writer(path, count=3)
    try:
        with pytest.raises(StoreError, match=f"process {process.pid} on .* one writer"):
            JsonlStore.open(path)
        with pytest.raises(StoreError, match=f"process {process.pid} on "):
            JsonlStore.create(path, genesis())
        reader = JsonlStore.open(path, reading=True)
        assert reader.wait(3, 30.0) >= 4
        reader.close()
    finally:
        end(process)
    assert len(sound(path)) >= 4


def test_two_stores_of_one_process_do_not_write_to_one_ledger(path: Path) -> None:
    store = JsonlStore.open(path)
    with pytest.raises(StoreError, match=f"process {os.getpid()} on "):
        JsonlStore.open(path)
    store.close()
    JsonlStore.open(path).close()


def test_a_forked_child_may_neither_write_nor_free_the_ledger(path: Path) -> None:
    store = JsonlStore.open(path)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            store.append([[draft()]])
        except StoreError as error:
            status = 0 if "fork" in str(error) else 2
            store.close()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(StoreError):
        JsonlStore.open(path)
    put(store, draft())
    store.close()
    assert len(sound(path)) == 3


@pytest.mark.parametrize("durability", ["each", "batched"])
def test_a_killed_writer_leaves_every_entry_that_it_acknowledged(path: Path, durability: Durability) -> None:
    chance = random.Random(durability)
    for _ in range(4):
        process = writer(path, durability=durability, count=100_000)
        time.sleep(chance.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        *told, _ = end(process).split(b"\n")
        leaves = [leaf_hash(entry.line).hex() for entry in sound(path)]
        for seq, _, leaf in (place.partition(b":") for line in told for place in line.split()):
            assert leaves[int(seq)] == leaf.decode()


def test_the_claim_of_a_killed_writer_is_taken_over_at_once(path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from hansard.store.jsonl import JsonlStore\n"
        "JsonlStore.open(Path(sys.argv[1])).claim('r1', 3600.0); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-S", "-c", code, str(path)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    store = JsonlStore.open(path)
    claim = store.claim("r1", 60.0)
    assert (claim.epoch, claim.because) == (2, "dead")
    store.close()


class Disk:
    """The system calls that reach the disk: counted, and made to fail when told."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.writes = 0
        self.seen: list[tuple[str, int]] = []
        self.failing_syncs = 0
        self.failing_writes = 0
        self.failing_cuts = 0
        self.short = False
        self._sync, self._write, self._cut = os.fdatasync, os.pwrite, os.ftruncate
        patch.setattr(os, "fdatasync", self.sync)
        patch.setattr(os, "pwrite", self.write)
        patch.setattr(os, "ftruncate", self.cut)

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.seen.append(("sync", os.fstat(fd).st_ino))
        if self.failing_syncs:
            self.failing_syncs -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._sync(fd)

    def write(self, fd: int, data: bytes, at: int) -> int:
        self.writes += 1
        self.seen.append(("write", os.fstat(fd).st_ino))
        if self.failing_writes:
            self.failing_writes -= 1
            self._write(fd, bytes(data)[: len(data) // 2], at)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, bytes(data)[: 1 + len(data) // 3] if self.short else data, at)

    def cut(self, fd: int, size: int) -> None:
        if self.failing_cuts:
            self.failing_cuts -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._cut(fd, size)


@pytest.fixture
def store(path: Path) -> Iterator[JsonlStore]:
    """An open ledger of four entries."""
    store = JsonlStore.open(path)
    for at in range(3):
        put(store, draft(data={"n": at}, parts=[part(b"%d" % at)]))
    yield store
    store.close()


@pytest.fixture
def disk(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_an_append_is_one_write_and_one_sync_for_each_file_that_grows(store: JsonlStore, disk: Disk) -> None:
    seal = store.claim("seal", 60.0)
    for parts, signing, wanted in ((0, False, 1), (1, False, 2), (0, True, 2), (3, True, 3)):
        disk.syncs = disk.writes = 0
        groups = [[draft(parts=[part(b"x", name=f"p{at}") for at in range(parts)])] for _ in range(20)]
        store.append(groups, Seal(seal.epoch, note) if signing else None)
        assert (disk.writes, disk.syncs) == (wanted, wanted)


def test_a_body_is_durable_before_its_entry_is_written_and_an_entry_before_its_checkpoint(
    store: JsonlStore, disk: Disk, path: Path
) -> None:
    seal = store.claim("seal", 60.0)
    disk.seen.clear()
    store.append([[draft(parts=[part(b"x")])]], Seal(seal.epoch, note))
    paths = Paths.of(path)
    order = [each.stat().st_ino for each in (paths.bodies, paths.entries, paths.checkpoints)]
    assert disk.seen == [(what, node) for node in order for what in ("write", "sync")]


def test_the_names_of_all_files_are_durable_before_anything_is_written_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, named = os.fsync, set[str]()

    def seen(fd: int) -> None:
        sync(fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            named.update(os.listdir(fd))

    monkeypatch.setattr(os, "fsync", seen)
    JsonlStore.create(tmp_path / "log.jsonl", genesis()).close()
    assert {"log.jsonl", "log.bodies.jsonl", "log.checkpoints.jsonl"} <= named


def test_a_short_write_is_gone_on_with(store: JsonlStore, disk: Disk, path: Path) -> None:
    disk.short = True
    put(store, draft(parts=[part(b"x" * 5_000)]))
    assert disk.writes > 10
    disk.short = False
    store.close()
    assert len(sound(path)) == 6


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_write_that_fails_halfway_is_taken_back_and_the_store_goes_on(
    store: JsonlStore, disk: Disk, path: Path, after: int
) -> None:
    seal = store.claim("seal", 60.0)
    before, files = store.head(), content(path)
    write, fail_at = disk.write, iter(range(after, -1, -1))

    def failing(fd: int, data: bytes, at: int) -> int:
        disk.failing_writes = 1 if next(fail_at, 1) == 0 else 0
        return write(fd, data, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", failing)
        with pytest.raises(StoreError, match=r"nothing was written .*No space left"):
            store.append([[draft(parts=[part(b"lost" * 100)])]], Seal(seal.epoch, note))
    assert content(path) == files
    assert store.head() == before
    assert store.broken is None
    assert [place.seq for place in put(store, draft(parts=[part(b"kept")]))] == [4]
    store.close()
    assert len(sound(path)) == 6


def content(path: Path) -> list[bytes]:
    paths = Paths.of(path)
    return [each.read_bytes() for each in (paths.entries, paths.bodies, paths.checkpoints)]


def test_a_write_that_can_not_be_taken_back_has_an_unknown_outcome_and_stops_the_store(
    store: JsonlStore, disk: Disk, path: Path
) -> None:
    disk.failing_writes = disk.failing_cuts = 1
    with pytest.raises(OutcomeUnknown, match="may or may not be there"):
        store.append([[draft(parts=[part(b"torn" * 100)])]])
    with pytest.raises(StoreError, match="may not be extended"):
        store.append([[draft()]])
    assert len(list(store.lines())) == 4
    store.close()
    assert kinds(sound(path)).count("log.repaired") == 1


@pytest.mark.parametrize("nth", [1, 2])
def test_a_sync_that_fails_is_taken_back_and_nothing_is_built_on_that_disk(
    store: JsonlStore, disk: Disk, path: Path, nth: int
) -> None:
    files = content(path)
    sync = disk.sync

    def failing(fd: int) -> None:
        disk.failing_syncs = 1 if disk.syncs == nth - 1 else 0
        sync(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", failing)
        with pytest.raises(StoreError, match="nothing was written"):
            store.append([[draft(parts=[part(b"lost")])]])
    assert content(path) == files
    with pytest.raises(StoreError, match="open the ledger again"):
        store.append([[draft()]])
    store.close()
    assert len(sound(path)) == 5


def test_an_append_that_was_interrupted_after_its_write_is_not_written_over(
    store: JsonlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LineLog, "take", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.append([[draft(data={"n": 3})]])
    for _ in range(2):
        with pytest.raises(StoreError, match="open the ledger again"):
            store.append([[draft(data={"n": 4})]])
    store.close()
    assert [entry.data["n"] for entry in sound(path)[1:]] == [0, 1, 2, 3, -1]


def test_a_batched_store_syncs_when_asked_and_before_anything_is_built_on_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SYNC_S", 3600.0)
    store = JsonlStore.open(path, durability="batched")
    disk = Disk(monkeypatch)
    seal = store.claim("seal", 60.0)
    asked = (
        store.sync,
        lambda: store.renew(seal, 60.0),
        lambda: store.add_checkpoint(StoredCheckpoint(size=1, note=note(1)), seal.epoch),
        lambda: store.append([[draft()]], Seal(seal.epoch, note)),
        lambda: store.erase((1, "output")),
        store.close,
    )
    for act in asked:
        put(store, draft(parts=[part(b"x")]))
        put(store, draft(parts=[part(b"y")]))
        assert disk.syncs == 0
        act()
        assert disk.syncs >= 2
        disk.syncs = 0
    store = JsonlStore.open(path)
    assert len(walk(store)) == 1 + 12 + 1
    store.close()


def test_a_batched_store_syncs_by_itself_after_so_many_entries_or_so_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SYNC_S", 3600.0)
    store = JsonlStore.open(path, durability="batched")
    disk = Disk(monkeypatch)
    for _ in range(writing.SYNC_ENTRIES // 100 - 1):
        store.append([[draft()] for _ in range(100)])
    assert disk.syncs == 0
    store.append([[draft()] for _ in range(100)])
    assert disk.syncs == 1
    store.close()
    monkeypatch.setattr(writing, "SYNC_S", 0.05)
    store = JsonlStore.open(path, durability="batched")
    disk.syncs = 0
    put(store, draft())
    assert waited(lambda: disk.syncs == 1)
    put(store, draft())
    assert waited(lambda: disk.syncs == 2)
    store.close()


def waited(claim: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30.0
    while not claim() and time.monotonic() < until:
        time.sleep(0.01)
    return claim()


def test_a_batched_store_whose_late_sync_fails_takes_nothing_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "SYNC_S", 0.05)
    store = JsonlStore.open(path, durability="batched")
    disk = Disk(monkeypatch)
    disk.failing_syncs = 1
    put(store, draft())
    assert waited(lambda: store.broken is not None)
    with pytest.raises(StoreError, match="did not keep"):
        store.append([[draft()]])
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one mebibyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def until_it_is_full(store: JsonlStore, size: int) -> int:
    """Append bodies of a size until one is refused; the last seq that was acknowledged."""
    seq = store.head().size - 1
    while True:
        try:
            seq = put(store, draft(parts=[part(b"x" * size)]))[-1].seq
        except StoreError as refusal:
            if "nothing was written" in str(refusal) and "No space left" in str(refusal):
                return seq
            raise


@pytest.mark.needs_root
def test_a_ledger_that_is_made_where_files_run_out_is_told_and_opens_later(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_FILES, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    *refused, last = done.stdout.splitlines()
    assert (done.stderr, last) == ("", "done")
    assert {line.split(" ")[0] for line in refused} == {"made", "not"}
    assert any("was made, and cannot be opened: Too many open files" in line for line in refused)


def test_a_full_disk_refuses_and_loses_nothing_and_space_lets_it_go_on(small_disk: Path) -> None:
    path = small_disk / "log.jsonl"
    store = JsonlStore.create(path, genesis())
    for size in (997, 900, 300, 60):
        acknowledged = until_it_is_full(store, size)
    assert store.head().size == acknowledged + 1
    assert len(list(store.lines())) == acknowledged + 1
    with pytest.raises(StoreError):
        store.claim("r1", 60.0)
    with pytest.raises(StoreError, match="may still be in"):
        store.erase((1, "output"))
    assert store.body(1, "output") is not None
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert put(store, draft())[-1].seq == acknowledged + 1
    store.erase((1, "output"))
    assert store.claim("r1", 60.0).epoch == 1
    store.close()
    store = JsonlStore.open(path)
    assert len(walk(store)) == acknowledged + 2
    fill(store, acknowledged + 10)
    store.close()
    report = verify(path, Options(jobs=1))
    assert report.ok, report.findings


@pytest.mark.needs_root
@pytest.mark.parametrize("index", ["missing", "behind"])
def test_a_ledger_on_a_full_disk_can_still_be_opened_and_read(small_disk: Path, index: str) -> None:
    path = small_disk / "log.jsonl"
    JsonlStore.create(path, genesis()).close()
    behind = Paths.of(path).index.read_bytes()
    store = JsonlStore.open(path)
    fill(store, 600)
    before = walk(store)
    store.close()
    Paths.of(path).index.unlink()
    if index == "behind":
        Paths.of(path).index.write_bytes(behind)
    ballast = os.open(small_disk / "ballast", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(ballast, b"x" * 4096):
            pass
    os.close(ballast)
    for reading in (False, True):
        store = JsonlStore.open(path, reading=reading)
        assert store.broken is None
        assert walk(store) == before
        assert store.effects(0) == []
        store.close()
