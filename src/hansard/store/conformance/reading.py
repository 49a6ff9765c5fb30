"""What reading promises: lines by range, entries by number and by question, effects, and waiting for more."""

import random
import threading
import time

from hansard.errors import HansardError, UsageError
from hansard.ledger.entry import Entry
from hansard.store.base import Query, Store
from hansard.store.conformance.sample import START_S, Bench, Clock, draft, fill, put, refused, walk

START_US = int(START_S * 1_000_000)
FAR = 1 << 70
RUNS = ("", "r1", "r2", "R_3-x")
KINDS = ("task.requested", "task.attempted", "turn.taken")
ACTORS = ("coordinator", "lane:backend", "human:k7")


class Lines(Bench):
    """Tests of lines, entry and effects."""

    def test_lines_come_by_range(self) -> None:
        with self.opened() as (store, _):
            fill(store, 1_100)
            every = list(store.lines())
            assert len(every) == 1_100
            for start, stop in ((0, 0), (0, 1), (5, 9), (9, 5), (500, 1_030), (1_099, None), (1_100, None), (0, 9_999)):
                assert list(store.lines(start, stop)) == every[start:stop], (start, stop)
            assert list(store.lines(5_000, 6_000)) == []

    def test_lines_can_be_read_while_the_log_grows(self) -> None:
        with self.opened() as (store, _):
            fill(store, 600)
            seen = []
            for line in store.lines(0, 600):
                seen.append(line)
                if len(seen) % 200 == 0:
                    put(store, draft())
            assert seen == list(store.lines())[:600]

    def test_an_entry_comes_with_its_line(self) -> None:
        with self.opened() as (store, _):
            fill(store, 4)
            assert [store.entry(seq) for seq in range(4)] == walk(store)

    def test_an_entry_that_is_not_there_is_a_usage_error(self) -> None:
        with self.opened() as (store, _):
            for seq in (1, -1, 99, 1 << 62, 1 << 70):
                with refused(UsageError):
                    store.entry(seq)

    def test_the_entries_of_a_run_are_counted(self) -> None:
        with self.opened() as (store, _):
            put(store, draft(run="r1"), draft(run="r2"), draft(run="r1"))
            put(store, draft(run="r1"))
            assert [store.count(run) for run in ("r1", "r2", "r", "a\0b")] == [3, 1, 0, 0]

    def test_effects_are_the_entries_that_name_it_as_a_cause(self) -> None:
        with self.opened() as (store, _):
            put(store, draft(causes=(0,)), draft(causes=(~0,)), draft(causes=(~1, ~0)), draft())
            put(store, draft(causes=(0, 2)))
            assert [store.effects(seq) for seq in range(6)] == [[1, 5], [2, 3], [3, 5], [], [], []]
            assert store.effects(77) == []


class Selecting(Bench):
    """Tests of select against a filter that looks at everything."""

    def test_select_gives_what_a_look_at_every_entry_gives(self) -> None:
        with self.opened() as (store, clock):
            entries = _mixed(store, clock)
            for query in _queries(entries):
                assert list(store.select(query)) == _naive(entries, query), query

    def test_entries_are_found_by_the_longest_names_and_not_by_their_beginnings(self) -> None:
        with self.opened() as (store, _):
            run, kind, actor = "R" * 64, "a." + "b" * 62, "human:" + "k" * 122
            put(store, draft(run=run, kind=kind, actor=actor, causes=(0,), data={"t": '"' * 500}), draft())
            for query in (Query(run=run), Query(kind=kind), Query(actor=actor)):
                assert [entry.seq for entry in store.select(query)] == [1], query
            for query in (Query(run=run[:-1]), Query(kind=kind[:-1]), Query(actor=actor[:-1])):
                assert list(store.select(query)) == [], query

    def test_bounds_far_beyond_the_log_are_bounds_like_others(self) -> None:
        with self.opened() as (store, _):
            fill(store, 5)
            entries = walk(store)
            for query in (
                Query(before=FAR),
                Query(to_ts=FAR),
                Query(limit=FAR),
                Query(after=-FAR),
                Query(from_ts=-FAR),
            ):
                assert list(store.select(query)) == entries, query
            for query in (Query(after=FAR), Query(from_ts=FAR), Query(before=-FAR), Query(to_ts=-FAR)):
                assert list(store.select(query)) == [], query
            for level, index in ((0, FAR), (8, FAR), (90, 0)):
                with refused(HansardError):
                    store.node(level, index)
            assert store.effects(FAR) == []
            assert list(store.lines(FAR)) == []
            assert list(store.lines(0, FAR)) == [entry.line for entry in entries]

    def test_select_gives_more_than_a_page_in_both_directions(self) -> None:
        with self.opened() as (store, _):
            fill(store, 1_300)
            for newest_first in (False, True):
                query = Query(kind="task.requested", newest_first=newest_first)
                seqs = [entry.seq for entry in store.select(query)]
                assert seqs == (list(range(1_299, 0, -1)) if newest_first else list(range(1, 1_300)))
                limited = [entry.seq for entry in store.select(Query(limit=1_025, newest_first=newest_first))]
                assert len(limited) == 1_025

    def test_select_can_be_left_early_and_asked_again(self) -> None:
        with self.opened() as (store, _):
            fill(store, 20)
            found = store.select(Query(run="r1"))
            assert next(found).seq == 1
            put(store, draft())
            assert [entry.seq for entry in store.select(Query(after=18))] == [19, 20]


class Waiting(Bench):
    """Tests of wait."""

    def test_wait_returns_at_once_when_the_log_is_larger_already(self) -> None:
        with self.opened() as (store, _):
            fill(store, 3)
            begun = time.monotonic()
            assert store.wait(2, 30.0) == 3
            assert time.monotonic() - begun < 5.0

    def test_wait_ends_when_its_time_is_over(self) -> None:
        with self.opened() as (store, _):
            begun = time.monotonic()
            assert store.wait(1, 0.15) == 1
            assert store.wait(1, 0.0) == 1
            assert 0.14 < time.monotonic() - begun < 10.0

    def test_wait_wakes_when_another_thread_appends(self) -> None:
        with self.opened() as (store, _):
            late = threading.Timer(0.1, lambda: put(store, draft()))
            begun = time.monotonic()
            late.start()
            try:
                assert store.wait(1, 30.0) == 2
                assert time.monotonic() - begun < 10.0
            finally:
                late.join()


def _mixed(store: Store, clock: Clock) -> list[Entry]:
    """A log in which every condition separates something from something."""
    chance = random.Random(7)
    for _ in range(40):
        clock.advance(chance.choice((0.0, 0.5, 1.0)))
        count = chance.randint(1, 30)
        store.append(
            [
                [draft(run=chance.choice(RUNS), kind=chance.choice(KINDS), actor=chance.choice(ACTORS))]
                for _ in range(count)
            ]
        )
    return walk(store)


def _queries(entries: list[Entry]) -> list[Query]:
    last, end = len(entries), entries[-1].ts
    middle = entries[last // 2].ts
    plain = [Query(), Query(newest_first=True), Query(run=""), Query(run="nobody"), Query(kind="run.ended")]
    plain += [Query(limit=0), Query(limit=1, newest_first=True), Query(after=last), Query(before=0), Query(after=-1)]
    plain += [Query(from_ts=0), Query(to_ts=0), Query(from_ts=end), Query(to_ts=end), Query(from_ts=end + 1)]
    plain += [Query(from_ts=middle), Query(to_ts=middle), Query(from_ts=middle, to_ts=middle + 1)]
    chance = random.Random(11)
    mixed = [
        Query(
            run=chance.choice((None, *RUNS)),
            kind=chance.choice((None, *KINDS)),
            actor=chance.choice((None, None, *ACTORS)),
            from_ts=chance.choice((None, None, chance.randint(START_US, end))),
            to_ts=chance.choice((None, None, chance.randint(START_US, end))),
            after=chance.choice((-1, chance.randrange(last))),
            before=chance.choice((None, chance.randrange(last + 5))),
            limit=chance.choice((None, None, 1, 5)),
            newest_first=chance.random() < 0.5,
        )
        for _ in range(80)
    ]
    return plain + mixed


def _naive(entries: list[Entry], query: Query) -> list[Entry]:
    found = [
        entry
        for entry in (reversed(entries) if query.newest_first else entries)
        if query.run in (None, entry.run)
        and query.kind in (None, entry.kind)
        and query.actor in (None, entry.actor)
        and (query.from_ts is None or entry.ts >= query.from_ts)
        and (query.to_ts is None or entry.ts < query.to_ts)
        and entry.seq > query.after
        and (query.before is None or entry.seq < query.before)
    ]
    return found[: query.limit]
