"""What coordination promises: fences, claims with rising epochs, and checkpoints that only the sealer may add."""

from hansard.errors import Fenced, HansardError
from hansard.store.base import Claim, Seal, StoredCheckpoint
from hansard.store.conformance.sample import Bench, draft, note, part, placed, put, refused, walk


class Fences(Bench):
    """Tests of drafts that may be written by the holder of a claim only."""

    def test_a_draft_with_the_newest_epoch_is_taken(self) -> None:
        with self.opened() as (store, _):
            claim = store.claim("r1", 60.0)
            put(store, draft(fence=("r1", claim.epoch)))
            assert len(walk(store)) == 2

    def test_a_draft_with_an_old_epoch_is_fenced_and_its_group_leaves_nothing(self) -> None:
        with self.opened() as (store, _):
            old = store.claim("r1", 60.0)
            store.release(old)
            new = store.claim("r1", 60.0)
            stale = [draft(parts=[part(b"lost")]), draft(fence=("r1", old.epoch))]
            outcomes = store.append([stale, [draft(fence=("r1", new.epoch))], [draft(fence=("r2", 1))]])
            assert isinstance(outcomes[0], Fenced)
            assert isinstance(outcomes[2], Fenced)
            assert [place.seq for place in placed(outcomes[1])] == [1]
            assert len(walk(store)) == 2

    def test_a_draft_without_a_fence_is_for_anybody(self) -> None:
        with self.opened() as (store, _):
            store.claim("r1", 60.0)
            put(store, draft(run="r1", kind="run.cancel_asked", actor="human:k7"))
            assert len(walk(store)) == 2

    def test_the_fence_stands_after_the_lease_ended_until_somebody_takes_over(self) -> None:
        with self.opened() as (store, clock):
            old = store.claim("r1", 0.2)
            self.pass_time(clock, 0.4)
            put(store, draft(fence=("r1", old.epoch)))
            store.claim("r1", 60.0)
            [outcome] = store.append([[draft(fence=("r1", old.epoch))]])
            assert isinstance(outcome, Fenced)


class Checkpoints(Bench):
    """Tests of seals inside an append, and of checkpoints added on their own."""

    def test_a_seal_signs_what_the_append_ends_with(self) -> None:
        with self.opened() as (store, _):
            claim = store.claim("seal", 60.0)
            asked: list[tuple[int, bytes]] = []

            def sign(size: int, root: bytes) -> str:
                asked.append((size, root))
                return note(size, root, by="ä\u2028\u0085")

            store.append([[draft()], [draft(causes=(99,))], [draft(), draft()]], Seal(claim.epoch, sign))
            head = store.head()
            assert head.size == 4
            assert asked == [(4, head.root)]
            assert list(store.checkpoints()) == [StoredCheckpoint(size=4, note=note(4, head.root, by="ä\u2028\u0085"))]

    def test_a_seal_that_has_nothing_to_say_keeps_nothing(self) -> None:
        with self.opened() as (store, _):
            claim = store.claim("seal", 60.0)
            [outcome] = store.append([[draft()]], Seal(claim.epoch, lambda size, root: None))
            assert len(placed(outcome)) == 1
            assert list(store.checkpoints()) == []

    def test_a_seal_that_is_not_due_is_not_asked_to_sign(self) -> None:
        with self.opened() as (store, _):
            claim = store.claim("seal", 60.0)
            for _ in range(4):
                store.append([[draft()]], Seal(claim.epoch, note, due=lambda size: size == 4))
            assert [each.size for each in store.checkpoints()] == [4]

    def test_a_seal_of_an_old_epoch_is_passed_over_and_the_entries_are_kept(self) -> None:
        with self.opened() as (store, _):
            old = store.claim("seal", 60.0)
            store.release(old)
            store.claim("seal", 60.0)
            [outcome] = store.append([[draft()]], Seal(old.epoch, lambda size, root: note(size)))
            assert len(placed(outcome)) == 1
            assert list(store.checkpoints()) == []

    def test_an_append_that_wrote_nothing_is_not_sealed(self) -> None:
        with self.opened() as (store, _):
            claim = store.claim("seal", 60.0)
            seal = Seal(claim.epoch, lambda size, root: note(size))
            assert store.append([], seal) == []
            [outcome] = store.append([[draft(causes=(99,))]], seal)
            assert isinstance(outcome, HansardError)
            assert list(store.checkpoints()) == []

    def test_checkpoints_come_in_the_order_of_writing_and_backwards(self) -> None:
        with self.opened() as (store, _):
            claim = store.claim("seal", 60.0)
            wanted = []
            for at in range(7):
                wanted.append(StoredCheckpoint(size=1, note=note(1, by=f"{at}")))
                store.add_checkpoint(wanted[-1], claim.epoch)
                store.append([[draft()]], Seal(claim.epoch, lambda size, root: note(size)))
                wanted.append(StoredCheckpoint(size=2 + at, note=note(2 + at)))
            assert list(store.checkpoints()) == wanted
            assert list(store.checkpoints(newest_first=True)) == wanted[::-1]

    def test_many_checkpoints_come_in_order(self) -> None:
        with self.opened() as (store, _):
            claim = store.claim("seal", 60.0)
            wanted = [note(1, by=f"{at}") for at in range(600)]
            for each in wanted:
                store.add_checkpoint(StoredCheckpoint(size=1, note=each), claim.epoch)
            assert [each.note for each in store.checkpoints()] == wanted
            assert next(iter(store.checkpoints(newest_first=True))).note == wanted[-1]
            assert len(list(store.checkpoints(newest_first=True))) == 600

    def test_a_checkpoint_of_an_old_epoch_is_fenced(self) -> None:
        with self.opened() as (store, _):
            old = store.claim("seal", 60.0)
            store.release(old)
            new = store.claim("seal", 60.0)
            for epoch in (old.epoch, new.epoch + 1):
                with refused(Fenced):
                    store.add_checkpoint(StoredCheckpoint(size=1, note=note(1)), epoch)
            store.add_checkpoint(StoredCheckpoint(size=1, note=note(1, by="new")), new.epoch)
            assert [each.note for each in store.checkpoints()] == [note(1, by="new")]


class Claims(Bench):
    """Tests of claim, renew, release and epoch."""

    def test_a_free_claim_is_taken_as_new(self) -> None:
        with self.opened() as (store, _):
            assert store.epoch("r1") == 0
            assert store.claim("r1", 60.0) == Claim(name="r1", epoch=1, because="new")
            assert store.epoch("r1") == 1
            assert store.epoch("r2") == 0

    def test_a_held_claim_is_refused_and_its_epoch_stays(self) -> None:
        with self.opened() as (store, _):
            store.claim("r1", 60.0)
            with refused(Fenced):
                store.claim("r1", 60.0)
            assert store.epoch("r1") == 1

    def test_an_expired_claim_is_taken_over(self) -> None:
        with self.opened() as (store, clock):
            store.claim("r1", 0.2)
            self.pass_time(clock, 0.4)
            assert store.claim("r1", 60.0) == Claim(name="r1", epoch=2, because="expired")

    def test_a_released_claim_is_resumed_with_a_higher_epoch(self) -> None:
        with self.opened() as (store, _):
            for epoch in (1, 2, 3):
                claim = store.claim("r1", 60.0)
                assert claim == Claim(name="r1", epoch=epoch, because="new" if epoch == 1 else "resumed")
                store.release(claim)
                assert store.epoch("r1") == epoch

    def test_renewing_keeps_the_claim_past_its_first_lease(self) -> None:
        with self.opened() as (store, clock):
            claim = store.claim("r1", 0.3)
            store.renew(claim, 60.0)
            self.pass_time(clock, 0.5)
            with refused(Fenced):
                store.claim("r1", 60.0)
            assert store.epoch("r1") == claim.epoch

    def test_renewing_one_claim_leaves_the_others_to_their_own_lease(self) -> None:
        with self.opened() as (store, clock):
            kept, _ = [store.claim(name, 0.3) for name in ("r1", "r2")]
            store.renew(kept, 60.0)
            self.pass_time(clock, 0.5)
            assert store.claim("r2", 60.0).because == "expired"

    def test_many_claims_are_renewed_at_once_but_for_those_that_somebody_took(self) -> None:
        with self.opened() as (store, clock):
            old, *kept = [store.claim(name, 0.3) for name in ("r1", "r2", "r3")]
            store.renew_all(kept, 60.0)
            self.pass_time(clock, 0.5)
            new = store.claim("r1", 0.3)
            store.renew_all([old, *kept], 60.0)
            self.pass_time(clock, 0.5)
            for claim in kept:
                with refused(Fenced):
                    store.claim(claim.name, 60.0)
            assert store.claim("r1", 60.0).epoch == new.epoch + 1

    def test_an_old_claim_can_be_neither_renewed_nor_released(self) -> None:
        with self.opened() as (store, clock):
            old = store.claim("r1", 0.2)
            self.pass_time(clock, 0.4)
            new = store.claim("r1", 60.0)
            with refused(Fenced):
                store.renew(old, 60.0)
            store.release(old)
            with refused(Fenced):
                store.claim("r1", 60.0)
            store.renew(new, 60.0)
            assert store.epoch("r1") == new.epoch

    def test_claims_of_different_names_do_not_touch_each_other(self) -> None:
        with self.opened() as (store, _):
            names = ("seal", "r1", "R_3-x", "a" * 64)
            held = [store.claim(name, 60.0) for name in names]
            store.release(held[1])
            assert [store.epoch(name) for name in names] == [1, 1, 1, 1]
            with refused(Fenced):
                store.claim("seal", 60.0)
            assert store.claim("r1", 60.0).epoch == 2

    def test_claims_leave_no_entry(self) -> None:
        with self.opened() as (store, _):
            before = store.head()
            claim = store.claim("r1", 60.0)
            store.renew(claim, 60.0)
            store.release(claim)
            assert store.head() == before
