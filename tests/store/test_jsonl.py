import json
import os
import stat
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hansard.errors import Fenced, StoreError, UsageError
from hansard.ledger.verify import Options, verify
from hansard.store.base import Query, Seal, StoredCheckpoint
from hansard.store.conformance.sample import Clock, draft, fill, genesis, kinds, note, part, put, redacted, walk
from hansard.store.jsonl import JsonlStore
from hansard.store.jsonl import claims as claims_module
from hansard.store.jsonl.claims import CHANGES
from hansard.store.jsonl.files import Paths, lines_back, lines_from, whole_end

ODD = "\u2028 \u2029 \u0085 \x0b \x0c \x1c \r ä"


@pytest.fixture
def path(quick_folder: Path) -> Path:
    return quick_folder / "log.jsonl"


def made(path: Path, count: int = 6) -> JsonlStore:
    """A ledger with a few bodies, some of them odd."""
    store = JsonlStore.create(path, genesis(), clock=Clock())
    for at in range(1, count):
        parts = [part(f"{at} {ODD}".encode(), name="b"), part(b"\xff%d" % at, name="a")]
        put(store, draft(data={"n": at, "t": ODD}, parts=parts, causes=(at - 1,)))
    return store


def reopened(path: Path) -> JsonlStore:
    return JsonlStore.open(path, clock=Clock())


def check_sound(path: Path) -> None:
    """What the verifier, which shares no code with the store, says of the files."""
    report = verify(path, Options(deep=True, jobs=1))
    assert report.ok, report.findings
    assert report.findings == ()


def changes(store: JsonlStore) -> list[Callable[[], object]]:
    """Everything that changes a ledger."""
    return [
        lambda: store.append([[draft()]]),
        lambda: store.claim("r1", 60.0),
        lambda: store.erase((1, "b")),
        lambda: store.repair(),
        lambda: store.add_checkpoint(StoredCheckpoint(size=1, note=note(1)), 0),
    ]


def cut(path: Path, size: int) -> None:
    with path.open("rb+") as file:
        file.truncate(size)


def last_line(path: Path) -> bytes:
    return path.read_bytes().split(b"\n")[-2]


def test_the_files_are_those_of_the_layout_and_for_their_owner_alone(path: Path) -> None:
    store = made(path)
    seal = store.claim("seal", 60.0)
    store.append([[draft()]], Seal(seal.epoch, note))
    store.erase((1, "a"))
    store.close()
    names = ["log.bodies.jsonl", "log.checkpoints.jsonl", "log.claims.json", "log.index", "log.jsonl", "log.lock"]
    assert sorted(each.name for each in path.parent.iterdir()) == names
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}


def test_lines_are_split_at_line_feeds_only_and_written_as_the_layout_says(path: Path) -> None:
    with_text, with_bytes = part(ODD.encode(), name="z"), part(b"\xff\x00", name="b", media='application/x-"q"')
    store = JsonlStore.create(path, genesis(), clock=Clock())
    put(store, draft(data={"t": ODD}, parts=[with_text, with_bytes]))
    seal = store.claim("seal", 60.0)
    store.add_checkpoint(StoredCheckpoint(size=2, note=note(2, by=ODD)), seal.epoch)
    store.close()
    paths = Paths.of(path)
    entries, bodies, checkpoints = (each.read_bytes().split(b"\n") for each in (path, paths.bodies, paths.checkpoints))
    assert [len(entries), len(bodies), len(checkpoints)] == [3, 3, 2]
    assert {entries[-1], bodies[-1], checkpoints[-1]} == {b""}
    assert [json.loads(line) for line in bodies[:-1]] == [
        {"b64": "/wA=", "media": with_bytes.media, "part": "b", "salt": with_bytes.salt.hex(), "seq": 1},
        {"media": with_text.media, "part": "z", "salt": with_text.salt.hex(), "seq": 1, "text": ODD},
    ]
    assert json.loads(checkpoints[0]) == {"note": note(2, by=ODD)}
    for line in (*entries[:-1], *bodies[:-1], *checkpoints[:-1]):
        assert json.dumps(json.loads(line), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == line
    store = reopened(path)
    assert [each.note for each in store.checkpoints(newest_first=True)] == [note(2, by=ODD)]
    store.close()


def test_the_verifier_accepts_what_the_store_wrote_and_refuses_it_tampered(path: Path) -> None:
    store = made(path, 300)
    put(store, redacted(7, part(b"", name="a"), committed=store.entry(7).body["a"]))
    store.erase((7, "a"))
    store.close()
    check_sound(path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"n":8,', b'"n":9,', 1))
    assert not verify(path, Options(jobs=1)).ok


def test_a_last_line_torn_at_any_byte_is_cut_off_and_nothing_acknowledged_is_lost(path: Path) -> None:
    store = made(path, 2)
    put(store, draft(parts=[part(b"x", name="a"), part(b"y", name="b")]))
    store.close()
    files = {each: each.read_bytes() for each in path.parent.iterdir()}
    whole = path.read_bytes()
    begins = len(whole) - len(last_line(path)) - 1
    for at in range(begins, len(whole)):
        for name, content in files.items():
            name.write_bytes(content)
        if at % 2:
            Paths.of(path).index.unlink()
        cut(path, at)
        store = reopened(path)
        assert store.broken is None
        put(store, draft(data={"n": 99}))
        store.close()
        store = reopened(path)
        entries = walk(store)
        store.close()
        assert b"\n".join(entry.line for entry in entries[:2]) + b"\n" == whole[:begins]
        repaired = [dict(entry.data) for entry in entries if entry.kind == "log.repaired"]
        torn = [{"count": at - begins, "what": "torn_tail"}] if at > begins else []
        assert repaired == [*torn, {"count": 2, "what": "leftover_bodies"}]
        assert entries[-1].data == {"n": 99}
        if at % 16 == 0:
            check_sound(path)


def test_a_whole_last_line_is_never_cut(path: Path) -> None:
    made(path).close()
    before = path.read_bytes()
    reopened(path).close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("gone", [1, 40, 2_000])
def test_an_end_that_a_checkpoint_covers_was_never_torn_and_nothing_is_cut_for_it(path: Path, gone: int) -> None:
    store = made(path, 9)
    seal = store.claim("seal", 60.0)
    store.add_checkpoint(StoredCheckpoint(size=9, note=note(9)), seal.epoch)
    store.close()
    whole = path.read_bytes()
    cut(path, len(whole) - gone)
    before = {each: each.read_bytes() for each in path.parent.glob("*.jsonl")}
    store = reopened(path)
    assert "a checkpoint of 9 entries is kept" in str(store.broken)
    for change in changes(store):
        with pytest.raises(StoreError, match="may not be extended"):
            change()
    store.close()
    assert {each: each.read_bytes() for each in path.parent.glob("*.jsonl")} == before
    path.write_bytes(whole)
    store = reopened(path)
    assert store.broken is None
    assert all(store.body(entry.seq, part) for entry in walk(store) for part in entry.body)
    store.close()


def test_bodies_of_a_write_that_never_reached_the_entries_are_cut_off(path: Path) -> None:
    made(path, 3).close()
    bodies = Paths.of(path).bodies
    whole = bodies.read_bytes()
    left = b'{"media":"a/b","part":"p","salt":"' + b"0" * 64 + b'","seq":3,"text":"x"}\n'
    for tail, count in ((left[:1], 1), (left[:-1], 1), (left, 1), (left + left[:50], 2), (left * 3, 3)):
        bodies.write_bytes(whole + tail)
        store = reopened(path)
        assert bodies.read_bytes() == whole + tail, "nothing is given up before somebody writes"
        store.release(store.claim("r", 1.0))
        assert dict(walk(store)[-1].data) == {"count": count, "what": "leftover_bodies"}
        assert bodies.read_bytes() == whole
        assert store.body(2, "b") is not None
        store.close()
        check_sound(path)
        cut(path, path.read_bytes()[:-1].rfind(b"\n") + 1)


def test_a_torn_checkpoint_is_cut_off(path: Path) -> None:
    store = made(path, 3)
    seal = store.claim("seal", 60.0)
    for size in (1, 2):
        store.add_checkpoint(StoredCheckpoint(size=size, note=note(size)), seal.epoch)
    store.close()
    file = Paths.of(path).checkpoints
    whole = file.read_bytes()
    kept = whole.index(b"\n") + 1
    cut(file, len(whole) - 1)
    store = reopened(path)
    assert [each.size for each in store.checkpoints()] == [1]
    store.add_checkpoint(StoredCheckpoint(size=4, note=note(4)), seal.epoch)
    assert dict(walk(store)[-1].data) == {"count": len(whole) - kept - 1, "what": "torn_tail"}
    assert [each.size for each in store.checkpoints()] == [1, 4]
    store.close()


def test_opening_twice_records_a_torn_tail_once(path: Path) -> None:
    made(path, 3).close()
    with path.open("ab") as file:
        file.write(b'{"actor":"torn')
    for at in range(3):
        store = reopened(path)
        store.claim(f"r{at}", 1.0)
        store.close()
    store = reopened(path)
    assert kinds(walk(store)).count("log.repaired") == 1
    store.close()


Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, Damage] = {
    "edited": lambda lines: [*lines[:2], lines[2].replace(b'"n":2', b'"n":7'), *lines[3:]],
    "dropped": lambda lines: lines[:2] + lines[3:],
    "swapped": lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
    "doubled": lambda lines: [*lines[:2], lines[1], *lines[2:]],
    "blank": lambda lines: [*lines[:3], b"", *lines[3:]],
    "garbage": lambda lines: [*lines[:3], b"\xff\x00 garbage", *lines[4:]],
    "too long": lambda lines: [*lines[:3], b"x" * 300_000, *lines[4:]],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_log_can_be_read_but_not_extended_and_is_left_as_it_is(path: Path, name: str) -> None:
    made(path, 7).close()
    *lines, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(DAMAGES[name](lines)) + b"\n{torn")
    Paths.of(path).index.unlink()
    before = {each: each.read_bytes() for each in path.parent.iterdir() if each.suffix in (".jsonl", ".json")}
    for _ in range(2):
        store = reopened(path)
        assert store.broken
        assert store.entry(1).data["n"] == 1
        body = store.body(1, "b")
        assert body is not None
        for change in changes(store):
            with pytest.raises(StoreError, match=r"may not be extended: .*entry [0-9]"):
                change()
        store.close()
    assert {each: each.read_bytes() for each in before} == before


def test_behind_an_edited_entry_the_others_can_still_be_looked_at(path: Path) -> None:
    made(path, 7).close()
    path.write_bytes(path.read_bytes().replace(b'"n":2,', b'"n":7000,', 1))
    store = reopened(path)
    assert store.broken == "entry 3 does not follow the one before: its prev is the hash of another line"
    assert [entry.data.get("n") for entry in store.select(Query())] == [None, 1, 7000, 3, 4, 5, 6]
    assert [entry.seq for entry in store.select(Query(run="r1", newest_first=True, limit=2))] == [6, 5]
    assert store.effects(4) == [5]
    store.close()
    with JsonlStoreReader(path) as reader:
        assert reader.broken
        assert reader.head().size == 7


def test_a_log_whose_time_falls_is_broken_though_its_chain_holds(path: Path) -> None:
    store = made(path, 3)
    head = store.head()
    store.close()
    line = draft().sketch.line(causes=(), prev=head.leaf.hex().encode(), seq=3, ts=head.ts - 1)
    with path.open("ab") as file:
        file.write(line + b"\n")
    store = reopened(path)
    assert store.broken == "the time of entry 3 is before that of the one before"
    assert store.entry(3).line == line
    store.close()


def test_a_body_that_was_damaged_is_named_and_the_others_are_found(path: Path) -> None:
    made(path, 9).close()
    bodies = Paths.of(path).bodies
    lines = bodies.read_bytes().split(b"\n")
    lines[7] = lines[7][:-4] + b'\xff"}' + b" "
    lines[8] = b"garbage" + lines[8]
    bodies.write_bytes(b"\n".join(lines))
    store = reopened(path)
    for seq in (1, 2, 3, 6, 7, 8):
        found = [store.body(seq, part) for part in ("a", "b")]
        assert [each and each.body for each in found] == [b"\xff%d" % seq, f"{seq} {ODD}".encode()]
    with pytest.raises(StoreError, match=r"part b of entry 4 is damaged"):
        store.body(4, "b")
    assert store.body(5, "a") is None
    store.close()


def test_among_damaged_lines_the_bodies_that_are_whole_are_found(path: Path) -> None:
    made(path, 9).close()
    bodies = Paths.of(path).bodies
    first, *between, last = bodies.read_bytes().splitlines(keepends=True)
    bodies.write_bytes(first + b"".join(b"garbage" + line for line in between) + last)
    with closing(reopened(path)) as store:
        places = [(seq, part) for seq in range(1, 9) for part in ("a", "b")]
        assert [place for place in places if store.body(*place)] == [(1, "a"), (8, "b")]


def test_a_bodies_file_that_ends_in_something_else_is_damage(path: Path) -> None:
    made(path, 3).close()
    bodies = Paths.of(path).bodies
    whole = bodies.read_bytes() + b"something else\n"
    bodies.write_bytes(whole)
    store = reopened(path)
    assert store.broken
    assert "something else than bodies" in store.broken
    store.close()
    assert bodies.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"SQLite format 3\0", b'{"a":1}\n', b"\xff" * 64])
def test_a_foreign_file_is_refused_and_nothing_is_created_beside_it(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for reading in (False, True):
        with pytest.raises(UsageError, match="not a Hansard ledger" if content else "is empty, and no ledger"):
            JsonlStore.open(path, reading=reading)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == content


def test_a_file_whose_first_entry_is_torn_is_not_emptied(path: Path) -> None:
    made(path, 2).close()
    cut(path, 40)
    with pytest.raises(StoreError, match="no complete entry"):
        JsonlStore.open(path)
    assert path.stat().st_size == 40


def test_a_missing_file_is_a_usage_error_and_stays_missing(path: Path) -> None:
    with pytest.raises(UsageError, match="no ledger at"):
        JsonlStore.open(path)
    assert list(path.parent.iterdir()) == []


def test_a_name_of_another_form_and_an_unknown_durability_are_usage_errors(path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.jsonl"):
        JsonlStore.create(path.with_suffix(".db"), genesis())
    with pytest.raises(UsageError, match="durability"):
        JsonlStore.create(path, genesis(), durability="never")  # type: ignore[arg-type]


def test_a_ledger_is_not_made_where_one_is_or_where_it_cannot_be(path: Path) -> None:
    made(path).close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="exists already"):
        JsonlStore.create(path, genesis())
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="folder"):
        JsonlStore.create(path.parent / "nowhere" / "log.jsonl", genesis())


def test_a_new_ledger_does_not_take_over_what_a_deleted_one_left(path: Path) -> None:
    store = made(path)
    store.claim("seal", 60.0)
    store.close()
    path.unlink()
    with pytest.raises(StoreError, match=r"bodies\.jsonl exists already; .*log\.jsonl does not: move it away"):
        JsonlStore.create(path, genesis())
    Paths.of(path).bodies.unlink()
    Paths.of(path).checkpoints.write_bytes(b"of an earlier one\n")
    with pytest.raises(StoreError, match=r"checkpoints\.jsonl exists already; .*log\.jsonl does not: move it away"):
        JsonlStore.create(path, genesis())
    Paths.of(path).checkpoints.unlink()
    store = JsonlStore.create(path, genesis())
    assert store.epoch("seal") == 0
    assert len(walk(store)) == 1
    store.close()


def test_an_erased_body_leaves_no_byte_in_the_folder(path: Path) -> None:
    store = JsonlStore.create(path, genesis(), clock=Clock())
    put(store, draft(parts=[part(b"the secret word", name="a"), part(b"kept", name="b")]))
    salt = store.body(1, "a")
    assert salt is not None
    put(store, redacted(1, part(b"", name="a"), committed=store.entry(1).body["a"]))
    store.erase((1, "a"))
    put(store, draft(parts=[part(b"later")]))
    for secret in (b"the secret word", salt.salt.hex().encode()):
        assert not [each for each in path.parent.iterdir() if secret in each.read_bytes()]
    store.close()
    check_sound(path)


@pytest.mark.parametrize("order", [(0, 2, 1, 3, 4), (0, 1, 1, 2, 3)])
def test_a_body_is_erased_wherever_somebody_put_it(path: Path, order: tuple[int, ...]) -> None:
    with closing(JsonlStore.create(path, genesis(), clock=Clock())) as store:
        for at in range(5):
            put(store, draft(parts=[part(b"the secret word" if at == 1 else b"kept")]))
    bodies = Paths.of(path).bodies
    lines = bodies.read_bytes().splitlines(keepends=True)
    bodies.write_bytes(b"".join(lines[at] for at in order))
    with closing(reopened(path)) as store:
        store.erase((2, "output"))
    assert bodies.read_bytes() == b"".join(lines[at] for at in order if at != 1)


def test_a_body_that_may_be_the_one_that_is_to_be_erased_is_not_passed_over(path: Path) -> None:
    made(path).close()
    bodies = Paths.of(path).bodies
    lines = bodies.read_bytes().splitlines(keepends=True)
    assert b'"seq":2,' in lines[3]
    for at in (3, 6):
        lines[at] = lines[at].replace(b'"salt":"', b'"salt":"z')
    bodies.write_bytes(b"".join(lines))
    where = sum(map(len, lines[:3]))
    with closing(reopened(path)) as store:
        with pytest.raises(StoreError, match=rf"part b of entry 2 may still be in .*whose body lies at byte {where} "):
            store.erase((1, "a"), (2, "b"))
        assert bodies.read_bytes() == b"".join(lines[1:]), "the other one is gone"
        store.erase((3, "a"))
    assert bodies.read_bytes() == b"".join([*lines[1:4], *lines[5:]])


def test_what_a_crash_left_of_a_rewriting_is_deleted_on_opening(path: Path) -> None:
    made(path).close()
    spare = path.parent / "log.bodies.jsonl.tmp"
    spare.write_bytes(b"may hold what was erased since")
    reopened(path).close()
    assert not spare.exists()


def test_a_file_that_something_else_changed_is_not_written_to(path: Path) -> None:
    for harm, what in ((_append_to, "something else writes"), (_delete, "was deleted, moved or replaced")):
        store = made(path, 3)
        before = store.head()
        harm(path)
        with pytest.raises(StoreError, match=what):
            store.append([[draft()]])
        assert store.broken
        assert store.head() == before
        store.close()
        for each in path.parent.iterdir():
            each.unlink()


def _append_to(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"intruder\n")


def _delete(path: Path) -> None:
    path.unlink()


def test_a_change_of_a_claim_is_a_line_however_many_claims_there_were(path: Path) -> None:
    store = JsonlStore.create(path, genesis(), clock=Clock())
    kept, claims = store.claim("kept", 60), Paths.of(path).claims
    for number in range(CHANGES // 2 - 1):
        store.release(store.claim(f"run {number}", 60))
    before = claims.read_bytes()
    store.release(store.claim("run 1", 60))
    added = claims.read_bytes().removeprefix(before)
    assert added.count(b"\n") == 2
    assert len(added) < 400
    for _ in range(4):
        store.renew(kept, 60)
    assert claims.read_bytes().count(b"\n") < 5, "from time to time the file is written anew"
    store.close()
    # Whoever was killed within a line has changed nothing, and is no damage.
    whole = claims.read_bytes()
    claims.write_bytes(whole + b'{"run 1":{"epo')
    store = JsonlStore.open(path)
    assert (store.epoch("kept"), store.epoch("run 1")) == (1, 2)
    again = store.claim("run 1", 60)
    assert (again.epoch, again.because) == (3, "resumed")
    store.renew(again, 60)
    with closing(JsonlStore.open(path, reading=True)) as beside:
        assert (beside.epoch("run 0"), beside.epoch("run 1")) == (1, 3)
    # Nor is a file that somebody took away meanwhile.
    claims.unlink()
    store.renew(again, 60)
    store.close()
    with closing(JsonlStore.open(path)) as store:
        assert (store.epoch("run 0"), store.epoch("run 1")) == (1, 3)


def test_claims_that_nobody_holds_are_forgotten_before_long_and_no_epoch_comes_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "CHANGES", 20)
    monkeypatch.setattr(claims_module, "KEPT", 10)
    store, file = JsonlStore.create(path, genesis(), clock=Clock()), Paths.of(path).claims
    held, longest = store.claim("held", 60), 0
    replaced = store.claim("often", 0)
    for _ in range(6):
        store.release(store.claim("often", 0))
    for number in range(300):
        store.release(store.claim(f"run {number}", 60))
        longest = max(longest, file.stat().st_size)
    assert longest < 10_000
    assert b"run 0" not in file.read_bytes()
    # Who holds one is never forgotten, and who was replaced stays replaced.
    store.renew(held, 60)
    store.renew_all([held, replaced], 60)
    store.release(replaced)
    with pytest.raises(Fenced):
        store.renew(replaced, 60)
    [outcome] = store.append([[draft(fence=("often", replaced.epoch))]])
    assert isinstance(outcome, Fenced)
    store.close()
    with closing(JsonlStore.open(path, clock=Clock())) as store:
        assert store.claim("often", 60).epoch > 7
        assert store.claim("run 0", 60).epoch > 1
        assert store.epoch("held") == held.epoch
    with closing(JsonlStore.open(path, reading=True)) as beside:
        assert beside.epoch("run 1") >= 7


def test_a_damaged_claims_file_is_named_with_what_to_do(path: Path) -> None:
    made(path).close()
    claims = Paths.of(path).claims
    for content in (b"", b"[]", b'{"seal":1}', b'{"seal":{"epoch":"x"}}', b"\xff"):
        claims.write_bytes(content)
        with pytest.raises(StoreError, match=r"claims\.json is damaged .*delete it"):
            reopened(path)
    claims.unlink()
    reopened(path).close()


def test_a_checkpoint_must_say_its_size(path: Path) -> None:
    store = made(path)
    seal = store.claim("seal", 60.0)
    for text in ("no checkpoint", note(4), note(3) + "\ud800"):
        with pytest.raises(UsageError):
            store.add_checkpoint(StoredCheckpoint(size=3, note=text), seal.epoch)
    assert list(store.checkpoints()) == []
    store.close()


def test_a_damaged_checkpoint_is_named_when_it_is_reached(path: Path) -> None:
    store = made(path)
    seal = store.claim("seal", 60.0)
    store.add_checkpoint(StoredCheckpoint(size=1, note=note(1)), seal.epoch)
    with Paths.of(path).checkpoints.open("ab") as file:
        file.write(b'{"note":"x","also":1}\n')
    found = store.checkpoints()
    assert next(found).size == 1
    with pytest.raises(StoreError, match="checkpoint at byte"):
        next(found)
    store.close()


class JsonlStoreReader:
    """A store opened for reading, as a context."""

    def __init__(self, path: Path) -> None:
        self._store = JsonlStore.open(path, reading=True)

    def __enter__(self) -> JsonlStore:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


def test_a_reader_beside_the_writer_sees_what_it_writes_and_changes_nothing(path: Path) -> None:
    store = made(path, 3)
    seal = store.claim("seal", 60.0)
    with JsonlStoreReader(path) as reader:
        assert walk(reader) == walk(store)
        assert reader.broken is None
        fill(store, 700)
        parts = [part(b"new")]
        put(store, draft(parts=parts, causes=(3,)))
        store.add_checkpoint(StoredCheckpoint(size=701, note=note(701)), seal.epoch)
        assert walk(reader) == walk(store)
        assert reader.head() == store.head()
        assert [reader.node(level, 1) for level in range(9)] == [store.node(level, 1) for level in range(9)]
        assert reader.effects(3) == [700]
        assert reader.body(700, "output") == store.body(700, "output")
        assert [each.size for each in reader.checkpoints()] == [701]
        assert reader.epoch("seal") == seal.epoch
        assert reader.wait(700, 1.0) == 701
        store.erase((700, "output"))
        assert reader.body(700, "output") is None
        for change in changes(reader):
            with pytest.raises(StoreError, match="opened for reading"):
                change()
    store.close()


def test_a_reader_needs_nothing_but_the_entries(path: Path) -> None:
    made(path, 5).close()
    for each in path.parent.iterdir():
        if each != path:
            each.unlink()
    with JsonlStoreReader(path) as reader:
        assert len(walk(reader)) == 5
        assert reader.body(1, "a") is None
        assert list(reader.checkpoints()) == []
        assert reader.epoch("seal") == 0
        reader.sync()
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_passes_over_a_torn_tail_and_reads_on_when_it_is_whole(path: Path) -> None:
    made(path, 4).close()
    whole, last = path.read_bytes(), last_line(path)
    cut(path, len(whole) - 10)
    with JsonlStoreReader(path) as reader:
        assert reader.head().size == 3
        assert reader.broken is None
        path.write_bytes(whole)
        assert reader.head().size == 4
        assert reader.entry(3).line == last
    assert path.read_bytes() == whole


def test_a_reader_sees_that_the_writer_took_something_back(path: Path) -> None:
    store = made(path, 4)
    with JsonlStoreReader(path) as reader:
        kept = path.read_bytes()
        put(store, draft(data={"n": 4}))
        assert reader.head().size == 5
        store.close()
        cut(path, len(kept))
        assert reader.head().size == 4
        store = reopened(path)
        put(store, draft(data={"n": 5}), draft(data={"n": 6}))
        assert walk(reader) == walk(store)
        assert reader.broken is None
    store.close()


def test_a_released_claim_of_this_very_process_is_free_and_a_held_one_is_not(path: Path) -> None:
    store = made(path)
    claim = store.claim("r1", 60.0)
    with pytest.raises(Fenced, match=f"process {os.getpid()}"):
        store.claim("r1", 60.0)
    store.release(claim)
    assert store.claim("r1", 60.0).because == "resumed"
    store.close()


def test_lines_are_read_alike_from_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lengths = [0, 1, 5, 262_143, 262_144, 262_145, 0, 0, 600_000, 3]
    lines = [bytes([97 + at]) * length for at, length in enumerate(lengths)]
    path.write_bytes(b"\n".join(lines) + b"\ntorn")
    with path.open("rb") as file:
        fd = file.fileno()
        end = whole_end(fd)
        assert end == path.stat().st_size - 4
        forwards = list(lines_from(fd, 0, end, 1 << 20))
        assert [line for _, line in forwards] == lines
        assert list(lines_back(fd, end, 1 << 20)) == forwards[::-1]
        assert list(lines_back(fd, 0, 1 << 20)) == []


@pytest.mark.parametrize("name", ["entries", "bodies", "checkpoints"])
def test_a_foreign_line_of_any_length_is_told_without_being_read_into_memory(path: Path, name: str) -> None:
    store = made(path)
    seal = store.claim("seal", 60.0)
    store.add_checkpoint(StoredCheckpoint(size=1, note=note(1)), seal.epoch)
    store.close()
    file = getattr(Paths.of(path), name)
    at = file.stat().st_size
    with file.open("rb+") as into:
        into.seek(at + (64 << 20))
        into.write(b"\n")
    tracemalloc.start()
    try:
        store = reopened(path)
        if name == "checkpoints":
            for newest_first in (False, True):
                with pytest.raises(StoreError, match=rf"line at byte {at} is longer than .*run: hansard verify"):
                    list(store.checkpoints(newest_first=newest_first))
        else:
            assert f"at byte {at}" in str(store.broken)
            assert store.body(5, "b") is not None
        store.close()
        report = verify(path, Options(deep=True, jobs=1))
        assert not report.ok
        assert any("longer than" in each.message or "more than" in each.message for each in report.findings)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
