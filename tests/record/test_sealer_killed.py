"""kill -9 at every step of sealing and rotation: it opens, it holds what was acknowledged, it can be sealed again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hansard.seal import anchors
from ledgers import Clock
from sealing import Log, say, sealed_to, sizes

HERE = Path(__file__).parent


def lives(act: str, tmp_path: Path) -> list[Log]:
    """One ledger for each step at which the program was killed, and the one of its whole life."""
    prepared = Log.found(tmp_path / "prepared")
    store = prepared.open()
    sealer = prepared.take(store)
    say(store, 3, sealer=sealer)
    sealer.rotate()
    say(store, 2, sealer=sealer)
    sealer.close()
    store.close()
    done = subprocess.run(
        [sys.executable, str(HERE / "killed.py"), act, str(prepared.folder), str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE.parents[1] / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folders = sorted((tmp_path / "out").iterdir(), key=lambda folder: int(folder.name))
    return [Log(folder=folder, clock=Clock()) for folder in folders]


def check_after_death(log: Log, *, lost_key: bool = False) -> None:
    acknowledged = int((log.folder / "acknowledged").read_text() or 0)
    store = log.open()
    assert store.broken is None
    assert store.head().size >= acknowledged
    anchor = anchors.read(log.keys)
    assert anchor is not None
    assert anchor.checkpoint.size in sizes(store), "the anchor is ahead of the log"
    sealed_before, unsealed = sealed_to(store)
    assert sealed_before >= 7 or unsealed

    sealer = log.take(store, lost_key_rotates=lost_key)
    log.clock.now += 11
    say(store, 2, sealer=sealer)
    assert sealer.trouble is None
    sealer.rotate()
    say(store, 1, sealer=sealer)
    sealer.close()
    assert log.ring.epochs() == [sealer.epoch]
    sealed, unsealed = sealed_to(store)
    if lost_key:
        assert len(unsealed) == 1
        assert sealed == 7
    else:
        assert (sealed, unsealed) == (store.head().size, [])
    store.close()


@pytest.mark.parametrize(("act", "steps"), [("seal", 20), ("rotate", 20), ("rotate_without_key", 25)])
def test_a_sealer_may_be_killed_at_any_step(act: str, steps: int, tmp_path: Path) -> None:
    after = lives(act, tmp_path)
    assert len(after) > steps
    for log in after:
        check_after_death(log, lost_key=act == "rotate_without_key")


def test_a_rotation_that_was_killed_has_happened_or_has_not(tmp_path: Path) -> None:
    seen = set()
    for log in lives("rotate", tmp_path):
        store = log.open()
        named = store.entry(store.head().size - 1).kind == "key.rotated"
        seen.add((named, tuple(log.ring.epochs())))
        store.close()
    # Not begun, key made, named with both keys there, done. A named key is always there.
    assert seen == {(False, (1,)), (False, (1, 2)), (True, (1, 2)), (True, (2,))}
