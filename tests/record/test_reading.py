"""The one way to read a body: what is stored is taken only if it opens its commitment, whatever was done to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forging import database
from hansard.domain.fact import Body
from hansard.domain.work import RunRequested
from hansard.errors import StoreError, Tampered
from hansard.ledger.entry import Entry
from hansard.record.reading import MARK, came_of, newly, read_body, read_for_list, read_text
from hansard.record.recorder import Step, record_now
from hansard.store.base import Store
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = SqliteStore.create(tmp_path / "x.db", genesis_draft())
    yield made
    made.close()


def asked(store: Store, text: str = "what was asked") -> Entry:
    fact = RunRequested(mode="request", surface="python", request=Body.text(text))
    [recorded] = record_now(store, [Step(fact, "human:test")], run="r1")
    return store.entry(recorded.seq)


def test_an_entry_comes_of_what_it_names_first_and_of_nothing_else(store: Store) -> None:
    entry = asked(store)
    assert came_of({3: "the question"}, entry._replace(causes=(3, 4))) == "the question"
    for causes in ((), (4, 3)):
        with pytest.raises(Tampered, match="does not come of"):
            came_of({3: "the question"}, entry._replace(causes=causes))


def test_what_was_recorded_is_read(store: Store) -> None:
    entry = asked(store, "half a pair: \ud800")
    stored = read_body(store, entry, "request")
    assert stored is not None
    assert stored.body == "half a pair: \ud800".encode("utf-8", "surrogatepass")
    assert read_text(store, entry, "request") == read_for_list(store, entry, "request") == "half a pair: \ud800"


def test_a_new_entry_that_cannot_be_read_hides_no_other(store: Store) -> None:
    first, spoiled, last = (asked(store).seq for _ in range(3))
    with database(Path(store.place)) as found:
        found.execute("UPDATE entries SET line = json_remove(line, '$.ts') WHERE seq = ?", (spoiled,))
    kinds = ("run.ended", "run.requested")
    assert [entry.seq for entry in newly(store, kinds, -1, last + 1)] == [first, last]
    assert [entry.seq for entry in newly(store, kinds, first, last)] == []
    store.close()
    with pytest.raises(StoreError):
        newly(store, kinds, -1, last + 1)


def test_a_part_that_is_erased_or_that_there_never_was_is_none(store: Store) -> None:
    entry = asked(store)
    store.erase((entry.seq, "request"))
    for part in ("request", "plan", "no such part"):
        assert read_body(store, entry, part) is None
        assert read_for_list(store, entry, part) is None


@pytest.mark.parametrize(
    "change",
    ["body = cast('another' as blob)", "media = 'text/html'", "salt = zeroblob(32)", "salt = x''", "media = ''"],
)
def test_what_was_put_in_its_place_is_refused_by_name(store: Store, change: str) -> None:
    entry = asked(store)
    with database(Path(store.place)) as into:
        assert into.execute(f"UPDATE bodies SET {change}").rowcount
    for read in (read_body, read_text):
        with pytest.raises(
            Tampered, match=r"the request of entry 1 in .*x\.db is not what was recorded.* hansard verify"
        ):
            read(store, entry, "request")
    assert read_for_list(store, entry, "request") == MARK


def test_a_body_in_json_lines_is_opened_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    made = JsonlStore.create(path, genesis_draft())
    entry = asked(made)
    made.close()
    bodies = tmp_path / "x.bodies.jsonl"
    bodies.write_text(bodies.read_text().replace("what was asked", "what was never"))
    again = JsonlStore.open(path, reading=True)
    with pytest.raises(Tampered):
        read_body(again, entry, "request")
    again.close()
