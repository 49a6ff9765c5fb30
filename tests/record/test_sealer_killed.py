"""kill -9 at every step of sealing and rotation: it opens, it holds what was acknowledged, it can be sealed again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hansard.ledger.report import Report
from hansard.ledger.tools import Tools
from hansard.ledger.verify import Options, verify
from hansard.seal.signing import verify as fast_check
from ledgers import Clock
from sealing import Log, say

HERE = Path(__file__).parent
SEALED = 7


def lives(act: str, form: str, folder: Path) -> list[Log]:
    """One ledger for each step at which the program was killed, and the one of its whole life."""
    prepared = Log.found(folder / "prepared", form=form)
    store = prepared.open()
    sealer = prepared.take(store)
    say(store, 3, sealer=sealer)
    sealer.rotate()
    say(store, 2, sealer=sealer)
    sealer.close()
    assert store.head().size == SEALED
    store.close()
    done = subprocess.run(
        [sys.executable, str(HERE / "killed.py"), act, form, str(prepared.folder), str(folder / "out")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE.parents[1] / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = sorted((folder / "out").iterdir(), key=lambda each: int(each.name))
    return [Log(folder=each, clock=Clock(), form=form) for each in made]


def verified(log: Log, *, strict: bool = False) -> Report:
    """What the proof says of the log, held against the anchor in the state folder: that one may never be ahead."""
    options = Options(deep=True, strict=strict, against=(str(log.keys / "last-checkpoint"),))
    return verify(log.path, options, Tools(ed25519=fast_check))


def check_after_death(log: Log, *, lost_key: bool = False) -> None:
    acknowledged = int((log.folder / "acknowledged").read_text() or 0)
    found = verified(log)
    assert found.ok, found.findings
    assert found.size >= acknowledged
    assert found.signed.sealed_to >= SEALED
    assert found.unsealed_tail == found.size - found.signed.sealed_to <= 3

    store = log.open()
    sealer = log.take(store, lost_key_rotates=lost_key)
    log.clock.now += 11
    say(store, 1, sealer=sealer)
    assert sealer.trouble is None
    sealer.rotate()
    say(store, 1, sealer=sealer)
    sealer.close()
    store.close()
    assert log.ring.epochs() == [sealer.epoch]
    after = verified(log, strict=not lost_key)
    assert after.ok, after.findings
    assert after.signed.sealed_to == (SEALED if lost_key else after.size)
    assert len(after.signed.unsealed_rotations) == lost_key


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("act", "form"),
    [("seal", "db"), ("seal", "jsonl"), ("rotate", "db"), ("rotate", "jsonl"), ("rotate_without_key", "db")],
)
def test_a_sealer_may_be_killed_at_any_step(act: str, form: str, quick_folder: Path) -> None:
    after = lives(act, form, quick_folder)
    assert len(after) > 20
    seen = {state_of(log) for log in after}
    for log in after:
        check_after_death(log, lost_key=act == "rotate_without_key")
    if act == "rotate":
        # Not begun, key made, named with both keys there, done. A key that the log names is always there.
        assert seen == {(False, (1,)), (False, (1, 2)), (True, (1, 2)), (True, (2,))}


def state_of(log: Log) -> tuple[bool, tuple[int, ...]]:
    """Whether the log ends with a rotation, and which keys lie there."""
    store = log.open()
    rotated = store.entry(store.head().size - 1).kind == "key.rotated"
    store.close()
    return rotated, tuple(log.ring.epochs())
