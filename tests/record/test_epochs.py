"""Which keys a log names for itself: rotations that make no sense are told, and no key is taken from them."""

from pathlib import Path

import pytest

from hansard.domain.custody import KeyRotated
from hansard.errors import StoreError, UsageError
from hansard.record.epochs import read_keys
from hansard.record.recorder import Step, record_now
from signed_log import SignedLog
from specimens import Key


def test_the_newest_key_is_in_force_and_the_one_before_is_retired(log: SignedLog) -> None:
    for number in range(4):
        keys = read_keys(log.store)
        assert (keys.epoch.number, keys.retired and keys.retired.number) == (number, number - 1 if number else None)
        assert keys.epoch.key.name == f"{keys.origin}/epoch/{number}"
        log.rotate()


@pytest.mark.parametrize(
    ("epoch", "name", "told"),
    [
        (1, "epoch/2", "names the key"),
        (2, "epoch/2", "is of epoch 2"),
        (0, "epoch/0", "is of epoch 0"),
        (1, "", "no keys"),
    ],
)
def test_a_first_rotation_that_makes_no_sense_is_told(log: SignedLog, epoch: int, name: str, told: str) -> None:
    key = Key.of(f"{read_keys(log.store).origin}/{name}").verifier.text() if name else "nonsense"
    record_now(log.store, [Step(KeyRotated(epoch=epoch, key=key, reason="asked"), "sealer")])
    with pytest.raises(StoreError, match=told):
        read_keys(log.store)


def test_a_log_without_keys_has_none(tmp_path: Path) -> None:
    log = SignedLog.create(tmp_path / "log", signed=False)
    with pytest.raises(UsageError, match="unsigned log"):
        read_keys(log.store)
    log.store.close()
