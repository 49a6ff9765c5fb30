"""What outlives the process: everything acknowledged is there again; and what several processes may do at once."""

import threading
import time
from contextlib import suppress

from hansard.errors import Fenced, StoreError
from hansard.store.base import Query, Seal, Store, StoredCheckpoint
from hansard.store.conformance.bodies import LARGE, ODD
from hansard.store.conformance.sample import Bench, Clock, draft, fill, genesis, kinds, note, part, put, refused, walk


class Durable(Bench):
    """Tests of closing and opening again."""

    def reopen(self, store: Store, clock: Clock) -> Store:
        """Close the store and open the same log again."""
        raise NotImplementedError

    def test_a_store_that_is_opened_again_is_the_same(self) -> None:
        clock = Clock()
        store = self.make(genesis(), clock)
        try:
            seal = store.claim("seal", 60.0)
            parts = [part(body, name=f"p{at}") for at, body in enumerate((*ODD, LARGE))]
            store.append([[draft(parts=parts, causes=(0,))]], Seal(seal.epoch, note))
            fill(store, 300)
            store.add_checkpoint(StoredCheckpoint(size=300, note=note(300, by="added")), seal.epoch)
            before = _picture(store)
            bodies = [store.body(1, each.name) for each in parts]
            store.sync()
            store = self.reopen(store, clock)
            assert store.broken is None
            assert _picture(store) == before
            assert [store.body(1, each.name) for each in parts] == bodies
            assert store.epoch("seal") == seal.epoch
            assert store.repair() == []
        finally:
            store.close()

    def test_appending_goes_on_where_it_ended(self) -> None:
        clock = Clock()
        store = self.make(genesis(), clock)
        try:
            for size in (2, 3, 255, 256, 257, 300):
                fill(store, size)
                store = self.reopen(store, clock)
                put(store, draft(causes=(0,)))
            assert len(walk(store)) == 301
            assert store.effects(0) == [2, 3, 255, 256, 257, 300]
        finally:
            store.close()

    def test_an_erased_body_stays_erased(self) -> None:
        clock = Clock()
        store = self.make(genesis(), clock)
        try:
            put(store, draft(parts=[part(LARGE, name="a"), part(b"kept", name="b")]))
            store.erase((1, "a"))
            store = self.reopen(store, clock)
            assert store.body(1, "a") is None
            kept = store.body(1, "b")
            assert kept is not None
            assert kept.body == b"kept"
        finally:
            store.close()

    def test_a_claim_outlives_the_process_that_took_it(self) -> None:
        clock = Clock()
        store = self.make(genesis(), clock)
        try:
            old = store.claim("r1", 60.0)
            store = self.reopen(store, clock)
            with refused(Fenced):
                store.claim("r1", 60.0)
            store.release(old)
            store = self.reopen(store, clock)
            assert store.claim("r1", 60.0).epoch == old.epoch + 1
            [outcome] = store.append([[draft(fence=("r1", old.epoch))]])
            assert isinstance(outcome, Fenced)
        finally:
            store.close()

    def test_closing_twice_is_closing_once_and_a_closed_store_takes_nothing(self) -> None:
        with self.opened() as (store, _):
            put(store, draft())
            store.close()
            store.close()
            with refused(StoreError):
                store.append([[draft()]])
            with refused(StoreError):
                store.claim("r1", 60.0)

    def test_closing_while_others_read_tells_them_so_and_takes_nobody_down(self) -> None:
        with self.opened() as (store, _):
            fill(store, 300)
            threads = [threading.Thread(target=_read_until_closed, args=(store,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(0.01)
            store.close()
            for thread in threads:
                thread.join(10.0)
                assert not thread.is_alive(), "a reader learns that the store is closed"


def _read_until_closed(store: Store) -> None:
    with suppress(StoreError):
        while True:
            for entry in store.select(Query(limit=50)):
                store.body(entry.seq, "missing") if entry.body else store.head()


class Shared(Bench):
    """Tests of several handles on one log, as several processes have them."""

    def join(self, store: Store, clock: Clock) -> Store:
        """A second handle on the same log, with a clock of its own, while the first stays open."""
        raise NotImplementedError

    def test_handles_that_append_in_turn_make_one_chain(self) -> None:
        with self.opened() as (store, clock):
            other = self.join(store, clock)
            try:
                for at in range(10):
                    put(store, draft(data={"n": 2 * at}))
                    put(other, draft(data={"n": 2 * at + 1}, causes=(other.head().size - 1,)))
                assert [entry.data["n"] for entry in walk(store)[1:]] == list(range(20))
                assert walk(other) == walk(store)
            finally:
                other.close()

    def test_handles_that_append_at_once_make_one_chain(self) -> None:
        with self.opened() as (store, clock):
            other = self.join(store, clock)
            try:
                threads = [threading.Thread(target=_write, args=(each, 25)) for each in (store, other, store, other)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len(walk(store)) == 101
                assert store.repair() == []
            finally:
                other.close()

    def test_a_takeover_by_another_handle_fences_the_first(self) -> None:
        with self.opened() as (store, clock):
            other = self.join(store, clock)
            try:
                old = store.claim("r1", 0.2)
                put(store, draft(fence=("r1", old.epoch)))
                with refused(Fenced):
                    other.claim("r1", 60.0)
                self.pass_time(clock, 0.4)
                new = other.claim("r1", 60.0)
                [outcome] = store.append([[draft(fence=("r1", old.epoch))]])
                assert isinstance(outcome, Fenced)
                with refused(Fenced):
                    store.renew(old, 60.0)
                put(other, draft(fence=("r1", new.epoch)))
            finally:
                other.close()

    def test_a_takeover_by_another_handle_fences_the_first_also_where_that_one_repairs(self) -> None:
        with self.opened() as (store, clock):
            other = self.join(store, clock)
            try:
                old = store.claim("r1", 0.2)
                put(store, draft(fence=("r1", old.epoch)))
                self.pass_time(clock, 0.4)
                other.claim("r1", 60.0)
                assert store.repair() == []
                [outcome] = store.append([[draft(fence=("r1", old.epoch))]])
                assert isinstance(outcome, Fenced)
                with refused(Fenced):
                    store.renew(old, 60.0)
            finally:
                other.close()

    def test_a_takeover_of_the_seal_stops_the_first_sealer(self) -> None:
        with self.opened() as (store, clock):
            other = self.join(store, clock)
            try:
                old = store.claim("seal", 60.0)
                store.append([[draft()]], Seal(old.epoch, lambda size, root: note(size, by="first")))
                other.release(old)
                new = other.claim("seal", 60.0)
                store.append([[draft()]], Seal(old.epoch, lambda size, root: note(size, by="stale")))
                with refused(Fenced):
                    store.add_checkpoint(StoredCheckpoint(size=1, note=note(1)), old.epoch)
                other.append([[draft()]], Seal(new.epoch, lambda size, root: note(size, by="second")))
                assert [each.note for each in store.checkpoints()] == [note(2, by="first"), note(4, by="second")]
            finally:
                other.close()

    def test_a_handle_waits_for_what_another_appends(self) -> None:
        with self.opened() as (store, clock):
            other = self.join(store, clock)
            late = threading.Timer(0.1, lambda: put(other, draft()))
            try:
                begun = time.monotonic()
                late.start()
                assert store.wait(1, 30.0) == 2
                assert time.monotonic() - begun < 10.0
            finally:
                late.join()
                other.close()

    def test_a_handle_whose_clock_is_late_says_so_for_itself(self) -> None:
        with self.opened() as (store, clock):
            late = Clock(clock.now_s - 5.0)
            other = self.join(store, late)
            try:
                put(other, draft())
                put(store, draft())
                put(other, draft())
                assert kinds(walk(store)).count("log.clock") == 1
            finally:
                other.close()


def _write(store: Store, count: int) -> None:
    for _ in range(count):
        put(store, draft())


def _picture(store: Store) -> object:
    """All that must be the same afterwards."""
    nodes = [store.node(level, 0) for level in range(9)]
    marked = list(store.select(Query(kind="task.requested", newest_first=True)))
    return store.head(), walk(store), list(store.checkpoints()), nodes, marked, store.effects(0)
