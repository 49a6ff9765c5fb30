"""Deliberations as the record tells them, where some of what was said is not in the ledger any more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hansard.app.archived.evaluating import find_held
from hansard.app.archived.sessions import validated
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.convening import Call, convening
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.deliberationviews import artifact_on_record, deliberation_view, metrics_on_record
from hansard.deliberation.session import Sitting
from hansard.errors import StoreError, UsageError
from hansard.ledger.entry import Entry
from hansard.store.base import Query


@asynccontextmanager
async def held(folder: Path) -> AsyncIterator[tuple[Hansard, str, Sitting]]:
    """A deliberation that has ended, its run, and what it came to."""
    settings = Settings(ledger=str(folder / "l.db"), state=folder / "state")
    async with Hansard.open(settings=settings) as hansard:
        call = Call(problem="keep it?", runs=folder / "runs", wishes=Wishes(provider="rehearsal"))
        run = await hansard.deliberations.convene(convening(settings, hansard.pool, call))
        yield hansard, run, (await hansard.deliberations.hold(run)).sitting


def taken(hansard: Hansard, run: str) -> list[Entry]:
    return list(hansard.store.select(Query(run=run, kind="turn.taken")))


async def test_how_a_session_ended_is_shown_whichever_message_was_redacted(tmp_path: Path) -> None:
    async with held(tmp_path) as (hansard, run, sitting):
        before = deliberation_view(hansard.store, run)
        assert before["messages"] == len(sitting.artifact["canonical_transcript"])
        assert (
            before["synthesis_answer"] == sitting.artifact["canonical_transcript"][-1]["content"]["integrated_answer"]
        )
        assert before["rounds"] == max(each["round"] for each in sitting.artifact["canonical_transcript"])
        turns = taken(hansard, run)
        hansard.store.erase((turns[1].seq, "message"))
        assert deliberation_view(hansard.store, run) == before
        hansard.store.erase((turns[-1].seq, "message"))
        assert deliberation_view(hansard.store, run) == before | {"synthesis_answer": None}


async def test_what_needs_the_whole_artifact_says_that_it_is_gone_with_one_of_its_messages(tmp_path: Path) -> None:
    async with held(tmp_path) as (hansard, run, sitting):
        alone = tmp_path / "alone.json"
        alone.write_bytes((tmp_path / "runs" / sitting.artifact["session_id"] / "artifact.json").read_bytes())
        assert artifact_on_record(hansard.store, run) == sitting.artifact
        assert metrics_on_record(hansard.store, run)["outcome_kind"] == "synthesis"
        assert validated(alone, hansard.store, named=True).ok
        hansard.store.erase((taken(hansard, run)[1].seq, "message"))
        for read in (artifact_on_record, metrics_on_record):
            with pytest.raises(UsageError, match="or the artifact or one of its messages was redacted"):
                read(hansard.store, run)
        with pytest.raises(StoreError, match="the message of this session was redacted"):
            find_held(run, tmp_path / "nowhere", hansard.store)
        judged = validated(alone, hansard.store)
        assert (judged.ok, "is not whole in" in judged.notes[0]) == (True, True)
        assert not validated(alone, hansard.store, named=True).ok


async def test_a_view_of_a_session_reads_no_message_but_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of many reads as little of each as it shows."""
    async with held(tmp_path) as (hansard, *_):
        read: list[str] = []
        body = hansard.store.body

        def noted(seq: int, part: str) -> Any:
            read.append(part)
            return body(seq, part)

        monkeypatch.setattr(hansard.store, "body", noted)
        assert [view["outcome"] for view in hansard.deliberations.listed()] == ["synthesis"]
        assert (read.count("message"), read.count("artifact")) == (1, 1)
