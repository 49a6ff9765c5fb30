"""Who seals when whoever sealed before is gone: another process that stays, at its next commit or in idle times."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hansard.errors import Fenced, StoreError, Unavailable
from hansard.record import deputy as module
from hansard.record.deputy import Deputy, Onlooker
from hansard.record.sealer import RENEW_S, Sealer
from hansard.seal.anchors import Superseded, end
from hansard.store.base import Store
from ledgers import Clock
from sealing import Log, say, sealed_to


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    return Log.found(tmp_path / "log", Clock())


@pytest.fixture
def store(log: Log) -> Iterator[Store]:
    opened = log.open()
    yield opened
    opened.close()


def of(log: Log, store: Store, sealer: Sealer | None = None) -> Deputy:
    def take() -> Sealer | None:
        try:
            return log.take(store)
        except Fenced:
            return None

    return Deputy(sealer, take)


@pytest.mark.parametrize("at", ["committed", "upkeep"])
def test_the_next_one_seals_when_the_first_is_gone(log: Log, store: Store, at: str) -> None:
    other = log.open()
    first = log.take(other)
    waiting = of(log, store)
    getattr(waiting, at)()
    assert waiting.seal() is None
    say(other, 3, sealer=first)
    first.close()
    other.close()
    say(store, 3)
    getattr(waiting, at)()
    assert waiting.seal() is not None
    log.clock.now += 11
    waiting.upkeep()
    assert sealed_to(store) == (store.head().size, [])


def test_one_that_froze_seals_again_when_its_successor_is_gone(log: Log, store: Store) -> None:
    frozen = of(log, store, log.take(store))
    assert frozen.seal() is not None
    log.clock.now += 16
    other = log.open()
    second = log.take(other)
    say(other, 2, sealer=second)
    frozen.upkeep()
    assert frozen.seal() is None
    second.close()
    other.close()
    frozen.upkeep()
    assert frozen.seal() is not None


@pytest.mark.parametrize("sealing", [True, False])
def test_whoever_stays_at_a_log_that_was_adopted_writes_to_it_no_more(log: Log, store: Store, *, sealing: bool) -> None:
    deputy = of(log, store, log.take(store) if sealing else None)
    say(store, 2)
    end(log.keys, "next.db")
    log.clock.now += RENEW_S
    for _ in range(2):
        deputy.upkeep()
        with pytest.raises(Superseded, match=r"next\.db goes on from it"):
            deputy.seal()
    # It was a mistake.
    (log.keys / "adopted-by").unlink()
    deputy.upkeep()
    assert deputy.seal() is not None
    log.clock.now += 11
    deputy.upkeep()
    assert sealed_to(store) == (store.head().size, [])


def test_without_keys_nothing_is_written_once_nobody_has_sealed_for_long(
    log: Log, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GONE_S", 0.0)

    def check() -> None:
        try:
            store.release(store.claim("seal", 0.0))
        except Fenced:
            return
        raise StoreError("nobody seals")

    other = log.open()
    looking = Onlooker(check)
    for _ in range(2):
        sealer = log.take(other)
        assert (looking.seal(), looking.trouble) == (None, None)
        sealer.close()
        with pytest.raises(Unavailable, match="nobody seals"):
            looking.seal()
        assert str(looking.trouble) == "nobody seals"
    monkeypatch.setattr(module, "GONE_S", 600.0)
    assert looking.seal() is None, "whoever seals may be back in a moment"
    other.close()


def test_what_stands_in_the_way_is_no_end(log: Log, store: Store) -> None:
    waiting = of(log, store)
    hidden = log.keys.rename(log.keys.with_name("hidden"))
    waiting.upkeep()
    assert waiting.seal() is None
    assert str(log.keys) in str(waiting.trouble)
    hidden.rename(log.keys)
    waiting.upkeep()
    assert waiting.seal() is not None
    assert waiting.trouble is None
