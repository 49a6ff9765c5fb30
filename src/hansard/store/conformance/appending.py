"""What append promises: order, dense places, one chain, time that never falls, groups that stand or fall together."""

import threading

from hansard.errors import HansardError, UsageError
from hansard.ledger.entry import GENESIS, MAX_CAUSES, MAX_LINE
from hansard.ledger.merkle import leaf_hash
from hansard.store.base import Placed, Seal, Store
from hansard.store.conformance.sample import START_S, Bench, draft, fill, kinds, placed, put, walk

START_US = int(START_S * 1_000_000)


class Appending(Bench):
    """Tests of append."""

    def test_a_new_log_holds_its_genesis_and_nothing_else(self) -> None:
        with self.opened() as (store, _):
            [first] = walk(store)
            assert first.kind == GENESIS
            assert first.ts == START_US
            assert store.broken is None
            assert store.place

    def test_entries_get_dense_places_in_the_order_of_the_groups(self) -> None:
        with self.opened() as (store, _):
            outcomes = store.append([[draft(data={"n": 0}), draft(data={"n": 1})], [draft(data={"n": 2})]])
            assert [[place.seq for place in placed(outcome)] for outcome in outcomes] == [[1, 2], [3]]
            assert [entry.data["n"] for entry in walk(store)[1:]] == [0, 1, 2]

    def test_the_answer_names_the_leaf_and_the_time_of_each_entry(self) -> None:
        with self.opened() as (store, clock):
            clock.advance(0.25)
            places = put(store, draft(), draft(run="r2", actor="lane:backend"))
            entries = walk(store)[1:]
            assert [place[:4] for place in places] == [
                (entry.seq, entry.ts, leaf_hash(entry.line), entry.line) for entry in entries
            ]
            assert {place.ts for place in places} == {START_US + 250_000}

    def test_an_append_of_nothing_writes_nothing(self) -> None:
        with self.opened() as (store, _):
            before = store.head()
            assert store.append([]) == []
            assert store.head() == before

    def test_time_follows_the_clock_and_never_falls(self) -> None:
        with self.opened() as (store, clock):
            seen = []
            for seconds in (2.0, 0.0, -0.75, 0.5, 3.0):
                clock.advance(seconds)
                seen.append(put(store, draft())[0].ts - START_US)
            assert seen == [2_000_000, 2_000_000, 2_000_000, 2_000_000, 4_750_000]
            assert "log.clock" not in kinds(walk(store))

    def test_a_clock_that_falls_behind_is_recorded_once_in_each_episode(self) -> None:
        with self.opened() as (store, clock):
            put(store, draft())
            clock.advance(-5.0)
            places = put(store, draft(), draft())
            assert [place.seq for place in places] == [3, 4]
            put(store, draft())
            clock.advance(6.0)
            put(store, draft())
            clock.advance(-3.0)
            put(store, draft())
            entries = walk(store)
            clocks = [entry for entry in entries if entry.kind == "log.clock"]
            assert [entry.seq for entry in clocks] == [2, 7]
            assert clocks[0].data == {"behind_us": 5_000_000, "wall_us": START_US - 5_000_000}
            assert clocks[1].data["behind_us"] == 3_000_000

    def test_a_late_clock_is_recorded_even_when_the_append_before_it_failed(self) -> None:
        with self.opened() as (store, clock):
            epoch = store.claim("seal", 60.0).epoch
            clock.advance(-5.0)
            _fail_to_sign(store, epoch)
            put(store, draft())
            assert kinds(walk(store)) == [GENESIS, "log.clock", "task.requested"]

    def test_causes_may_point_into_the_group_before_its_places_are_known(self) -> None:
        with self.opened() as (store, clock):
            put(store, draft())
            put(store, draft(), draft(causes=(~0,)), draft(causes=(0, ~1, ~0)), draft(causes=(1,)))
            assert [entry.causes for entry in walk(store)[2:]] == [(), (2,), (0, 2, 3), (1,)]
            clock.advance(-5.0)
            put(store, draft(), draft(causes=(~0, 1, 1)))
            assert walk(store)[-1].causes == (1, 7)

    def test_a_group_with_a_bad_cause_is_refused_and_leaves_nothing(self) -> None:
        with self.opened() as (store, _):
            before = store.head()
            for bad in ([2], [1], [~0], [~1], [~7], [0, 1 << 60]):
                [outcome] = store.append([[draft(causes=bad)]])
                assert isinstance(outcome, UsageError), bad
                assert str(outcome)
            [outcome] = store.append([[draft(), draft(), draft(causes=(~2,))]])
            assert isinstance(outcome, UsageError)
            assert store.head() == before
            assert len(walk(store)) == 1

    def test_a_refused_group_does_not_stop_the_others_of_its_batch(self) -> None:
        with self.opened() as (store, _):
            bad = [draft(data={"n": 8}), draft(data={"n": 9}, causes=(99,))]
            outcomes = store.append([[draft(data={"n": 1})], bad, [draft(data={"n": 2}, causes=(1,))], bad])
            assert [isinstance(outcome, HansardError) for outcome in outcomes] == [False, True, False, True]
            assert [entry.data["n"] for entry in walk(store)[1:]] == [1, 2]

    def test_an_entry_of_the_greatest_length_is_taken_and_one_byte_more_is_refused(self) -> None:
        with self.opened() as (store, _):
            put(store, draft(data={"t": ""}))
            short = len(walk(store)[1].line)
            [fits] = put(store, draft(data={"t": "x" * (MAX_LINE - short)}))
            assert len(store.entry(fits.seq).line) == MAX_LINE
            before = store.head()
            [outcome] = store.append([[draft(), draft(data={"t": "x" * (MAX_LINE - short + 1)})]])
            assert isinstance(outcome, UsageError)
            assert store.head() == before

    def test_a_thousand_causes_are_taken_and_one_more_is_refused(self) -> None:
        with self.opened() as (store, _):
            fill(store, MAX_CAUSES + 1)
            [place] = put(store, draft(causes=range(MAX_CAUSES)))
            assert store.entry(place.seq).causes == tuple(range(MAX_CAUSES))
            before = store.head()
            [outcome] = store.append([[draft(causes=range(MAX_CAUSES + 1))]])
            assert isinstance(outcome, UsageError)
            assert store.head() == before

    def test_odd_characters_in_data_come_back_byte_for_byte(self) -> None:
        with self.opened() as (store, _):
            text = '\u2028\u2029\u0085\u0000\r\n"\\\x7f\ufeff\U0001f5f3 ä'
            [place] = put(store, draft(data={"t": text}))
            assert store.entry(place.seq).data["t"] == text
            assert walk(store)[1].data["t"] == text

    def test_threads_that_append_at_once_get_dense_places(self) -> None:
        with self.opened() as (store, _):
            found: list[Placed] = []

            def write(run: str) -> None:
                for at in range(20):
                    found.extend(put(store, draft(run=run, data={"n": at}), draft(run=run, causes=(~0,))))

            threads = [threading.Thread(target=write, args=(f"r{each}",)) for each in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            entries = walk(store)
            assert sorted(place.seq for place in found) == list(range(1, 161))
            assert {place.seq: place.leaf for place in found} == {
                entry.seq: leaf_hash(entry.line) for entry in entries[1:]
            }
            assert all(entry.causes in ((), (entry.seq - 1,)) for entry in entries)

    def test_a_signer_that_fails_leaves_nothing_behind(self) -> None:
        with self.opened() as (store, _):
            epoch = store.claim("seal", 60.0).epoch
            before = store.head()
            _fail_to_sign(store, epoch)
            assert store.head() == before
            assert list(store.checkpoints()) == []
            put(store, draft(causes=(0,)))
            assert len(walk(store)) == 2
            assert store.effects(0) == [1]


class SignerFailed(Exception):
    """What the failing signer raises."""


def _fail_to_sign(store: Store, epoch: int) -> None:
    def sign(size: int, root: bytes) -> str | None:
        raise SignerFailed(f"no key for size {size}")

    try:
        store.append([[draft(causes=(0,))]], Seal(epoch, sign))
    except (SignerFailed, HansardError):
        return
    raise AssertionError("the signer failed and the append did not say so")
