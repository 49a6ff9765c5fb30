"""What a daemon publishes as signed is what is signed, whatever the rows of its database say."""

import asyncio

import pytest

from hansard import Hansard
from hansard.app.serving import publishing
from hansard.app.serving.publishing import consistency, newest_checkpoint, receipt, signed_note, tile
from hansard.errors import UsageError
from hansard.store.base import StoredCheckpoint
from signed_log import SignedLog


def test_a_checkpoint_that_nobody_signed_makes_nothing_signed(log: SignedLog) -> None:
    log.ask_many(3)
    good = log.checkpoint()
    log.ask_many(3)
    size = log.store.head().size
    forged = good.note.replace(f"\n{good.size}\n", f"\n{size}\n", 1)
    claim = log.store.claim("seal", 60)
    log.store.add_checkpoint(StoredCheckpoint(size=size, note=forged), claim.epoch)
    log.store.release(claim)
    assert signed_note(log.store) == (good.size, good.note)
    assert newest_checkpoint(log.store)["size"] == consistency(log.store, 1, None)["size"] == good.size
    assert len(tile(log.store, f"tile/0/000.p/{good.size}")) == 32 * good.size
    with pytest.raises(UsageError, match=f"{good.size} entries are signed"):
        tile(log.store, f"tile/0/000.p/{size}")
    # What is signed from now on is seen although the one before is remembered.
    log.ask_many(1)
    signed = log.checkpoint()
    assert newest_checkpoint(log.store)["size"] == signed.size


async def test_nobody_waits_for_a_receipt_that_an_unsigned_log_never_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "SIGNED_WITHIN_S", float("inf"))
    async with Hansard.open("memory:") as hansard, asyncio.timeout(10):
        with pytest.raises(UsageError, match="no keys"):
            await receipt(hansard, 0, ())
