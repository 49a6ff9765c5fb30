"""The PostgreSQL store against a real server: the suite for all stores, and what only a database can do to a ledger."""

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest

from hansard.errors import Fenced, HansardError, StoreError, Uncleaned, UsageError
from hansard.ledger.canonical import dump
from hansard.store.base import Draft, Query, Seal, Store, StoredCheckpoint
from hansard.store.conformance import Clock, SharedConformance
from hansard.store.conformance.sample import draft, fill, genesis, part, put, redacted, walk
from hansard.store.postgres import PostgresStore
from hansard.store.postgres import session as sessions
from hansard.store.postgres import store as stores
from hansard.store.postgres import turn as turns
from hansard.store.postgres.address import Address
from hansard.store.postgres.session import connect
from postgres import Server, shared
from specimens import Log
from store.forking import is_left_to_its_parent

SOURCE = Path(__file__).parents[2] / "src"
SECRET = "k3yp%40ss-w0rd"
_schemas = count()


@pytest.fixture(scope="module")
def server() -> Server:
    return shared()


@pytest.fixture(scope="module")
def database(server: Server) -> str:
    return server.database()


@pytest.fixture
def url(server: Server, database: str) -> str:
    """A place where no ledger is yet. A schema is all that a ledger owns, and cheaper than a database."""
    return server.url(database, more=f"&schema=t{next(_schemas)}")


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    made = PostgresStore.create(url, genesis())
    yield made
    made.close()


class TestPostgres(SharedConformance):
    @pytest.fixture(autouse=True)
    def _place(self, url: str) -> None:
        self.url = url

    def make(self, genesis: Draft, clock: Clock) -> Store:
        return PostgresStore.create(self.url, genesis, clock=clock)

    def reopen(self, store: Store, clock: Clock) -> Store:
        store.close()
        return PostgresStore.open(self.url, clock=clock)

    def join(self, store: Store, clock: Clock) -> Store:
        return PostgresStore.open(self.url, clock=clock)

    @pytest.mark.long
    def test_past_65536_entries_roots_and_proofs_hold(self) -> None:
        self.check_a_long_log()


def test_a_forked_child_leaves_the_sessions_to_its_parent(store: PostgresStore) -> None:
    put(store, draft())
    assert is_left_to_its_parent(store)
    put(store, draft())
    assert store.head().size == 3


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process with its own store."""
    front = (
        "import sys\n"
        "from hansard.store.conformance.sample import draft, part, put\n"
        "from hansard.store.postgres import PostgresStore\n"
        "store = PostgresStore.open(sys.argv[1])\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", front + code, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


def tables(server: Server, url: str) -> str:
    """Everything in the ledger's schema, to see whether anything was touched."""
    address = Address.parse(url)
    database = address.place.split("/")[3].split("?")[0]
    return str(
        server.execute(f"SELECT relname FROM pg_class WHERE relnamespace = '{address.schema}'::regnamespace", database)
    )


def tamper(url: str, statement: str) -> None:
    with psycopg.connect(Address.parse(url).conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path = {Address.parse(url).schema}")
        connection.execute(statement)


def test_processes_that_append_at_once_make_one_dense_chain(url: str, store: PostgresStore) -> None:
    code = (
        "for at in range(40):\n"
        "    places = put(store, draft(run=sys.argv[2], data={'n': at}), draft(run=sys.argv[2], causes=(~0,)))\n"
        "    print(*(place.seq for place in places))\n"
    )
    processes = [python(code, url, f"r{each}") for each in range(4)]
    told = [[int(seq) for seq in said(process).split()] for process in processes]
    entries = walk(store)
    assert sorted(seq for seqs in told for seq in seqs) == list(range(1, 321))
    for each, seqs in enumerate(told):
        assert [entry.seq for entry in entries if entry.run == f"r{each}"] == seqs
    assert store.repair() == []


def test_time_is_the_servers_and_is_read_when_the_turn_has_come(url: str, store: PostgresStore) -> None:
    # A writer that reads the clock before it waits would find itself behind the head, and record log.clock.
    with connect(Address.parse(url), writing=True) as blocker:
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM head FOR UPDATE")
        waiting = threading.Thread(target=put, args=(store, draft()))
        waiting.start()
        time.sleep(0.5)
        [(released,)] = blocker.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchall()
        blocker.execute("ROLLBACK")
        waiting.join()
    assert store.entry(1).ts >= released


def test_a_driver_that_was_replaced_is_fenced_by_the_servers_clock(url: str, store: PostgresStore) -> None:
    old = store.claim("r1", 0.2)
    put(store, draft(fence=("r1", old.epoch)))
    time.sleep(0.3)
    out = said(python("print(store.claim('r1', 60.0))", url))
    assert "epoch=2" in out
    assert "expired" in out
    [outcome] = store.append([[draft(fence=("r1", old.epoch))]])
    assert isinstance(outcome, Fenced)
    assert len(walk(store)) == 2


def test_the_claim_of_a_dead_process_is_taken_over_at_once(url: str, store: PostgresStore) -> None:
    assert "new" in said(python("print(store.claim('r1', 600.0))", url))
    assert store.claim("r1", 60.0).because == "dead"


def test_a_waiting_store_is_woken_by_another_process(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without LISTEN the next look would come long after the test has failed.
    monkeypatch.setattr(stores, "LISTENING_POLL_S", 60.0)
    other = python("sys.stdin.readline()\nput(store, draft())", url)
    late = threading.Timer(0.3, other.communicate, args=("go\n",))
    late.start()
    begun = time.monotonic()
    assert store.wait(1, 50.0) == 2
    assert time.monotonic() - begun < 30.0
    late.join()


def test_waiting_works_where_the_server_does_not_let_us_listen(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "listens", lambda reader, channel: False)
    late = threading.Timer(0.1, put, args=(store, draft()))
    late.start()
    assert store.wait(1, 30.0) == 2
    late.join()


@pytest.mark.parametrize("text", ["a\0b", "\u20ac", "\ud800"])
def test_what_the_server_could_not_look_for_is_not_there(store: PostgresStore, text: str) -> None:
    for query in (Query(run=text), Query(kind=text), Query(actor=text)):
        assert list(store.select(query)) == []


def test_ledgers_of_one_database_do_not_see_each_other(server: Server, store: PostgresStore, database: str) -> None:
    other = PostgresStore.create(server.url(database, more=f"&schema=t{next(_schemas)}"), genesis())
    put(other, draft())
    assert (store.head().size, other.head().size) == (1, 2)
    other.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_every_byte_comes_back_from_a_database_of_another_encoding(server: Server, encoding: str) -> None:
    server.execute(f"CREATE DATABASE {encoding.lower()} TEMPLATE template0 ENCODING '{encoding}'")
    store = PostgresStore.create(server.url(encoding.lower()), genesis())
    text = "\u0000 — ä \U0001f5f3"
    put(store, draft(data={"t": text}, parts=[part(text.encode())]))
    seal = Seal(store.claim("seal", 60.0).epoch, lambda size, root: f"— {text[2:]}\n")
    store.append([[draft(actor="lane:a")]], seal)
    body = store.body(1, "output")
    assert store.entry(1).data["t"] == text
    assert body is not None
    assert body.body == text.encode()
    assert [each.note for each in store.checkpoints()] == [f"— {text[2:]}\n"]
    assert [entry.seq for entry in store.select(Query(actor="lane:a"))] == [2]
    store.close()


def test_a_session_that_reads_can_write_nothing(url: str, store: PostgresStore) -> None:
    with connect(Address.parse(url), writing=False) as session:
        for statement in ("DELETE FROM entries", "UPDATE head SET size = 0", "INSERT INTO shared VALUES ('', '')"):
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                session.execute(statement)
    assert store.head().size == 1


def test_acknowledged_means_durable_whatever_the_database_says(server: Server) -> None:
    for default, wanted in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        name = server.database()
        server.execute(f"ALTER DATABASE {name} SET synchronous_commit = '{default}'")
        with connect(Address.parse(server.url(name)), writing=True) as session:
            assert session.execute("SHOW synchronous_commit").fetchall() == [(wanted,)]


def sessions_of(server: Server) -> set[int]:
    found = server.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'hansard'")
    return {pid for (pid,) in found}


def test_sessions_are_as_many_as_are_needed_at_once(server: Server, store: PostgresStore) -> None:
    def read() -> None:
        for _ in range(5):
            store.wait(1, 0.01)
            assert len(list(store.lines())) == 1

    others = len(sessions_of(server)) - 1
    for _ in range(8):
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    put(store, draft())
    assert len(sessions_of(server)) - others <= 4


def test_a_session_that_waited_is_used_again(server: Server, url: str, store: PostgresStore) -> None:
    store.wait(1, 0.01)
    before = sessions_of(server)
    with closing(PostgresStore.open(url)) as other:
        put(other, draft())
        assert store.head().size == 2
        assert before <= sessions_of(server)


def test_closing_ends_every_session_and_every_wait(
    server: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LISTENING_POLL_S", 0.1)
    put(store, draft())
    assert store.head().size == 2

    def wait() -> None:
        with suppress(StoreError):
            store.wait(2, 60.0)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    ours = sessions_of(server)
    store.close()
    waiting.join(20.0)
    assert not waiting.is_alive()
    until = time.monotonic() + 10.0
    while sessions_of(server) & ours and time.monotonic() < until:
        time.sleep(0.02)
    assert not sessions_of(server) & ours
    with pytest.raises(StoreError, match="closed"):
        store.head()


def test_opening_while_others_write_finds_nothing_wrong(url: str, store: PostgresStore) -> None:
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            put(store, draft())

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(40):
            with closing(PostgresStore.open(url)) as other:
                assert other.broken is None
    finally:
        ended.set()
        writing.join()


def test_a_refusal_of_the_server_does_not_quote_what_people_wrote(url: str, store: PostgresStore) -> None:
    tamper(url, "ALTER TABLE bodies ADD CONSTRAINT short CHECK (length(body) < 3)")
    with pytest.raises(StoreError, match=r'nothing was written.*"short"') as refused:
        put(store, draft(parts=[part(b"confidential")]))
    assert b"confidential".hex() not in str(refused.value)
    assert store.head().size == 1


def test_a_writer_that_freezes_in_its_turn_loses_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, other = PostgresStore.create(url, genesis()), PostgresStore.open(url)
    monkeypatch.setattr(sessions, "IDLE_S", 0.5)
    epoch = frozen.claim("seal", 60.0).epoch
    monkeypatch.undo()
    [before] = put(other, draft())

    def sign(size: int, root: bytes) -> str:
        put(other, draft(data={"n": 1}))
        return "a note of a log that is not so"

    with pytest.raises(StoreError, match="nothing was written"):
        frozen.append([[draft(data={"n": 2})]], Seal(epoch, sign))
    assert [entry.data for entry in walk(frozen)[before.seq + 1 :]] == [{"n": 1}]
    assert list(frozen.checkpoints()) == []
    put(frozen, draft())
    frozen.close()
    other.close()


@pytest.mark.parametrize(
    "write",
    [lambda store: put(store, draft()), lambda store: store.claim("r1", 1.0), PostgresStore.repair],
    ids=["append", "claim", "repair"],
)
def test_a_turn_that_does_not_come_is_given_up(
    url: str, write: Callable[[PostgresStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BUSY_S", 0.2)
    store = PostgresStore.create(url, genesis())
    with connect(Address.parse(url), writing=True) as blocker:
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM head FOR UPDATE")
        with pytest.raises(StoreError, match=r"nothing was written.*lock timeout"):
            write(store)
        blocker.execute("ROLLBACK")
    assert put(store, draft())[0].seq == 1
    store.close()


def test_the_columns_that_queries_use_cannot_be_edited(url: str, store: PostgresStore) -> None:
    put(store, draft(run="r7"))
    for column in ("run", "kind", "actor"):
        with pytest.raises(psycopg.errors.GeneratedAlways):
            tamper(url, f"UPDATE entries SET {column} = 'x'")


def test_an_erased_body_is_vacuumed(url: str, server: Server, store: PostgresStore, database: str) -> None:
    put(store, draft(parts=[part(b"small", name="a"), part(b"large" * 10_000, name="b")]))
    for name in ("a", "b"):
        store.erase((1, name))
    schema = Address.parse(url).schema
    statement = (
        f"SELECT relname, n_live_tup FROM pg_stat_user_tables WHERE schemaname = '{schema}' AND vacuum_count >= 2"
    )
    until = time.monotonic() + 10.0
    while not (found := server.execute(statement, database)) and time.monotonic() < until:
        time.sleep(0.05)
    assert sorted(found) == [("bodies", 0), ("shared", 0)]
    assert server.execute(f"SELECT count(*) FROM {schema}.shared", database) == [(0,)]


def test_a_body_that_could_not_be_vacuumed_is_gone_and_the_message_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BUSY_S", 0.2)
    with closing(PostgresStore.create(url, genesis())) as store, connect(Address.parse(url), writing=True) as blocker:
        put(store, draft(parts=[part(b"x")]))
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE bodies IN SHARE UPDATE EXCLUSIVE MODE")
        with pytest.raises(StoreError, match="the body is deleted, but"):
            store.erase((1, "output"))
        blocker.execute("ROLLBACK")
        assert store.body(1, "output") is None
        store.erase((1, "output"))


@pytest.mark.parametrize("role", ["postgres", "plain"])
def test_an_erased_body_that_an_old_snapshot_still_sees_is_told(
    server: Server, url: str, database: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "BUSY_S", 0.2)
    schema = Address.parse(url).schema
    if role == "plain":
        server.execute(f"CREATE ROLE {schema} LOGIN")
        server.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}", database)
        url = server.url(database, user=schema, more=f"&schema={schema}")
    with closing(PostgresStore.create(url, genesis())) as store, psycopg.connect(server.url(database)) as reader:
        put(store, draft(parts=[part(b"x")]))
        reader.execute("SET application_name = 'old one'")
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT 1").fetchone()
        told = rf"the body is deleted, but .*session {reader.info.backend_pid} \(old one\).*redact it once more"
        with pytest.raises(StoreError, match=told):
            store.erase((1, "output"))
        assert store.body(1, "output") is None
        reader.rollback()
        store.erase((1, "output"))


def test_whoever_reads_in_another_database_holds_up_no_erasing(
    server: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "BUSY_S", 0.2)
    put(store, draft(parts=[part(b"x")]))
    with psycopg.connect(server.url(server.database())) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT 1").fetchone()
        store.erase((1, "output"))
    assert store.body(1, "output") is None


def test_a_repair_that_erases_what_an_old_snapshot_still_sees_says_so_and_what_it_did(
    server: Server, url: str, database: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "BUSY_S", 0.2)
    gone = part(b"x")
    [place] = put(store, draft(parts=[gone]))
    put(store, redacted(place.seq, gone))
    tamper(url, "DELETE FROM head")
    with psycopg.connect(server.url(database)) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT 1").fetchone()
        with pytest.raises(Uncleaned, match=r"the body is deleted, but .* still holds it") as told:
            store.repair()
        assert told.value.done == [("derived", 1), ("redaction", 1)]
    assert store.body(place.seq, gone.name) is None
    assert store.repair() == []


@pytest.mark.parametrize("quiet", ["notice", "error"])
def test_who_may_delete_but_not_vacuum_is_told_so(server: Server, url: str, database: str, quiet: str) -> None:
    schema, name = Address.parse(url).schema, f"clerk_{quiet}_{database}"
    with closing(PostgresStore.create(url, genesis())) as owner:
        put(owner, draft(parts=[part(b"x")]))
    for statement in (
        f"CREATE ROLE {name} LOGIN",
        f"ALTER ROLE {name} SET client_min_messages = {quiet}",
        f"GRANT USAGE ON SCHEMA {schema} TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {name}",
    ):
        server.execute(statement, database)
    with closing(PostgresStore.open(server.url(database, user=name, more=f"&schema={schema}"))) as clerk:
        with pytest.raises(
            StoreError, match=rf"the body is deleted, but .*could not be vacuumed: .*VACUUM {schema}\.bodies"
        ):
            clerk.erase((1, "output"))
        assert clerk.body(1, "output") is None


EDIT = "UPDATE entries SET line = replace(encode(line, 'escape'), '\"n\":2', '\"n\":3')::bytea WHERE seq"
GONE = "the head row says nothing"
DERIVED = [
    ("UPDATE head SET size = size + 1", "the head row says 301, the last entry is 299"),
    ("DELETE FROM head", GONE),
    ("UPDATE head SET leaf = sha256('x')", "entry 299 is not the one that the head row names"),
    ("UPDATE head SET frontier = substring(frontier from 33)", "damaged"),
    ("UPDATE head SET frontier = frontier || sha256('x')", "damaged"),
    ("UPDATE head SET frontier = substring(frontier from 1 for 96) || sha256('x')", "do not give the tree"),
    ("UPDATE head SET frontier = sha256('x') || substring(frontier from 33)", "the nodes do not give the tree"),
    ("UPDATE head SET ts = ts + 1", "the head row names another time than entry 299"),
]
NODES = [
    ("UPDATE nodes SET hash = sha256('x')", "the nodes do not give the tree"),
    ("UPDATE nodes SET hash = ''", "a node is damaged"),
    ("DELETE FROM nodes", "the nodes do not give the tree"),
]
INSIDE = [
    ("DELETE FROM entries WHERE seq = 270", "entries 256 to 299 do not give the tree"),
    (f"{EDIT} = 270", "entries 256 to 299 do not give the tree"),
    ("UPDATE entries SET line = 'x' WHERE seq = 299", "entry 299 is not the one that the head row names"),
]
LAST = [
    ("DELETE FROM entries WHERE seq = 299", "the head row says 300, the last entry is 298"),
    (f"{EDIT} = 299", "entry 299 is not the one that the head row names"),
]


def tampered(url: str, statement: str) -> PostgresStore:
    with closing(PostgresStore.create(url, genesis())) as store:
        fill(store, 300)
    tamper(url, statement)
    return PostgresStore.open(url)


@pytest.mark.parametrize(("statement", "fault"), DERIVED + NODES + INSIDE + LAST)
def test_a_log_whose_end_was_tampered_with_is_read_and_not_extended(url: str, statement: str, fault: str) -> None:
    with closing(tampered(url, statement)) as store:
        assert fault in (store.broken or "")
        for write in (lambda: put(store, draft()), lambda: store.claim("r1", 1.0)):
            with pytest.raises(StoreError, match="may not be extended"):
                write()
        assert len(list(store.lines())) >= 299


@pytest.mark.parametrize("written_since", [0, 3, 8])
def test_a_log_that_was_put_back_while_it_was_open_is_not_extended(url: str, written_since: int) -> None:
    """As by a restore, or a failover to a server that lacked the last commits."""
    with closing(PostgresStore.create(url, genesis())) as store:
        fill(store, 5)
        with connect(Address.parse(url), writing=True) as session:
            row = session.execute("SELECT size, leaf, ts, frontier FROM head").fetchone()
            fill(store, 8)
            session.execute("DELETE FROM entries WHERE seq >= 5")
            session.execute("UPDATE head SET size = %s, leaf = %s, ts = %s, frontier = %s", row)
        with closing(PostgresStore.open(url)) as other:
            for _ in range(written_since):
                put(other, draft(run="r2"))
            for write in (lambda: put(store, draft()), lambda: store.claim("r1", 1.0)):
                with pytest.raises(StoreError, match="put back to before entry 7"):
                    write()
            assert "put back" in (store.broken or "")
            assert len(walk(store)) == 5 + written_since
            put(other, draft())


@pytest.mark.parametrize("written_since", [0, 1])
def test_whoever_only_writes_notices_that_what_it_wrote_last_was_put_back(
    url: str, store: PostgresStore, written_since: int
) -> None:
    put(store, draft())
    with connect(Address.parse(url), writing=True) as session:
        row = session.execute("SELECT size, leaf, ts, frontier FROM head").fetchone()
        put(store, draft())
        session.execute("DELETE FROM entries WHERE seq = 2")
        session.execute("UPDATE head SET size = %s, leaf = %s, ts = %s, frontier = %s", row)
    with closing(PostgresStore.open(url)) as other:
        for _ in range(written_since):
            put(other, draft(run="r2"))
    with pytest.raises(StoreError, match="put back to before entry 2"):
        put(store, draft())
    assert len(walk(store)) == 2 + written_since


@pytest.mark.parametrize("written_since", [0, 2, 3])
@pytest.mark.parametrize("look", [lambda store: store.wait(0, 0.0), lambda store: store.head().size])
def test_a_log_that_is_put_back_to_before_what_was_only_read_is_not_extended(
    url: str, look: Callable[[PostgresStore], int], written_since: int
) -> None:
    """Who follows a log goes by what others wrote, and would pass over whatever came in its place."""
    with closing(PostgresStore.create(url, genesis())) as store:
        fill(store, 5)
        with connect(Address.parse(url), writing=True) as session, closing(PostgresStore.open(url)) as other:
            row = session.execute("SELECT size, leaf, ts, frontier FROM head").fetchone()
            fill(other, 7)
            assert look(store) == 7
            session.execute("DELETE FROM entries WHERE seq >= 5")
            session.execute("UPDATE head SET size = %s, leaf = %s, ts = %s, frontier = %s", row)
        with closing(PostgresStore.open(url)) as other:
            for _ in range(written_since):
                put(other, draft(run="r2"))
            assert look(store) == 5 + written_since
            assert "put back to before entry 6" in (store.broken or "")
            with pytest.raises(StoreError, match="put back to before entry 6"):
                put(store, draft())
            assert len(walk(store)) == 5 + written_since


def test_a_log_that_lost_what_was_its_last_entry_while_it_was_open_is_not_extended(
    url: str, store: PostgresStore
) -> None:
    put(store, draft())
    with closing(PostgresStore.open(url)) as other:
        put(other, draft())
    tamper(url, "DELETE FROM entries WHERE seq = 1")
    with pytest.raises(StoreError, match="put back to before entry 1"):
        put(store, draft())
    assert len(list(store.lines())) == 2


OTHERWISE = [statement for statement, fault in DERIVED[:3] + LAST if fault != GONE]


@pytest.mark.parametrize("statement", OTHERWISE)
def test_repair_refuses_a_head_that_names_another_last_entry(url: str, statement: str) -> None:
    with closing(tampered(url, statement)) as store:
        fault = store.broken
        with pytest.raises(StoreError, match="is not the entry"):
            store.repair()
        assert (store.broken, len(list(store.lines())) >= 299) == (fault, True)


@pytest.mark.parametrize("statement", [statement for statement, _ in DERIVED if statement not in OTHERWISE])
def test_repair_rebuilds_a_head_from_the_lines(url: str, statement: str) -> None:
    with closing(tampered(url, statement)) as store:
        assert store.repair() == [("derived", 1)]
        assert store.broken is None
        put(store, draft())
        assert len(walk(store)) == 301


@pytest.mark.parametrize("statement", [statement for statement, fault in DERIVED if fault in ("damaged", GONE)])
def test_a_head_that_cannot_be_read_is_an_error_that_says_what_to_do(url: str, statement: str) -> None:
    with closing(tampered(url, statement)) as store, pytest.raises(StoreError, match="run: hansard ledger repair"):
        store.head()


@pytest.mark.parametrize("statement", [statement for statement, _ in INSIDE])
def test_repair_refuses_lines_that_do_not_hold_together(url: str, statement: str) -> None:
    with closing(tampered(url, statement)) as store:
        with pytest.raises(StoreError, match="entries are never changed"):
            store.repair()
        assert store.broken


def test_repair_refuses_a_log_whose_time_falls(url: str, store: PostgresStore) -> None:
    fill(store, 3)
    members = json.loads(store.entry(2).line)
    members["ts"] = store.entry(1).ts - 1
    tamper(
        url,
        f"UPDATE entries SET line = '{dump(members).decode()}' WHERE seq = 2;"
        " UPDATE head SET leaf = sha256('\\x00' || line) FROM entries WHERE seq = 2",
    )
    with pytest.raises(StoreError, match="entry 2 does not follow the one before"):
        store.repair()


def test_repair_refuses_lines_that_were_moved_though_they_follow_each_other(url: str, store: PostgresStore) -> None:
    fill(store, 3)
    tamper(url, "UPDATE entries SET seq = seq + 1000; DELETE FROM head")
    with pytest.raises(StoreError, match="entry 0 stands at 1000"):
        store.repair()


def test_repair_makes_no_empty_log_of_one_that_lost_its_entries(url: str, store: PostgresStore) -> None:
    tamper(url, "DELETE FROM entries; DELETE FROM head")
    with pytest.raises(StoreError, match="it has no entries"):
        store.repair()


@pytest.mark.parametrize("seq", [-1, 9999])
def test_repair_refuses_lines_that_stand_outside_of_the_log(url: str, store: PostgresStore, seq: int) -> None:
    fill(store, 3)
    tamper(url, f"INSERT INTO entries(seq, line) SELECT {seq}, line FROM entries WHERE seq = 1")
    with pytest.raises(StoreError, match=f"entry 1 stands at {seq}"):
        store.repair()
    tamper(url, f"DELETE FROM entries WHERE seq = {seq}")
    assert store.repair() == []


def test_repair_rebuilds_what_is_derived_from_the_lines(url: str, store: PostgresStore) -> None:
    fill(store, 600)
    put(store, draft(causes=(0, 5, 300)))
    [place] = put(store, draft(causes=(5,)))
    before = store.head(), store.node(8, 0), store.node(8, 1)
    for statement in (
        "DELETE FROM causes WHERE cause = 5",
        "INSERT INTO causes VALUES (7, 3), (512, 3), (602, 4), (-1, 4)",
        "DELETE FROM nodes WHERE idx = 1",
        "UPDATE nodes SET hash = sha256('x') WHERE idx = 0",
        "DELETE FROM head",
    ):
        tamper(url, statement)
    assert store.repair() == [("derived", 2 + 4 + 3 + 1)]
    assert (store.head(), store.node(8, 0), store.node(8, 1)) == before
    assert (store.effects(5), store.effects(3), store.effects(4)) == ([600, place.seq], [], [])
    assert store.repair() == []


def test_opening_what_is_not_there_creates_nothing(server: Server, database: str, url: str) -> None:
    with pytest.raises(UsageError, match="no ledger in schema"):
        PostgresStore.open(url)
    assert not PostgresStore.exists(url)
    schema = Address.parse(url).schema
    assert server.execute(f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'", database) == [(0,)]
    with pytest.raises(StoreError, match='database "nowhere" does not exist'):
        PostgresStore.open(server.url("nowhere"))
    with pytest.raises(StoreError, match="cannot reach"):
        PostgresStore.open("postgresql://127.0.0.1:1/x?connect_timeout=1")
    with pytest.raises(UsageError, match="colour"):
        PostgresStore.open(server.url(database, more="&colour=red"))


@pytest.mark.parametrize("columns", ["id integer", "name text, value text"])
def test_a_schema_of_somebody_else_is_neither_opened_nor_used(server: Server, url: str, columns: str) -> None:
    schema = Address.parse(url).schema
    tamper(url, f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.meta({columns})")
    before = tables(server, url)
    with pytest.raises(UsageError, match="no ledger in schema"):
        PostgresStore.open(url)
    with pytest.raises(StoreError, match="in use already"):
        PostgresStore.create(url, genesis())
    assert PostgresStore.exists(url)
    assert tables(server, url) == before


def test_a_layout_of_the_future_is_not_opened(url: str, store: PostgresStore) -> None:
    tamper(url, "UPDATE meta SET value = '2'")
    with pytest.raises(UsageError, match="has layout 2; this version of Hansard reads layout 1"):
        PostgresStore.open(url)


def test_of_many_that_create_one_ledger_at_once_one_succeeds(url: str) -> None:
    outcomes: list[object] = []

    def make() -> None:
        try:
            store = PostgresStore.create(url, genesis())
        except StoreError as refused:
            outcomes.append(refused)
        else:
            outcomes.append(store.head().size)
            store.close()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each for each in outcomes if isinstance(each, int)] == [1]
    assert all("in use already" in str(each) for each in outcomes if not isinstance(each, int))


def test_a_ledger_fits_in_an_empty_schema_that_somebody_prepared(url: str) -> None:
    tamper(url, f"CREATE SCHEMA {Address.parse(url).schema}")
    assert not PostgresStore.exists(url)
    PostgresStore.create(url, genesis()).close()
    assert PostgresStore.exists(url)


def test_the_password_opens_the_door_and_is_never_shown(server: Server, database: str) -> None:
    server.execute("CREATE ROLE guarded LOGIN PASSWORD 'k3yp@ss-w0rd'")
    server.execute(f"GRANT CREATE ON DATABASE {database} TO guarded")
    right = server.url(database, user="guarded", password=SECRET, more="&schema=guarded")
    store = PostgresStore.create(right, genesis())
    shown = [store.place, repr(store), *map(repr, vars(store).values())]
    server.execute("ALTER ROLE guarded PASSWORD 'another'")
    store.close()
    for again in (right, right + "&colour=red"):
        with pytest.raises(HansardError) as refused:
            PostgresStore.open(again)
        shown += traceback.format_exception(refused.value)
    assert "password authentication failed" in "".join(shown)
    assert "colour" in "".join(shown)
    assert not [each for each in shown if "k3yp" in each or "w0rd" in each]
    assert "guarded@" in store.place


def test_without_psycopg_the_line_that_installs_it_is_shown() -> None:
    code = (
        "from hansard.errors import MissingExtra\n"
        "try:\n    from hansard.store.postgres import PostgresStore\n"
        "except MissingExtra as missing:\n    print(missing)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "pip install 'hansard[postgres]'" in done.stdout


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        (["INSERT INTO entries(seq, line) SELECT seq + 9999, line FROM entries WHERE seq = 1"], "entry"),
        (["INSERT INTO entries(seq, line) SELECT -1, line FROM entries WHERE seq = 1"], "entry"),
        (["DELETE FROM causes WHERE seq = 300"], "causes"),
        (["INSERT INTO causes VALUES (300, 7)"], "causes"),
        (["INSERT INTO causes VALUES (9999, 7)"], "causes"),
        (["INSERT INTO causes VALUES (601, 7)"], "causes"),
        (["INSERT INTO causes VALUES (-1, 7)"], "causes"),
        (["ALTER TABLE entries DROP COLUMN run", "ALTER TABLE entries ADD COLUMN run text"], "columns"),
        (["UPDATE nodes SET hash = decode(repeat('00', 32), 'hex')"], "node"),
        (["DELETE FROM nodes"], "node"),
        (["INSERT INTO nodes VALUES (8, 7, '')"], "node"),
        (["INSERT INTO nodes VALUES (8, 2, '')"], "node"),
        (["INSERT INTO nodes VALUES (8, -1, '')"], "node"),
        (["INSERT INTO nodes VALUES (9, 0, '')"], "node"),
        (["INSERT INTO bodies VALUES (2 << 8 | 1, '', '', '', NULL)"], "body_unreferenced"),
        (["INSERT INTO bodies VALUES (9999 << 8, '', '', '', NULL)"], "body_unreferenced"),
        (["INSERT INTO bodies VALUES (601 << 8, '', '', '', NULL)"], "body_unreferenced"),
        (["INSERT INTO bodies VALUES (-1, '', '', '', NULL)"], "body_unreferenced"),
        (["INSERT INTO bodies VALUES (600 << 8 | 255, '', '', '', NULL)"], "body_unreferenced"),
        (["INSERT INTO shared VALUES ('', '')"], "body_unreferenced"),
        (["UPDATE head SET ts = ts + 1"], "head"),
        (["DELETE FROM head"], "head"),
        (["DELETE FROM entries WHERE seq = 600"], "head"),
        (["DELETE FROM entries WHERE seq = 512"], "head"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_rows_that_are_not_those_of_the_lines_are_found(url: str, statements: list[str], code: str) -> None:
    with closing(PostgresStore.create(url, genesis())) as store:
        put(store, *(draft(parts=[part(b"body")], causes=(0,)) for _ in range(600)))
        assert store.compare(lambda done, size: None) == ()
        for statement in statements:
            tamper(url, statement)
        found = store.compare(lambda done, size: None)
        assert {each.code for each in found} == {code}
        assert {each.grade for each in found} == {"structure"}


def test_a_checkpoint_that_is_found_under_another_size_is_told(url: str) -> None:
    with closing(PostgresStore.create(url, genesis())) as store:
        claim = store.claim("seal", 60)
        note = Log.begun().note()
        for text in (note, "no note at all"):
            store.add_checkpoint(StoredCheckpoint(size=1, note=text), claim.epoch)
        assert store.compare(lambda done, size: None) == ()
        # More of them than are read at once, and the last one is it.
        many = "SELECT 1, note FROM checkpoints, generate_series(1, 600) WHERE id = 1"
        tamper(url, f"INSERT INTO checkpoints(size, note) {many}")
        assert store.compare(lambda done, size: None) == ()
        tamper(url, "UPDATE checkpoints SET size = 0 WHERE id = (SELECT max(id) FROM checkpoints)")
        [found] = store.compare(lambda done, size: None)
        assert (found.code, found.message) == ("checkpoint_size", "[S3] a checkpoint of size 1 is kept under size 0")


def test_rows_are_compared_beside_whoever_writes_and_erases(url: str) -> None:
    with closing(PostgresStore.create(url, genesis())) as store, closing(PostgresStore.open(url)) as other:
        put(store, *(draft(parts=[part(b"body" * 5_000)], causes=(0,)) for _ in range(600)))

        def write(done: int, size: int) -> None:
            put(other, *(draft(parts=[part(b"more")], causes=(0,)) for _ in range(300)))
            other.erase((done + 1, "output"))

        assert store.compare(write) == ()
        assert store.head().size == 1201
