"""The secret that webhooks are signed with, and how far each receiver has heard."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hansard.app.posting import check_url
from hansard.app.serving.marks import Marks
from hansard.app.serving.webhooks import TRIES, webhook_secret, webhooks
from hansard.domain.fact import Body, Fact
from hansard.domain.gate import GateOpened
from hansard.domain.work import RunEnded
from hansard.errors import StoreError, UsageError
from hansard.ledger.entry import Entry
from hansard.store.base import Draft, Query, Store
from hansard.store.memory import MemoryStore
from ledgers import Clock, draft, genesis_draft, memory
from store.disks import make_space, tmpfs


@pytest.mark.needs_root
def test_a_full_disk_leaves_no_empty_secret_behind(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 16) as disk:
        (disk / "serve").mkdir()
        with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
        with pytest.raises(StoreError, match="No space left"):
            webhook_secret(disk / "serve")
        assert [path.name for path in (disk / "serve").iterdir()] == ["lock"]
        make_space(disk)
        assert len(webhook_secret(disk / "serve")) == 32


def test_a_file_without_a_secret_signs_nothing(tmp_path: Path) -> None:
    (tmp_path / "webhook-secret").touch()
    with pytest.raises(StoreError, match="there is no webhook secret"):
        webhook_secret(tmp_path)


def test_daemons_that_start_at_once_share_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda _: webhook_secret(tmp_path / "serve"), range(64)))
    assert len(found) == 1
    assert sorted(path.name for path in (tmp_path / "serve").iterdir()) == ["lock", "webhook-secret"]


class Busy(MemoryStore):
    """A log in which others write: right behind the first look for gates, one opens and another run ends."""

    def select(self, query: Query) -> Iterator[Entry]:
        found = list(super().select(query))
        if query.kind == "gate.opened" and self.head().size == 2:
            self.append([[left(GATE), left(END)]])
        return iter(found)


GATE = GateOpened(
    gate="g-1", rule="r", before="plan", needed=1, on_expiry="reject", shown=(), question=Body.text("may it?")
)
END = RunEnded(state="answered", reason="answered", calls=1, tokens=1, cost_usd_nano=0, elapsed_us=1)


def left(fact: Fact) -> Draft:
    """What a driver wrote who is gone."""
    return draft(fact, run="run", fence=("run", 1))._replace(fence=None)


class Receiver(BaseHTTPRequestHandler):
    status = 204

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Refuses(Receiver):
    status = 500


@contextmanager
def receiving(handler: type[Receiver] = Receiver) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{receiver.server_address[1]}/"
        receiver.shutdown()


async def told(url: str, folder: Path, store: Store, until: int) -> list[tuple[int, int]]:
    """Which entries a receiver is told of up to this one, and at which attempt."""
    found: list[tuple[int, int]] = []
    done = asyncio.Event()

    def hear(event: str, **fields: Any) -> None:
        found.append((fields["seq"], fields["attempt"]))
        if fields["seq"] == until:
            done.set()

    work = asyncio.create_task(webhooks((url,), folder, store, hear).work())
    async with asyncio.timeout(60):
        await done.wait()
    work.cancel()
    return found


async def test_what_is_recorded_between_two_looks_is_told_too(tmp_path: Path) -> None:
    store = Busy(genesis_draft(), clock=Clock())
    with receiving() as url:
        Marks(tmp_path, store).move(url, 0)
        store.append([[left(END)]])
        assert await told(url, tmp_path, store, 3) == [(1, 1), (2, 1), (3, 1)]


async def test_much_that_was_missed_is_told_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.app.serving.webhooks.PAGE", 2)
    store = memory()
    store.append([[left(END), left(END), left(END), left(GATE), left(END), left(GATE)]])
    with receiving() as url:
        Marks(tmp_path, store).move(url, 0)
        assert await told(url, tmp_path, store, 6) == [(seq, 1) for seq in range(1, 7)]


async def test_a_receiver_that_always_refuses_hears_of_the_next_when_its_tries_are_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.webhooks.FIRST_S", 0)
    store = memory()
    store.append([[left(GATE), left(END)]])
    with receiving(Refuses) as url:
        Marks(tmp_path, store).move(url, 0)
        assert await told(url, tmp_path, store, 2) == [*((1, attempt) for attempt in range(1, TRIES + 1)), (2, 1)]


async def test_a_receiver_of_a_ledger_that_was_put_back_hears_of_what_comes_from_now_on(tmp_path: Path) -> None:
    store = memory()
    store.append([[left(END)]])
    with receiving() as url:
        Marks(tmp_path, store).move(url, 5)
        hooks = webhooks((url,), tmp_path, store, lambda *_, **__: None)
        assert hooks._missed(url) == []
        store.append([[left(GATE)]])
        assert [entry.seq for entry in hooks._missed(url)] == [2]


def test_daemons_of_one_user_leave_each_others_marks_alone(tmp_path: Path) -> None:
    store = memory()
    one, other = Marks(tmp_path, store), Marks(tmp_path, store)
    one.move("http://127.0.0.1/one", 5)
    other.move("http://127.0.0.1/other", 7)
    again = Marks(tmp_path, store)
    assert (again.of("http://127.0.0.1/one"), again.of("http://127.0.0.1/other")) == (5, 7)


def test_daemons_that_move_their_marks_at_once_lose_none(tmp_path: Path) -> None:
    store = memory()

    def moved(number: int) -> None:
        marks = Marks(tmp_path, store)
        for seq in range(50):
            marks.move(f"http://127.0.0.1/{number}", seq)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(moved, range(4)))
    again = Marks(tmp_path, store)
    assert [again.of(f"http://127.0.0.1/{number}") for number in range(4)] == [49] * 4


@pytest.mark.parametrize(
    "who", ["ann:hunter-two@", ":hunter-two@", "hunter-two@", "ann:hunter-two:@", "@", "ann:hunter#two@", "hunter?two@"]
)
def test_a_url_with_a_password_is_refused_and_not_quoted(who: str) -> None:
    with pytest.raises(UsageError, match="before the @ of this URL") as refused:
        check_url(f"https://{who}example.org/hook", "--webhook")
    assert "hunter" not in str(refused.value)
    for rest in ("@ann", "?to=ann@example.org", "#@ann"):
        check_url(f"https://example.org/{rest}", "--webhook")


@pytest.mark.parametrize("front", ["http:", "http:/", "http:///", "https:\\\\"])
def test_a_misspelled_url_with_a_password_is_not_quoted_either(front: str) -> None:
    with pytest.raises(UsageError, match="--webhook: write http://") as refused:
        check_url(f"{front}me:hunter2222@example.org/hook", "--webhook")
    assert "hunter2222" not in str(refused.value)
