import os
import shutil
import sqlite3
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hansard.errors import Fenced, StoreError, UsageError
from hansard.record.recovery import refuse_rollback
from hansard.record.sealer import Sealer
from hansard.seal import anchors
from hansard.seal.genesis import found
from hansard.store.base import Query, Store
from hansard.store.memory import MemoryStore
from hansard.store.sqlite import SqliteStore
from ledgers import Clock, draft, memory, request
from sealing import ORIGIN, Log, say, sealed_to, sizes

DAY_S = 86_400


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log.found(tmp_path / "log")


@pytest.fixture
def store(log: Log) -> Iterator[Store]:
    opened = log.open()
    yield opened
    opened.close()


def anchored(log: Log) -> int | None:
    found = anchors.read(log.keys)
    return found.checkpoint.size if found else None


def lease_end(log: Log) -> float:
    with closing(sqlite3.connect(log.path)) as ledger:
        [(until_us,)] = ledger.execute("SELECT until_us FROM claims WHERE name = 'seal'")
    return float(until_us) / 1_000_000


class TestCheckpoints:
    def test_every_checkpoint_is_signed_by_the_identity_and_the_epoch_key(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 3, sealer=sealer)
        log.clock.now += 11
        say(store, 1, sealer=sealer)
        assert sizes(store) == [4, 5]
        assert sealed_to(store) == (5, [])

    def test_a_commit_is_signed_after_256_entries_or_ten_seconds(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 1, sealer=sealer)
        say(store, 255, sealer=sealer)
        assert sizes(store) == [2]
        say(store, 1, sealer=sealer)
        assert sizes(store) == [2, 258]
        log.clock.now += 9
        say(store, 1, sealer=sealer)
        assert sizes(store) == [2, 258]
        log.clock.now += 1
        say(store, 1, sealer=sealer)
        assert sizes(store) == [2, 258, 260]

    def test_a_checkpoint_on_demand_covers_everything_and_is_made_once(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 1, sealer=sealer)
        say(store, 5, sealer=sealer)
        made = sealer.checkpoint()
        assert made.size == 7
        assert sealer.checkpoint() == made == sealer.newest
        assert sizes(store) == [2, 7]
        assert sealed_to(store) == (7, [])
        assert anchored(log) == 7

    def test_what_other_processes_append_is_covered_in_idle_times(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        other = log.open()
        say(other, 3)
        sealer.tick()
        say(other, 3)
        sealer.tick()
        assert sizes(store) == [4]
        log.clock.now += 10
        sealer.tick()
        assert sizes(store) == [4, 7]
        other.close()

    def test_a_log_that_was_closed_is_sealed_to_its_end_and_free(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 1, sealer=sealer)
        say(store, 4, sealer=sealer)
        sealer.close()
        assert sealed_to(store) == (6, [])
        assert not sealer.holds
        assert sealer.seal() is None
        again = log.take(store)
        assert again.newest is not None
        assert again.newest.size == 6
        again.close()
        assert sizes(store) == [2, 6]

    def test_a_refused_group_is_not_signed(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        [outcome] = store.append([[draft(request(), causes=(99,))]], sealer.seal())
        assert isinstance(outcome, UsageError)
        sealer.committed()
        assert store.head().size == 1
        assert sizes(store) == [1]

    def test_an_unsigned_log_has_no_sealer(self, log: Log) -> None:
        with pytest.raises(UsageError, match="unsigned log"):
            Sealer.take(memory(), log.ring, log.keys, clock=log.clock)

    def test_commit_upon_commit_keeps_lease_checkpoints_anchor_and_day(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        for _ in range(60):
            log.clock.now += 0.5
            say(store, 1, sealer=sealer)
            assert log.clock.now + 10 <= lease_end(log) <= log.clock.now + 15
        assert sizes(store) == [2, 22, 42]
        say(store, 256, sealer=sealer)
        say(store, 256, sealer=sealer)
        assert (sizes(store)[3:], anchored(log)) == ([317, 573], 317)
        log.clock.now += 1
        say(store, 1, sealer=sealer)
        assert anchored(log) == 573
        log.clock.now -= 3_600
        say(store, 1, sealer=sealer)
        assert lease_end(log) == pytest.approx(log.clock.now + 15, abs=0.001)
        log.clock.now += DAY_S - log.clock.now % DAY_S + 3_600
        say(store, 1, sealer=sealer)
        assert sealer.epoch == 1


class TestCustody:
    def test_no_private_key_lies_in_the_ledger(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 3, sealer=sealer)
        sealer.rotate()
        held = [key for key in (log.ring.identity, log.ring.epoch(1)) if key]
        assert len(held) == 2
        written = b"".join(path.read_bytes() for path in log.folder.glob("log.db*"))
        for key in held:
            seed = key.private.private_bytes_raw()
            forms = (seed, seed.hex().encode(), b64encode(seed)[:40], key.pem().splitlines()[1])
            assert not any(form in written for form in forms)
            assert key.verifier.text().encode() in written

    def test_keys_are_not_touched_while_another_process_seals(self, log: Log, store: Store) -> None:
        log.take(store)
        (log.keys / "identity.key").chmod(0o644)
        with pytest.raises(Fenced):
            log.take(store)

    def test_keys_that_others_can_read_are_refused_and_the_claim_is_given_back(self, log: Log, store: Store) -> None:
        for name in ("identity.key", "epoch-0.key"):
            (log.keys / name).chmod(0o640)
            with pytest.raises(StoreError, match=f"{name} has mode 0640"):
                log.take(store)
            (log.keys / name).chmod(0o600)
        log.take(store)

    def test_keys_of_another_log_are_refused(self, log: Log, store: Store, tmp_path: Path) -> None:
        other = Log.found(tmp_path / "other")
        with pytest.raises(StoreError, match="another log's"):
            Sealer.take(store, other.ring, log.keys, clock=log.clock)


class TestRotation:
    def test_the_retired_key_is_gone_and_the_log_is_sealed_across(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 3, sealer=sealer)
        rotation = sealer.rotate()
        assert log.ring.epochs() == [1]
        assert store.entry(rotation.size - 1).data["reason"] == "asked"
        say(store, 2, sealer=sealer)
        assert sealer.checkpoint().size == rotation.size + 2
        assert sealed_to(store) == (rotation.size + 2, [])
        assert anchored(log) == rotation.size + 2

    def test_the_size_of_a_rotation_is_signed_by_the_retiring_key_alone(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        rotation = sealer.rotate()
        assert sealer.checkpoint() == rotation
        log.clock.now += 60
        sealer.tick()
        sealer.close()
        assert sizes(store) == [rotation.size]

    def test_each_active_day_brings_a_new_key_also_behind_a_clock_that_was_a_year_ahead(
        self, log: Log, store: Store
    ) -> None:
        log.clock.now += 365 * DAY_S
        sealer = log.take(store)
        say(store, 1, sealer=sealer)
        before = sealer.epoch
        log.clock.now -= 365 * DAY_S
        for day in range(3):
            for _ in range(3):
                say(store, 1, sealer=sealer)
                sealer.tick()
            assert sealer.epoch == before + day
            log.clock.now += DAY_S
        sealer.close()

    def test_each_active_utc_day_brings_a_new_key(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 1, sealer=sealer)
        log.clock.now += DAY_S
        say(store, 1, sealer=sealer)
        log.clock.now += 5 * DAY_S
        sealer.tick()
        say(store, 1, sealer=sealer)
        kinds = [entry.kind for entry in store.select(Query())]
        assert kinds == ["log.genesis", *["run.requested"] * 2, "key.rotated", "run.requested", "key.rotated"]
        assert [entry.data.get("reason") for entry in store.select(Query())].count("day") == 2
        assert sealer.epoch == 2
        assert log.ring.epochs() == [2]
        assert sealed_to(store) == (6, [])

    def test_ten_thousand_entries_bring_a_new_key(self, tmp_path: Path) -> None:
        clock = Clock()
        genesis, ring = found(lambda _: tmp_path / "keys", ORIGIN, "test")
        assert ring is not None
        store = MemoryStore(draft(genesis, actor="log"), clock=clock)
        sealer = Sealer.take(store, ring, tmp_path / "keys", clock=clock)
        say(store, 9_999, sealer=sealer)
        assert sealer.epoch == 0
        say(store, 1, sealer=sealer)
        assert sealer.epoch == 1
        assert store.entry(store.head().size - 1).data["reason"] == "size"
        assert sealed_to(store) == (10_002, [])

    def test_a_leftover_key_of_an_attempt_that_failed_is_replaced(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        leftover = log.ring.make_epoch(1)
        sealer.rotate()
        current = log.ring.epoch(1)
        assert current is not None
        assert current.verifier != leftover.verifier
        say(store, 1, sealer=sealer)
        sealer.checkpoint()
        assert sealed_to(store) == (3, [])


class TestLostKey:
    def test_a_lost_key_is_refused_with_the_way_out(self, log: Log, store: Store) -> None:
        say(store, 2)
        (log.keys / "epoch-0.key").unlink()
        with pytest.raises(StoreError, match=r"epoch key 0 of .* is not in .*--lost-key"):
            log.take(store)
        assert sizes(store) == []
        assert store.head().size == 3

    def test_the_rotation_of_a_lost_key_stays_unsealed_for_good(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 2, sealer=sealer)
        sealer.close()
        lost = log.ring.epoch(0)
        assert lost is not None
        log.ring.destroy_epoch(0)
        sealer = log.take(store, lost_key_rotates=True)
        assert store.entry(3).data["reason"] == "lost"
        say(store, 1, sealer=sealer)
        sealer.rotate()
        say(store, 1, sealer=sealer)
        sealer.close()
        assert sealed_to(store) == (3, [3])
        (log.keys / "epoch-0.key").touch(0o600)
        (log.keys / "epoch-0.key").write_bytes(lost.pem())
        log.take(store).close()
        assert log.ring.epochs() == [2]
        assert sealed_to(store) == (3, [3])

    def test_a_key_file_with_another_key_counts_as_lost(self, log: Log, store: Store) -> None:
        log.ring.destroy_epoch(0)
        log.ring.make_epoch(0)
        with pytest.raises(StoreError, match=r"epoch key 0 .* is not in"):
            log.take(store)
        sealer = log.take(store, lost_key_rotates=True)
        assert (sealer.epoch, log.ring.epochs()) == (1, [1])

    def test_saying_so_changes_nothing_while_the_key_is_there(self, log: Log, store: Store) -> None:
        log.take(store, lost_key_rotates=True).close()
        assert sealed_to(store) == (1, [])


class TestTwoSealers:
    def test_the_second_is_refused(self, log: Log, store: Store) -> None:
        log.take(store)
        other = log.open()
        with pytest.raises(Fenced, match="held by process"):
            log.take(other)
        other.close()

    def test_a_renewed_lease_keeps_others_out(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        for _ in range(6):
            log.clock.now += 6
            say(store, 1, sealer=sealer)
            with pytest.raises(Fenced):
                log.take(store)

    def test_one_that_froze_is_fenced_when_it_wakes_and_its_signature_never_lands(self, log: Log, store: Store) -> None:
        frozen = log.take(store)
        say(store, 2, sealer=frozen)
        log.clock.now += 16
        other = log.open()
        second = log.take(other)
        say(other, 2, sealer=second)
        second.checkpoint()
        before = sizes(store)

        say(store, 300, sealer=frozen)
        assert isinstance(frozen.trouble, Fenced)
        assert not frozen.holds
        for act in (frozen.checkpoint, frozen.rotate, frozen.tick):
            with pytest.raises(Fenced):
                act()
        frozen.close()
        assert sizes(store) == before
        assert second.checkpoint().size == 305
        assert sealed_to(store) == (305, [])
        other.close()

    @pytest.mark.parametrize("act", ["checkpoint", "rotate"])
    def test_one_that_froze_before_signing_touches_neither_log_nor_keys(self, log: Log, store: Store, act: str) -> None:
        frozen = log.take(store)
        log.clock.now += 16
        other = log.open()
        second = log.take(other)
        second.rotate()
        say(store, 3)
        before = {path.name: path.read_bytes() for path in log.keys.iterdir()}
        with pytest.raises(Fenced):
            getattr(frozen, act)()
        assert {path.name: path.read_bytes() for path in log.keys.iterdir()} == before
        second.checkpoint()
        assert sealed_to(store) == (5, [])
        other.close()

    def test_one_that_does_not_know_it_yet_closes_quietly(self, log: Log, store: Store) -> None:
        frozen = log.take(store)
        log.clock.now += 16
        second = log.take(store)
        say(store, 1)
        frozen.close()
        assert not frozen.holds
        assert sizes(store) == []
        assert second.checkpoint().size == 2

    def test_two_copies_sealed_with_the_same_keys_become_loud(self, log: Log, store: Store, tmp_path: Path) -> None:
        sealer = log.take(store)
        say(store, 2, sealer=sealer)
        sealer.close()
        store.close()
        shutil.copy(log.path, tmp_path / "copy.db")
        store = log.open()
        twin = SqliteStore.open(tmp_path / "copy.db", clock=log.clock)
        one, other = log.take(store), Sealer.take(twin, log.ring, log.keys, clock=log.clock)
        say(store, 2, sealer=one)
        one.checkpoint()
        say(twin, 3, sealer=other, text="another")
        with pytest.raises(StoreError, match="FORKED"):
            other.checkpoint()
        assert anchored(log) == 5
        twin.close()
        store.close()


class TestRestoredBackup:
    def test_an_older_copy_is_refused_and_left_as_it_is(self, log: Log, store: Store, tmp_path: Path) -> None:
        sealer = log.take(store)
        say(store, 5, sealer=sealer)
        sealer.close()
        store.close()
        shutil.copy(log.path, tmp_path / "backup.db")
        with_more = log.open()
        sealer = log.take(with_more)
        say(with_more, 5, sealer=sealer)
        sealer.close()
        with_more.close()

        shutil.copy(tmp_path / "backup.db", log.path)
        restored = log.open()
        for refused in (lambda: log.take(restored), lambda: refuse_rollback(restored, log.keys)):
            with pytest.raises(StoreError, match=r"ROLLED BACK: .* has 6 entries.* saw 11 .*hansard ledger adopt"):
                refused()
        assert restored.epoch("seal") == 1
        assert restored.head().size == 6
        restored.close()

    def test_a_changed_copy_of_the_same_length_is_refused(self, log: Log, store: Store, tmp_path: Path) -> None:
        store.close()
        shutil.copy(log.path, tmp_path / "backup.db")
        first = log.open()
        sealer = log.take(first)
        say(first, 5, sealer=sealer)
        sealer.close()
        first.close()
        shutil.copy(tmp_path / "backup.db", log.path)
        other = log.open()
        say(other, 9, text="something else")
        with pytest.raises(StoreError, match="FORKED"):
            log.take(other)
        other.close()

    def test_without_the_anchor_the_keys_still_tell_an_older_epoch(
        self, log: Log, store: Store, tmp_path: Path
    ) -> None:
        store.close()
        shutil.copy(log.path, tmp_path / "backup.db")
        newer = log.open()
        sealer = log.take(newer)
        sealer.rotate()
        sealer.close()
        newer.close()
        shutil.copy(tmp_path / "backup.db", log.path)
        (log.keys / "last-checkpoint").unlink()
        restored = log.open()
        with pytest.raises(StoreError, match=r"ROLLED BACK: .* ends in epoch 0, but .* holds a key of epoch 1"):
            log.take(restored)
        assert log.ring.epochs() == [1]
        restored.close()

    @pytest.mark.parametrize("rotated", [True, False])
    def test_a_copy_that_is_open_beside_it_does_not_destroy_its_keys(self, tmp_path: Path, rotated: bool) -> None:
        clock = Clock()
        genesis, ring = found(lambda _: tmp_path / "keys", ORIGIN, "test")
        assert ring is not None
        log, copy = (MemoryStore(draft(genesis, actor="log"), clock=clock) for _ in range(2))
        sealer, other = (Sealer.take(each, ring, tmp_path / "keys", clock=clock) for each in (log, copy))
        say(log, 4, sealer=sealer)
        kept = sealer.rotate() if rotated else sealer.checkpoint()
        if rotated:
            (tmp_path / "keys" / "last-checkpoint").unlink()
        say(copy, 4, text="something else")
        with pytest.raises(StoreError, match="ROLLED BACK" if rotated else "FORKED"):
            other.rotate()
        assert copy.head().size == 5, "nothing was written"
        sealer.close()
        again = Sealer.take(log, ring, tmp_path / "keys", clock=clock)
        assert again.newest == kept

    def test_a_log_that_lost_its_tail_under_its_own_checkpoint_is_not_extended(self, tmp_path: Path) -> None:
        clock = Clock()
        genesis, ring = found(lambda _: tmp_path / "keys", ORIGIN, "test")
        assert ring is not None
        store, shorter = (MemoryStore(draft(genesis, actor="log"), clock=clock) for _ in range(2))
        sealer = Sealer.take(store, ring, tmp_path / "elsewhere", clock=clock)
        say(store, 4)
        (tmp_path / "elsewhere").mkdir()
        kept = sealer.checkpoint()
        claim = shorter.claim("seal", 1)
        shorter.add_checkpoint(kept, claim.epoch)
        shorter.release(claim)
        with pytest.raises(StoreError, match=r"ROLLED BACK: .*its own checkpoint 5"):
            Sealer.take(shorter, ring, tmp_path / "nowhere", clock=clock)


class TestAnchor:
    def test_it_moves_only_when_the_checkpoint_is_durable(
        self, log: Log, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[int, list[int]]] = []
        replace = os.replace

        def watched(fresh: Path, path: Path) -> None:
            # Another connection sees committed checkpoints only.
            reader = log.open()
            seen.append((anchors.Anchor.of(fresh.read_text(), "").checkpoint.size, sizes(reader)))
            reader.close()
            replace(fresh, path)

        monkeypatch.setattr(os, "replace", watched)
        sealer = log.take(store)
        say(store, 2, sealer=sealer)
        log.clock.now += 11
        say(store, 2, sealer=sealer)
        say(store, 2, sealer=sealer)
        sealer.checkpoint()
        sealer.rotate()
        say(store, 1, sealer=sealer)
        sealer.close()
        assert [size for size, _ in seen] == [3, 5, 7, 8, 9]
        assert all(size in durable for size, durable in seen)

    def test_on_the_append_path_it_moves_at_most_once_a_second(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        say(store, 1, sealer=sealer)
        assert anchored(log) == 2
        say(store, 256, sealer=sealer)
        assert (sizes(store), anchored(log)) == ([2, 258], 2)
        log.clock.now += 1
        say(store, 1, sealer=sealer)
        assert (sizes(store), anchored(log)) == ([2, 258], 258)

    def test_trouble_with_it_is_told_and_the_entries_stand(self, log: Log, store: Store) -> None:
        sealer = log.take(store)
        (log.keys / "last-checkpoint").mkdir()
        say(store, 1, sealer=sealer)
        assert "last-checkpoint" in str(sealer.trouble)
        with pytest.raises(StoreError, match="last-checkpoint"):
            sealer.checkpoint()
        (log.keys / "last-checkpoint").rmdir()
        say(store, 1, sealer=sealer)
        assert sealer.trouble is None
        assert anchored(log) == 2
        assert sealed_to(store) == (2, [])
