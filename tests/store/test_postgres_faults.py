"""A PostgreSQL server that is killed, restarted or cut off: what was acknowledged is there, and nothing is guessed."""

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import count
from shutil import which
from typing import Any

import psycopg
import pytest

from components import need
from hansard.errors import NotWritten, OutcomeUnknown, StoreError, Unavailable, UsageError
from hansard.record import recorder
from hansard.store.base import Placed
from hansard.store.conformance.sample import draft, genesis, part, put, walk
from hansard.store.postgres import PostgresStore, session
from hansard.store.postgres import store as postgres_store
from hansard.store.postgres.address import Address
from ledgers import request
from postgres import Server, as_nobody_special, shared

POOLER = which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_schemas = count()


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server of these tests' own: they end it."""
    with Server() as server:
        yield server


class Driver(threading.Thread):
    """Appends until the store fails, and keeps what was acknowledged."""

    def __init__(self, store: PostgresStore) -> None:
        super().__init__()
        self.store = store
        self.told: list[Placed] = []
        self.failure: StoreError | None = None

    def run(self) -> None:
        try:
            while True:
                self.told += put(self.store, draft(parts=[part(b"body")]), draft(causes=(~0,)))
        except StoreError as failure:
            self.failure = failure


def test_a_killed_server_loses_nothing_that_was_acknowledged(mortal: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BACK_S", 0.5)
    url = mortal.url(mortal.database())
    handles = [PostgresStore.create(url, genesis()), PostgresStore.open(url)]
    told: list[Placed] = []
    lost = 0
    for _ in range(2):
        drivers = [Driver(handle) for handle in (*handles, *handles)]
        for driver in drivers:
            driver.start()
        until = time.monotonic() + 20.0
        while min(len(driver.told) for driver in drivers) < 20 and time.monotonic() < until:
            time.sleep(0.01)
        mortal.kill()
        for driver in drivers:
            driver.join()
            told += driver.told
            lost += isinstance(driver.failure, OutcomeUnknown)
            assert len(driver.told) >= 20
            assert driver.failure is not None
        with pytest.raises(StoreError, match="cannot reach"):
            put(handles[0], draft())
        mortal.start()
        # The handles that saw it die go on by themselves.
        for handle in handles:
            told += put(handle, draft())
    with closing(PostgresStore.open(url)) as store:
        assert store.broken is None
        entries = walk(store)
        lines = {entry.seq: entry.line for entry in entries}
        assert all(lines[place.seq] == place.line for place in told)
        assert all(store.body(place.seq, "output") for place in told if place.draft.parts)
        # Whatever nobody was told of comes from commits whose outcome nobody knew.
        assert 0 <= len(entries) - 1 - len(told) <= 2 * lost
        assert store.repair() == []
    for handle in handles:
        handle.close()


def test_a_restart_between_two_calls_is_not_noticed(mortal: Server) -> None:
    url = mortal.url(mortal.database())
    with closing(PostgresStore.create(url, genesis())) as store:
        for end in (mortal.stop, mortal.kill):
            put(store, draft())
            size = store.head().size
            end()
            mortal.start()
            assert store.head().size == size
            assert len(list(store.lines())) == size
            put(store, draft())
        assert len(walk(store)) == 5


@pytest.mark.parametrize("end", [Server.stop, Server.kill])
def test_whoever_writes_while_the_server_is_started_anew_waits_for_it(
    mortal: Server, end: Callable[[Server], None]
) -> None:
    url = mortal.url(mortal.database())
    with closing(PostgresStore.create(url, genesis())) as store:
        put(store, draft())
        end(mortal)
        late = threading.Timer(0.5, mortal.start)
        late.start()
        assert put(store, draft())[0].seq == 2
        late.join()
        assert len(walk(store)) == 3


@pytest.mark.parametrize("end", [Server.stop, Server.kill])
def test_whoever_reads_while_the_server_is_started_anew_waits_for_it(
    mortal: Server, end: Callable[[Server], None]
) -> None:
    url = mortal.url(mortal.database())
    with closing(PostgresStore.create(url, genesis())) as store:
        put(store, draft())
        end(mortal)
        late = threading.Timer(0.5, mortal.start)
        late.start()
        assert len(list(store.lines())) == 2
        late.join()
        assert store.head().size == 2


READS: dict[str, Callable[[PostgresStore], object]] = {
    "head": lambda store: store.head().size,
    "lines": lambda store: len(list(store.lines())),
    "wait": lambda store: store.wait(1, 0),
}


@pytest.mark.parametrize("asked", READS.values(), ids=READS)
def test_what_is_being_read_when_its_session_is_ended_is_read_in_the_next(
    mortal: Server, asked: Callable[[PostgresStore], object]
) -> None:
    database = mortal.database()
    with closing(PostgresStore.create(mortal.url(database), genesis())) as store, ThreadPoolExecutor(1) as beside:
        put(store, draft())
        with psycopg.connect(mortal.url(database)) as locking:
            locking.execute("LOCK TABLE hansard.head, hansard.entries IN ACCESS EXCLUSIVE MODE")
            reading = beside.submit(asked, store)
            waits = "application_name = 'hansard' AND wait_event_type = 'Lock'"
            ended: list[Any] = []
            while not ended:
                ended = mortal.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {waits}", database
                )
            # Only the next one reaches the rows.
            locking.rollback()
        assert reading.result() == 2


def test_a_writer_whose_session_is_ended_while_it_waits_for_its_turn_writes_in_the_next(mortal: Server) -> None:
    database = mortal.database()
    with closing(PostgresStore.create(mortal.url(database), genesis())) as store, ThreadPoolExecutor(1) as beside:
        put(store, draft())
        with psycopg.connect(mortal.url(database)) as locking:
            locking.execute("SELECT FROM hansard.head FOR UPDATE")
            writing = beside.submit(put, store, draft())
            waits = "application_name = 'hansard' AND wait_event_type = 'Lock'"
            ended: list[Any] = []
            while not ended:
                ended = mortal.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {waits}", database
                )
            locking.rollback()
        assert [place.seq for place in writing.result()] == [2]
        assert len(walk(store)) == 3


def test_a_wait_whose_session_is_ended_goes_on_in_the_next(mortal: Server) -> None:
    database = mortal.database()
    with closing(PostgresStore.create(mortal.url(database), genesis())) as store, ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(store.wait, 1, 60.0)
        waits = "application_name = 'hansard' AND wait_event = 'ClientRead' AND query <> ''"
        ended: list[Any] = []
        while not ended:
            ended = mortal.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {waits}", database)
        put(store, draft())
        assert waiting.result() == 2


def test_no_session_is_lent_that_ended_while_it_was_idle() -> None:
    """However many there are: what is read is read once more, and not once for each of them."""
    server = shared()
    database = server.database()
    ours = f"application_name = 'hansard' AND datname = '{database}'"
    with closing(PostgresStore.create(server.url(database), genesis())) as store:
        with ThreadPoolExecutor(3) as beside:
            assert [*beside.map(lambda _: store.wait(1, 0.3), range(3))] == [1, 1, 1]
        server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
        while server.execute(f"SELECT pid FROM pg_stat_activity WHERE {ours}"):
            pass
        assert store.head().size == 1
        assert put(store, draft())[0].seq == 1


@pytest.mark.parametrize("asked", [lambda store: put(store, draft()), PostgresStore.head], ids=["write", "read"])
def test_a_server_that_stays_away_is_waited_for_once(
    mortal: Server, monkeypatch: pytest.MonkeyPatch, asked: Callable[[PostgresStore], object]
) -> None:
    url = mortal.url(mortal.database())
    with closing(PostgresStore.create(url, genesis())) as store:
        put(store, draft())
        mortal.stop()
        try:
            monkeypatch.setattr(session, "BACK_S", 0.5)
            with pytest.raises(Unavailable, match="cannot reach"):
                asked(store)
            # Nobody waits in a row for what is not there.
            monkeypatch.setattr(time, "sleep", pytest.fail)
            with pytest.raises(Unavailable, match="cannot reach"):
                asked(store)
            # Nor whoever comes to a server that he has not seen.
            with pytest.raises(Unavailable, match="cannot reach"):
                PostgresStore.open(url)
        finally:
            monkeypatch.undo()
            mortal.start()
        assert put(store, draft())[0].seq == 2


def test_of_several_servers_the_one_that_may_be_written_to_is_asked(
    mortal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BACK_S", 0.5)
    database = mortal.database()
    PostgresStore.create(mortal.url(database), genesis()).close()
    with Server(mortal) as standby:
        url = f"postgresql://postgres@/{database}?host={mortal.folder},{standby.folder}"
        with closing(PostgresStore.open(url)) as store:
            put(store, draft())
            mortal.stop()
            try:
                for asked in (store.head, lambda: put(store, draft())):
                    with pytest.raises(Unavailable, match="cannot reach"):
                        asked()
                # A standby may be behind: whoever wants to read there says so.
                with closing(PostgresStore.open(f"{url}&target_session_attrs=any")) as there:
                    assert there.head().size <= 2
                    # Nor does it let anybody listen.
                    assert there.wait(9, 0.1) <= 2
            finally:
                mortal.start()
            put(store, draft())
            assert store.head().size == 3


def test_a_server_that_dies_under_a_waiting_store_is_an_error_and_the_next_wait_works(
    mortal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BACK_S", 0.5)
    url = mortal.url(mortal.database())
    with closing(PostgresStore.create(url, genesis())) as store:
        late = threading.Timer(0.2, mortal.kill)
        late.start()
        with pytest.raises(Unavailable, match="cannot reach"):
            store.wait(1, 30.0)
        late.join()
        mortal.start()
        late = threading.Timer(0.1, put, args=(store, draft()))
        late.start()
        assert store.wait(1, 30.0) == 2
        late.join()


def test_a_server_that_falls_silent_is_given_up_and_heard_again_when_it_speaks(mortal: Server) -> None:
    url = mortal.url(mortal.database())
    PostgresStore.create(url, genesis()).close()
    with closing(PostgresStore.open(f"{url}&patience=2")) as store:
        with mortal.halted():
            for asked in (store.head, lambda: put(store, draft()), lambda: store.claim("run:a", 1.0)):
                with pytest.raises(Unavailable, match=r"silent for 2 s|cannot reach"):
                    asked()
        # The same store, as soon as the server is quick enough for it.
        while True:
            with suppress(Unavailable):
                put(store, draft())
                break
    with closing(PostgresStore.open(url)) as store:
        assert len(walk(store)) >= 2


@pytest.mark.long
def test_a_commit_that_waits_for_a_standby_that_is_gone_is_unknown_and_stands_when_it_is_let_go(mortal: Server) -> None:
    url = mortal.url(mortal.database(), more="&patience=2")
    with closing(PostgresStore.create(url, genesis())) as store:
        mortal.execute("ALTER SYSTEM SET synchronous_standby_names = 'gone'")
        mortal.execute("SELECT pg_reload_conf()")
        try:
            with pytest.raises(OutcomeUnknown, match="silent for 2 s"):
                put(store, draft())
            with pytest.raises(Unavailable):
                store.head()
        finally:
            mortal.execute("ALTER SYSTEM RESET synchronous_standby_names")
            mortal.execute("SELECT pg_reload_conf()")
        assert store.head().size == 2
        assert len(walk(store)) == 2


class Line:
    """A wire to the server that can be cut when something certain passes along it."""

    def __init__(self, server: Server) -> None:
        self._target = str(server.folder / ".s.PGSQL.5432")
        self._door = socket.create_server(("127.0.0.1", 0))
        self._cut: tuple[bytes, Callable[[socket.socket, socket.socket, bytes], None]] | None = None
        self._then: bytes | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self) -> str:
        """A place where no ledger is yet."""
        port, schema = self._door.getsockname()[1], f"cut{next(_schemas)}"
        return f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable&schema={schema}"

    def cut_at(
        self, word: bytes, how: Callable[[socket.socket, socket.socket, bytes], None], then: bytes | None = None
    ) -> None:
        """Cut it at this word; and once more, before the other one is sent."""
        self._cut, self._then = (word, how), then

    def close(self) -> None:
        """Let nobody in any more."""
        with suppress(OSError):
            # Closing alone would let in whoever comes next: somebody waits at the door.
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                for pump in (self._there, self._back):
                    threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _there(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            while data := client.recv(1 << 16):
                if self._cut and self._cut[0] in data:
                    (_, how), self._cut = self._cut, (self._then, never_sent) if self._then else None
                    self._then = None
                    how(client, server, data)
                    break
                server.sendall(data)
            # Closing alone would leave the connection open for as long as the other thread reads from it.
            server.shutdown(socket.SHUT_RDWR)

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)


def never_sent(client: socket.socket, server: socket.socket, data: bytes) -> None:
    client.shutdown(socket.SHUT_RDWR)


def sent_without_an_answer(client: socket.socket, server: socket.socket, data: bytes) -> None:
    client.shutdown(socket.SHUT_RDWR)
    server.sendall(data)
    time.sleep(0.2)


def sent_late(client: socket.socket, server: socket.socket, data: bytes) -> None:
    """The client is gone, and its last words still travel."""
    client.shutdown(socket.SHUT_RDWR)
    time.sleep(0.5)
    server.sendall(data)
    time.sleep(0.2)


@pytest.fixture
def line() -> Iterator[Line]:
    with closing(Line(shared())) as made:
        yield made


@pytest.mark.parametrize("how", [sent_without_an_answer, sent_late])
def test_a_commit_whose_answer_is_lost_is_asked_after_and_stands_once(
    line: Line, how: Callable[[socket.socket, socket.socket, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = line.url()
    with closing(PostgresStore.create(url, genesis())) as store:
        claim = store.claim("r1", 60.0)
        line.cut_at(b"COMMIT\0", how)
        # Even when the commit is still under way: the question waits until that is over.
        [place] = put(store, draft(fence=("r1", claim.epoch)))
        assert place.line == store.entry(1).line
        line.cut_at(b"COMMIT\0", how)
        store.release(claim)
        # Whoever asked keeps nobody from writing.
        monkeypatch.setattr(session, "BUSY_S", 0.5)
        with closing(PostgresStore.open(url)) as other:
            assert other.claim("r1", 60.0).because == "resumed"
        assert len(walk(store)) == 2


def test_a_commit_is_unknown_where_nobody_can_be_asked_any_more(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not told as a server that cannot be reached: the entry is there."""
    monkeypatch.setattr(session, "BACK_S", -1.0)
    url = line.url()

    def vanish(client: socket.socket, server: socket.socket, data: bytes) -> None:
        line.close()
        sent_without_an_answer(client, server, data)

    with closing(PostgresStore.create(url, genesis())) as store:
        line.cut_at(b"COMMIT\0", vanish)
        with pytest.raises(OutcomeUnknown, match="may or may not be there"):
            put(store, draft())
    schema = Address.parse(url).schema
    with closing(PostgresStore.open(shared().url("postgres", more=f"&schema={schema}"))) as there:
        # Whoever reads the head finds it: its lock is given back with the commit.
        put(there, draft())
        assert len(walk(there)) == 3


def test_a_commit_that_was_lost_again_before_it_is_asked_after_is_not_acknowledged(line: Line) -> None:
    """As by a failover: the transaction's number says that it was committed, and its entries are not there."""
    url = line.url()
    begun = f"SET search_path = {Address.parse(url).schema}"
    lost = (
        f"{begun}; BEGIN; SELECT FROM head FOR UPDATE; DELETE FROM entries WHERE seq = 1;"
        " DELETE FROM head; INSERT INTO head SELECT * FROM before; COMMIT"
    )
    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM before%'"

    def lose(client: socket.socket, server: socket.socket, data: bytes) -> None:
        # Whoever takes it back stands in the queue for the lock before whoever asks.
        losing.append(beside.submit(shared().execute, lost))
        while not shared().execute(f"{waits} AND pid <> pg_backend_pid()"):
            pass
        sent_without_an_answer(client, server, data)

    losing: list[Any] = []
    with closing(PostgresStore.create(url, genesis())) as store, ThreadPoolExecutor(1) as beside:
        shared().execute(f"{begun}; CREATE TABLE before AS SELECT * FROM head")
        line.cut_at(b"COMMIT\0", lose)
        with pytest.raises(StoreError, match="put back to before entry 1"):
            put(store, draft())
        losing[0].result()
        assert "put back" in (store.broken or "")
        assert len(walk(store)) == 1


def test_a_commit_that_the_server_answers_with_a_rollback_is_not_acknowledged(line: Line) -> None:
    """As it answers where a statement of the turn has failed and nobody has heard of it."""

    def roll_back(client: socket.socket, server: socket.socket, data: bytes) -> None:
        server.sendall(data.replace(b"\x0bCOMMIT", b"\x0dROLLBACK"))
        while data := client.recv(1 << 16):
            server.sendall(data)

    with closing(PostgresStore.create(line.url(), genesis())) as store:
        line.cut_at(b"COMMIT\0", roll_back)
        with pytest.raises(StoreError, match=r"nothing was written to .* answered COMMIT with ROLLBACK"):
            put(store, draft())
        assert store.head().size == 1
        assert put(store, draft())[0].seq == 1


@pytest.mark.parametrize(("how", "size"), [(never_sent, 1), (sent_without_an_answer, 2), (sent_late, 2)])
def test_a_commit_that_cannot_be_asked_after_is_unknown_and_the_head_tells(
    line: Line,
    how: Callable[[socket.socket, socket.socket, bytes], None],
    size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "BACK_S", -1.0)
    url = line.url()
    with closing(PostgresStore.create(url, genesis())) as store:
        line.cut_at(b"COMMIT\0", how, then=b"FOR UPDATE")
        with pytest.raises(OutcomeUnknown, match="may or may not be there"):
            put(store, draft())
        line.cut_at(b"FOR UPDATE", never_sent)
        with pytest.raises(StoreError, match="cannot read"):
            store.head()
        # Even when the commit is still under way: asking for the head waits until that is over.
        assert store.head().size == size
        # Whoever asked keeps nobody from writing.
        monkeypatch.setattr(session, "BUSY_S", 0.5)
        with closing(PostgresStore.open(url)) as other:
            put(other, draft())
        put(store, draft())
        assert len(walk(store)) == size + 2


@pytest.mark.parametrize(("how", "made"), [(never_sent, False), (sent_without_an_answer, True), (sent_late, True)])
def test_whether_a_ledger_was_made_whose_commit_has_no_answer_is_told_when_that_is_over(
    line: Line, how: Callable[[socket.socket, socket.socket, bytes], None], made: bool
) -> None:
    """Who founds a ledger destroys its keys where there is none."""
    url = line.url()
    line.cut_at(b"COMMIT\0", how)
    with pytest.raises(OutcomeUnknown, match="may or may not be there"):
        PostgresStore.create(url, genesis())
    assert PostgresStore.exists(url) is made


@pytest.mark.parametrize("word", [b"INSERT INTO entries", b"FROM claims", b"COMMIT\0"])
def test_a_line_cut_before_the_commit_leaves_nothing_and_the_next_call_goes_on(line: Line, word: bytes) -> None:
    with closing(PostgresStore.create(line.url(), genesis())) as store:
        fence = ("r1", store.claim("r1", 60.0).epoch)
        line.cut_at(word, never_sent)
        with pytest.raises(NotWritten, match="nothing was written"):
            put(store, draft(fence=fence))
        assert store.head().size == 1
        assert put(store, draft(fence=fence))[0].seq == 1


@pytest.mark.parametrize("word", [b"FOR UPDATE", b"INSERT INTO entries", b"COMMIT\0"])
async def test_what_a_cut_line_kept_from_the_record_is_recorded_once_more(line: Line, word: bytes) -> None:
    with closing(PostgresStore.create(line.url(), genesis())) as store:
        writing = recorder.Recorder(store)
        line.cut_at(word, never_sent)
        assert (await writing.record(request("paid for"), actor="human:k7", run="r1")).seq == 1
        await writing.close()
        assert len(walk(store)) == 2


@pytest.mark.parametrize("word", [b"INSERT INTO claims", b"COMMIT\0"])
def test_a_claim_that_a_cut_line_kept_from_being_taken_is_taken_once_more(line: Line, word: bytes) -> None:
    with closing(PostgresStore.create(line.url(), genesis())) as store:
        line.cut_at(word, never_sent)
        claim = store.claim("r1", 60.0)
        assert (claim.epoch, claim.because) == (1, "new")
        store.renew(claim, 60.0)


def test_what_a_cut_line_kept_from_being_read_is_read_once_more(line: Line) -> None:
    with closing(PostgresStore.create(line.url(), genesis())) as store:
        line.cut_at(b"FROM entries", never_sent)
        assert len(list(store.lines())) == 1


def test_a_line_that_is_cut_again_is_an_error_and_the_next_call_goes_on(line: Line) -> None:
    with closing(PostgresStore.create(line.url(), genesis())) as store:
        line.cut_at(b"FROM entries", never_sent, then=b"FROM entries")
        with pytest.raises(Unavailable, match="cannot read"):
            list(store.lines())
        assert len(list(store.lines())) == 1


async def test_whoever_records_while_another_session_has_the_lock_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "INLINE_BELOW_S", 60.0)
    url = shared().url(shared().database())
    with closing(PostgresStore.create(url, genesis())) as store:
        writing = recorder.Recorder(store)
        for number in range(10):
            await writing.record(request(f"{number}"), actor="human:k7", run="r1")
        with psycopg.connect(url) as other:
            other.execute("SELECT size FROM hansard.head FOR UPDATE")
            last = asyncio.ensure_future(writing.record(request("last"), actor="human:k7", run="r1"))
            # Had the loop waited for the server, this session would keep its lock until the store gives up.
            await asyncio.sleep(0.2)
            assert not last.done()
        assert (await last).seq == store.head().size - 1
        await writing.close()


def test_a_server_that_has_nothing_to_tell_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_store, "LISTENING_POLL_S", 4.0)
    with closing(PostgresStore.create(shared().url(shared().database(), more="&patience=3"), genesis())) as store:
        assert store.wait(1, 4.5) == 1


@contextmanager
def pooled(server: Server, mode: str) -> Iterator[str]:
    """PgBouncer before a server; comes back where it listens."""
    need(POOLER is not None, "PgBouncer (apt install pgbouncer)")
    assert POOLER is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = server.folder / f"{mode}.ini"
    settings.write_text(
        f"[databases]\n* = host={server.folder} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
    )
    with (server.folder / f"{mode}.log").open("wb") as log:
        process = subprocess.Popen([POOLER, "-q", settings], stdout=log, stderr=log, **as_nobody_special())
    try:
        until = time.monotonic() + 30.0
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert time.monotonic() < until, (server.folder / f"{mode}.log").read_text()
            time.sleep(0.01)
        yield f"postgresql://postgres@127.0.0.1:{port}/{server.database()}?sslmode=disable"
    finally:
        process.terminate()
        process.wait(30.0)


def test_a_pooler_that_lends_one_session_to_many_is_refused_and_one_that_pools_sessions_is_not() -> None:
    with pooled(shared(), "session") as url, closing(PostgresStore.create(url, genesis())) as store:
        assert put(store, draft())[0].seq == 1
        assert store.head().size == 2
    with pooled(shared(), "transaction") as url:
        with pytest.raises(UsageError, match="pool_mode = session"):
            PostgresStore.create(url, genesis())
        database = url.partition("?")[0].rpartition("/")[2]
        assert not PostgresStore.exists(shared().url(database))
