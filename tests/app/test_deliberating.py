"""Deliberation from Python: sync and async, on a ledger, with providers that a program hands in."""

import asyncio
import inspect
import json
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

import hansard
from deliberating import Heard, config, fails, result, script, scripted, synthesis, turn, verdict
from hansard import (
    Hansard,
    PinningViolation,
    execution_replay,
    execution_replay_async,
    run_session,
    run_session_async,
    transcript_replay,
)
from hansard.app.archived.sessions import validated
from hansard.app.pool import Pool
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.convening import Call, Convening, convening, default_config
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.deliberationviews import deliberation_view
from hansard.app.telling.directories import find_session
from hansard.deliberation.archive import Archive, read_manifest
from hansard.deliberation.documents import Artifact, Config
from hansard.deliberation.inventory import EVENTS
from hansard.deliberation.pins import pinned
from hansard.domain.exchange import Completion, Cost, Exchange
from hansard.errors import Fenced, StoreError, Unavailable, UsageError
from hansard.orchestration import watching
from hansard.providers.base import Heard as Kept
from hansard.providers.base import answered, failure
from hansard.store.base import Claim, Query, StoredBody
from ledgers import full_disk
from panels import Voices, agreeing
from running import audit, roster

requirement = pytest.mark.requirement
ANSWERS: list[Heard] = [turn("ben"), turn(), turn(), turn(), verdict("finalize"), synthesis()]
SCRIPT = {"schema_version": "1.0.0", "entries": [{"result": result(each)} for each in ANSWERS]}


def test_a_session_is_held_in_one_call(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    artifact = run_session(config(), scripted(ANSWERS), runs_root=tmp_path / "runs", ledger=ledger)
    assert isinstance(artifact, Artifact)
    assert artifact.outcome.kind == "synthesis"
    stored = json.loads((tmp_path / "runs" / "s-1" / "artifact.json").read_bytes())
    replayed = transcript_replay(stored)
    assert replayed.matches
    assert replayed.digest == artifact.transcript_digest == transcript_replay(artifact).digest
    again = execution_replay(tmp_path / "runs" / "s-1", scripted(ANSWERS), ledger=ledger)
    assert again.matches
    with pytest.raises(PinningViolation) as violated:
        execution_replay(tmp_path / "runs" / "s-1", Other(), ledger=ledger)
    assert violated.value.condition == "adapter"


def test_a_replay_by_a_script_that_loops_for_ever_ends(tmp_path: Path) -> None:
    """Its clock is pinned, so no time ends it."""
    given = config(per_agent_retry_budget=10**9)
    run_session(given, script=SCRIPT, runs_root=tmp_path, ledger="memory:")
    forever = script([fails("network")], on_exhaustion="loop").as_data()
    again = execution_replay(tmp_path / "s-1", script=forever, ledger="memory:")
    assert not again.matches
    assert again.fresh.reason == "provider_unrecoverable"


class Silent:
    """The scripted provider, who does not answer any more."""

    id, unmetered = "fake", True

    def describe(self) -> dict[str, str]:
        return dict(scripted(ANSWERS).describe())

    async def close(self) -> None:
        """There is nothing to let go of."""

    @answered
    async def complete(self, _: Exchange, heard: Kept) -> Completion:
        await asyncio.Event().wait()
        raise AssertionError(heard)


@requirement("R-8.5-1")
async def test_a_replay_is_cancelled_like_any_other_session(tmp_path: Path) -> None:
    await run_session_async(config(), scripted(ANSWERS), runs_root=tmp_path, ledger="memory:")
    asked = asyncio.get_running_loop().create_future()

    def hear(run: str, recorded: Any) -> None:
        if recorded.fact.KIND == "run.claimed":
            asked.set_result(run)

    async with Hansard.open("memory:", providers={"fake": Silent()}) as hansard:
        hansard.deliberations.listen(hear)

        def make(given: Config) -> Convening:
            return convening(hansard.settings, hansard.pool, Call(config=given))

        again = asyncio.create_task(hansard.deliberations.replay(tmp_path / "s-1", make))
        await hansard.deliberations.cancel(await asked)
        assert (await again).fresh.reason == "user_cancel"


async def test_a_session_that_is_held_again_has_its_answer_and_its_end_on_the_record(tmp_path: Path) -> None:
    """Else it would be told as running for ever: nobody goes on with a replay."""
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS * 2)}) as service:
        first = await service.deliberations.hold(await service.deliberations.convene(made(service, tmp_path)))

        def make(given: Config) -> Convening:
            return convening(service.settings, service.pool, Call(config=given))

        again = await service.deliberations.replay(tmp_path / "s-1", make)
        assert again.fresh.reason == "synthesis"
        replayed = service.deliberations.listed()[0]
        assert (replayed["state"], replayed["run"] == first.run) == ("answered", False)
        assert service.runs.entries(replayed["run"])[-1].kind == "run.ended"
        assert service.runs.answer(replayed["run"]) == service.runs.answer(first.run)
        audit(service.store, replayed["run"])


@pytest.mark.parametrize("assumed", [["nope"], "model"])
def test_nobody_vouches_for_what_is_no_condition(tmp_path: Path, assumed: Any) -> None:
    ledger = str(tmp_path / "log.db")
    run_session(config(), script=SCRIPT, runs_root=tmp_path / "runs", ledger=ledger)
    with pytest.raises(UsageError, match="no pinning condition"):
        execution_replay(tmp_path / "runs" / "s-1", script=SCRIPT, ledger=ledger, assumed=assumed)


async def test_as_large_a_panel_as_there_may_be_has_room_for_experts() -> None:
    """Nobody who was made and paid for keeps a session from beginning."""
    made: dict[str, Any] = {"id": "x" * 80, "reasoning_scope": "law", "reasoning_style": "strict"}
    made |= {"behavioral_constraints": ["cite"], "failure_modes": ["slow"], "output_requirements": []}
    made |= {"domain_scope": ["law"], "delegates": [{"domain": "tax", "to": "0"}]}

    def says(exchange: Exchange) -> Any:
        return made if exchange.metadata.get("role") == "persona_maker" else failure("auth_failure", "no")

    async with Hansard.open("memory:", providers={"fake": Voices(says, id="fake")}) as service:
        call = Call(config=config([str(number) for number in range(900)]), experts=("law",) * 8)
        run = await service.deliberations.convene(convening(service.settings, service.pool, call))
        sitting = (await service.deliberations.hold(run)).sitting
        assert (sitting.reason, len(sitting.artifact["config"]["agents"])) == ("provider_unrecoverable", 908)
        with pytest.raises(UsageError, match="901 agents"):
            convening(service.settings, service.pool, Call(config=config([str(number) for number in range(901)])))


class InTheWay:
    """The scripted provider, who puts a directory where a file of the session's directory must go."""

    id, unmetered = "fake", True

    def __init__(self, path: Path) -> None:
        self._path, self._voice = path, scripted(ANSWERS)

    def describe(self) -> dict[str, str]:
        return dict(self._voice.describe())

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Kept) -> Completion:
        await asyncio.to_thread(self._path.mkdir, exist_ok=True)
        return await self._voice.complete(exchange)


@requirement("R-4.1-8")
def test_an_artifact_says_why_its_directory_is_not_complete(tmp_path: Path) -> None:
    ledger, path = str(tmp_path / "log.db"), tmp_path / "s-1" / "metrics.json"
    artifact = run_session(config(), InTheWay(path), runs_root=tmp_path, ledger=ledger)
    assert artifact.outcome.kind == "synthesis"
    assert "metrics.json" in str(artifact.fault)
    assert Artifact.parse(artifact.as_data()).as_data() == artifact.as_data()
    assert transcript_replay(artifact).matches
    whole = run_session(config(), scripted(ANSWERS), runs_root=tmp_path / "other", ledger=ledger)
    assert whole.fault is None
    assert whole.as_data() == json.loads((tmp_path / "other" / "s-1" / "artifact.json").read_bytes())


async def test_a_session_that_could_not_be_recorded_for_a_moment_is_held_later(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service))
        convened = "instr(NEW.line, CAST('session.convened' AS BLOB))"
        with full_disk(ledger, when=convened), pytest.raises(Unavailable, match="disk is full"):
            await service.deliberations.hold(run)
        assert "run.ended" not in [view["kind"] for view in service.runs.views(run)]
        assert (await service.deliberations.hold(run)).sitting.artifact["outcome"]["kind"] == "synthesis"


class Other:
    """A provider of another kind."""

    id, unmetered = "fake", True

    def describe(self) -> dict[str, str]:
        return {"name": "fake", "kind": "other", "model": "m"}

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Kept) -> Completion:
        raise AssertionError("nobody should be asked")


def test_what_is_refused_is_told_without_a_word_of_event_loops(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no provider") as refused:
        run_session(config(), object(), runs_root=tmp_path / "runs", ledger=tmp_path / "log.db")  # type: ignore[arg-type]
    assert refused.value.__context__ is None


async def test_the_same_can_be_awaited(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    pins = pinned()
    one = await run_session_async(
        config().as_data(), {"fake": scripted(ANSWERS)}, ledger=ledger, runs_root=tmp_path, harness_pinning=pins
    )
    two = await run_session_async(config(), script=SCRIPT, ledger="memory:", harness_pinning=pins)
    assert one.transcript_digest == two.transcript_digest
    again = await execution_replay_async(tmp_path / "s-1", scripted(ANSWERS), ledger=ledger, runs_root=tmp_path)
    assert again.matches
    assert again.fresh.directory == tmp_path / "s-1-replay"
    with pytest.raises(UsageError, match="run_session_async"):
        run_session(config(), script=SCRIPT)


@pytest.mark.parametrize(
    ("alone", "awaited"), [(run_session, run_session_async), (execution_replay, execution_replay_async)]
)
def test_without_a_loop_they_take_and_say_the_same_as_with_one(alone: Any, awaited: Any) -> None:
    assert inspect.signature(alone) == inspect.signature(awaited)
    assert "more" not in inspect.signature(alone).parameters
    assert alone.__name__ == awaited.__name__.removesuffix("_async")
    assert alone.__doc__ == awaited.__doc__


async def test_the_answer_of_a_session_is_at_hand(tmp_path: Path) -> None:
    held = await run_session_async(config(), scripted(ANSWERS), ledger="memory:", runs_root=tmp_path)
    last = held.as_data()["canonical_transcript"][-1]
    assert held.answer == last["content"]["integrated_answer"]
    assert "answer" not in held.as_data()
    failed = await run_session_async(config(), scripted(ANSWERS[:1]), ledger="memory:", runs_root=tmp_path)
    assert failed.answer is None


def test_the_names_are_there_and_importing_the_package_loads_nothing() -> None:
    names = {"run_session", "transcript_replay", "execution_replay", "PinningViolation"}
    assert names <= set(hansard.__all__)


class Slow:
    """A provider that never answers."""

    id, unmetered = "fake", True

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def describe(self) -> dict[str, str]:
        """The same as whoever answers when the session goes on: it goes on with the same minds only."""
        return dict(scripted(ANSWERS).describe())

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Kept) -> Completion:
        self.asked.set()
        await asyncio.sleep(3600)
        raise AssertionError


def made(service: Hansard, runs: Path | None = None, **more: Any) -> Convening:
    return convening(service.settings, service.pool, Call(config=config(), runs=runs, **more))


async def test_the_limits_of_a_session_are_on_the_record_before_anybody_is_asked() -> None:
    """Whoever audits what it took has them to compare it with."""
    caps = {"max_total_tokens": 9_000, "max_total_cost_usd": 0.25, "max_wallclock_seconds": 77}
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service, caps=caps, max_calls=12))
        [configured] = [entry for entry in service.runs.entries(run) if entry.kind == "run.configured"]
        limits = {"max_calls": 12, "max_tokens": 9_000, "max_cost_usd_nano": 250_000_000, "max_seconds": 77}
        assert {name: configured.data[name] for name in limits} == limits
        budget = service.runs.show(run)["budget"]
        assert {name: budget[name] for name in limits} == limits


async def test_a_session_that_was_interrupted_here_is_cancelled_by_whoever_asks_for_it_here(tmp_path: Path) -> None:
    """Whoever held it hears of nothing any more: to tell him would end nothing, and nobody would know."""
    slow = Slow()
    async with Hansard.open("memory:", providers={"fake": slow}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        for _ in range(2):
            holding = asyncio.ensure_future(service.deliberations.hold(run))
            await slow.asked.wait()
            slow.asked.clear()
            holding.cancel()
            await asyncio.wait([holding])
        await service.deliberations.cancel(run)
        assert deliberation_view(service.store, run)["state"] == "cancelled"
    assert read_manifest(tmp_path / "s-1").status == "terminated"


async def test_what_is_no_deliberation_is_refused_before_there_is_a_claim_of_that_name() -> None:
    """The claims of whoever seals and of whoever works have names, too."""
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        before = service.store.epoch("worker")
        for act in (service.deliberations.hold, service.deliberations.drive, service.deliberations.resume):
            with pytest.raises(UsageError, match="there is no deliberation 'worker'"):
                await act("worker")
        assert service.store.epoch("worker") == before
        assert not service.deliberations._cancels


@requirement("R-8.5-1")
async def test_a_session_is_cancelled_from_python(tmp_path: Path) -> None:
    slow = Slow()
    async with Hansard.open("memory:", providers={"fake": slow}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        holding = asyncio.ensure_future(service.deliberations.hold(run))
        await slow.asked.wait()
        await service.deliberations.cancel(run)
        sat = await holding
        assert sat.sitting.reason == "user_cancel"
        view = deliberation_view(service.store, run)
        assert (view["state"], view["termination_reason"]) == ("cancelled", "user_cancel")
    assert read_manifest(tmp_path / "s-1").status == "terminated"


async def test_a_session_that_is_cancelled_while_its_claim_is_taken_ends_where_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run, claim = await service.deliberations.convene(made(service, tmp_path)), service.store.claim

        def slowly(name: str, lease_s: float) -> Claim:
            # Slower than whoever cancels, who would have the claim first.
            time.sleep(0.3)
            return claim(name, lease_s)

        monkeypatch.setattr(service.store, "claim", slowly)
        holding = asyncio.ensure_future(service.deliberations.hold(run))
        await service.deliberations.cancel(run)
        assert (await holding).sitting.reason == "user_cancel"
        assert deliberation_view(service.store, run)["spent"]["calls"] == 0
        with pytest.raises(UsageError, match="has ended"):
            await service.deliberations.cancel(run)


async def test_the_claims_of_many_sessions_are_renewed_with_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.01)
    slow, together = Slow(), list[int]()
    async with Hansard.open("memory:", providers={"fake": slow}) as service:
        renew_all = service.store.renew_all

        def noted(claims: Sequence[Claim], lease_s: float) -> None:
            together.append(len(claims))
            renew_all(claims, lease_s)

        monkeypatch.setattr(service.store, "renew_all", noted)
        runs = [await service.deliberations.convene(made(service, tmp_path / str(number))) for number in range(3)]
        holding = [asyncio.ensure_future(service.deliberations.hold(run)) for run in runs]
        async with asyncio.timeout(30):
            while 3 not in together:  # noqa: ASYNC110 - renewing a lease rings no bell
                await asyncio.sleep(0.01)
        for each in holding:
            each.cancel()
        await asyncio.wait(holding)


async def test_the_newest_session_is_found_without_reading_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        for number in range(10):
            run = await service.deliberations.convene(made(service, tmp_path / str(number)))
            service.pool.given["fake"] = scripted(ANSWERS)
            await service.deliberations.hold(run)
        body, read = service.store.body, list[int]()

        def noted(seq: int, part: str) -> StoredBody | None:
            read.append(seq)
            return body(seq, part)

        monkeypatch.setattr(service.store, "body", noted)
        assert find_session(service.store, tmp_path / "9" / "s-1") == run
        assert len(read) == 1


@requirement("R-7.3-1", "R-7.3-3")
async def test_a_session_that_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    ledger, slow = str(tmp_path / "log.db"), Slow()
    async with Hansard.open(ledger, providers={"fake": slow}) as service:
        run = await service.deliberations.convene(made(service, tmp_path / "runs"))
        holding = asyncio.ensure_future(service.deliberations.hold(run))
        await slow.asked.wait()
        holding.cancel()
        await asyncio.wait([holding])
        assert deliberation_view(service.store, run)["state"] == "interrupted"
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        assert find_session(service.store, tmp_path / "runs" / "s-1") == run
        sat = await service.deliberations.resume(run)
        assert sat.sitting.reason == "synthesis"
        assert deliberation_view(service.store, run)["state"] == "answered"
        with pytest.raises(UsageError, match="nothing to resume"):
            await service.deliberations.resume(run)
        assert validated(tmp_path / "runs" / "s-1", service.store).ok


@pytest.mark.parametrize("dear", range(5))
async def test_that_nobody_knows_the_price_of_a_call_is_said_at_the_end_whoever_asked_before(
    dear: int, tmp_path: Path
) -> None:
    """Each call of the session in turn is the one without a price; the driver is interrupted at the fourth."""

    asked = asyncio.Event()

    def speaking(first: int, stops: bool) -> Voices:
        count = iter(range(first, 99))

        def says(exchange: Exchange) -> Any:
            if not stops or len(voices.calls) < 4:
                return agreeing(exchange)
            asked.set()
            return asyncio.Event().wait()

        class Dear(Voices):
            async def complete(self, exchange: Exchange) -> Completion:
                said, number = await super().complete(exchange), next(count)
                return replace(said, cost=Cost()) if number == dear else said

        voices = Dear(says, id="fake", unmetered=False)
        return voices

    ledger = str(tmp_path / "log.db")
    async with Hansard.open(ledger, providers={"fake": speaking(0, stops=True)}) as service:
        run = await service.deliberations.convene(made(service, tmp_path / "runs"))
        holding = asyncio.ensure_future(service.deliberations.hold(run))
        await asked.wait()
        holding.cancel()
        await asyncio.wait([holding])
    async with Hansard.open(ledger, providers={"fake": speaking(3, stops=False)}) as service:
        assert (await service.deliberations.resume(run)).sitting.reason == "synthesis"
        [ended] = [entry for entry in service.runs.entries(run) if entry.kind == "run.ended"]
        answered = [entry for entry in service.runs.entries(run) if entry.data.get("cost_basis") == "unknown"]
        assert (ended.data["calls"], len(answered), ended.data["priced"]) == (6, 1, False)


async def test_who_asked_for_a_session_to_go_on_is_on_the_record_as_what_it_was_taken_up_for(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    run = await crashed(ledger, tmp_path / "runs")
    heard = []
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        service.deliberations.listen(lambda _, recorded: heard.append(recorded.fact.KIND))
        await service.deliberations.resume(run, surface="http", actor="human:ada")
        kinds = {entry.kind: entry for entry in service.runs.entries(run)}
        asked = kinds["run.resume_asked"]
        assert (asked.actor, asked.data["surface"]) == ("human:ada", "http")
        assert asked.causes == (kinds["run.requested"].seq,)
        assert asked.seq in kinds["run.claimed"].causes
        assert heard[:2] == ["run.resume_asked", "run.claimed"]
        audit(service.store, run)


@pytest.mark.parametrize("again", [False, True])
async def test_a_session_that_is_interrupted_while_its_claim_is_written_says_so(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.record.recorder.INLINE_BELOW_S", 0.0)
    async with Hansard.open(str(tmp_path / "log.db"), providers={"fake": scripted(ANSWERS)}) as service:
        deliberations, store, append = service.deliberations, service.store, service.store.append
        run = await deliberations.convene(made(service, tmp_path / "runs"))
        if again:
            await deliberations.hold(run)
            (tmp_path / "runs" / "s-1" / "metrics.json").unlink()
        holding = asyncio.ensure_future(deliberations.resume(run) if again else deliberations.hold(run))
        loop = asyncio.get_running_loop()

        def interrupt(groups: Any, seal: Any = None) -> Any:
            outcomes: Any = append(groups, seal)
            if b"run.claimed" in b"".join(place.line for outcome in outcomes for place in outcome):
                loop.call_soon_threadsafe(holding.cancel)
            return outcomes

        monkeypatch.setattr(store, "append", interrupt)
        with pytest.raises(asyncio.CancelledError):
            await holding
        monkeypatch.setattr(store, "append", append)
        assert service.runs.listed()[0]["state"] == ("answered" if again else "interrupted")
        if again:
            # What it lacked was written before anything was said of it.
            assert validated(tmp_path / "runs" / "s-1", store).ok
        else:
            assert (await deliberations.resume(run)).sitting.reason == "synthesis"
        assert deliberation_view(store, run)["state"] == "answered"


async def test_a_session_whose_holder_is_interrupted_in_the_commit_that_ends_its_run_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it was interrupted would be said behind its end, and somebody would go on with it."""
    monkeypatch.setattr("hansard.record.recorder.INLINE_BELOW_S", 0.0)
    async with Hansard.open(str(tmp_path / "log.db"), providers={"fake": scripted(ANSWERS)}) as service:
        deliberations, store, append = service.deliberations, service.store, service.store.append
        run = await deliberations.convene(made(service, tmp_path / "runs"))
        holding, loop = asyncio.ensure_future(deliberations.hold(run)), asyncio.get_running_loop()

        def interrupt(groups: Any, seal: Any = None) -> Any:
            outcomes: Any = append(groups, seal)
            if b"run.ended" in b"".join(place.line for outcome in outcomes for place in outcome):
                loop.call_soon_threadsafe(holding.cancel)
            return outcomes

        monkeypatch.setattr(store, "append", interrupt)
        with pytest.raises(asyncio.CancelledError):
            await holding
        monkeypatch.setattr(store, "append", append)
        assert service.runs.show(run)["state"] == "answered"
        kinds = [entry.kind for entry in service.runs.entries(run)]
        assert (kinds[-1], kinds.count("run.ended"), "run.interrupted" in kinds) == ("run.ended", 1, False)
        with pytest.raises(UsageError, match="nothing to resume"):
            await deliberations.resume(run)


async def crashed(ledger: str, runs: Path) -> str:
    """A run whose session was interrupted in its directory."""
    slow = Slow()
    async with Hansard.open(ledger, providers={"fake": slow}) as service:
        run = await service.deliberations.convene(made(service, runs))
        holding = asyncio.ensure_future(service.deliberations.hold(run))
        await slow.asked.wait()
        holding.cancel()
        await asyncio.wait([holding])
    return run


async def test_who_may_not_resume_a_session_that_another_process_holds_leaves_nothing_on_the_record(
    tmp_path: Path,
) -> None:
    ledger = str(tmp_path / "log.db")
    run = await crashed(ledger, tmp_path / "runs")
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        claim, size = service.store.claim(run, 60), service.store.head().size
        for resume in (service.deliberations.resume, service.runs.resume):
            with pytest.raises(Fenced):
                await resume(run)
        assert service.store.head().size == size
        service.store.release(claim)
        assert (await service.runs.resume(run)).state == "answered"
        [asked] = service.store.select(Query(run=run, kind="run.resume_asked"))
        [*_, claimed] = service.store.select(Query(run=run, kind="run.claimed"))
        assert asked.seq in claimed.causes


async def test_a_session_that_another_process_holds_is_cancelled_by_a_word_on_the_record(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    run = await crashed(ledger, tmp_path / "runs")
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        claim = service.store.claim(run, 60)
        await service.deliberations.cancel(run)
        assert [each.kind for each in service.runs.entries(run)][-1] == "run.cancel_asked"
        service.store.release(claim)
        # Whoever comes next finds it there.
        assert (await service.runs.drive(run)).state == "cancelled"


async def test_a_directory_that_is_further_than_the_record_is_to_be_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "runs" / "s-1"
    kept.mkdir()
    monkeypatch.setenv("HANSARD_STATE", str(kept / "state"))
    ledger = str(kept / "log.db")
    run = await crashed(ledger, tmp_path / "runs")
    copytree(kept, tmp_path / "backup")
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        await service.deliberations.resume(run)
    rmtree(kept)
    copytree(tmp_path / "backup", kept)
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        with pytest.raises(
            UsageError, match=r"the record has not come so far: .* move the folder away, and resume then"
        ):
            await service.deliberations.resume(run)
        folder.rename(tmp_path / "away")
        assert (await service.deliberations.resume(run)).sitting.reason == "synthesis"
        assert validated(folder, service.store).ok


async def test_a_session_with_which_nobody_can_go_on_is_not_told_as_running(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    run = await crashed(ledger, tmp_path / "runs")
    written = tmp_path / "runs" / "s-1" / "config.json"
    kept = written.read_bytes()
    written.write_bytes(kept.replace(b"What now?", b"What then?"))
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        for _ in range(2):
            with pytest.raises(UsageError, match="put it back"):
                await service.deliberations.resume(run)
        assert service.runs.listed()[0]["state"] == "interrupted"
        assert len([each for each in service.runs.entries(run) if each.kind == "run.claimed"]) == 1
        written.write_bytes(kept)
        assert (await service.deliberations.resume(run)).sitting.reason == "synthesis"
        audit(service.store, run)


async def test_a_session_whose_end_finds_no_room_is_not_told_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer may be long, and that somebody has left is short."""
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        deliberations, append = service.deliberations, service.store.append
        run = await deliberations.convene(made(service, tmp_path))

        def full(groups: Any, seal: Any = None) -> Any:
            if any("run.answered" in str(draft) for group in groups for draft in group):
                raise Unavailable("no space left on device")
            return append(groups, seal)

        monkeypatch.setattr(service.store, "append", full)
        with pytest.raises(Unavailable, match="no space left"):
            await deliberations.hold(run)
        assert service.runs.listed()[0]["state"] == "interrupted"
        monkeypatch.setattr(service.store, "append", append)
        assert (await deliberations.resume(run)).sitting.reason == "synthesis"
        assert deliberation_view(service.store, run)["state"] == "answered"


async def test_a_directory_is_resumed_by_the_run_that_lies_there_and_no_other(tmp_path: Path) -> None:
    ledger, runs = str(tmp_path / "log.db"), tmp_path / "runs"
    run = await crashed(ledger, runs)
    (tmp_path / "link").symlink_to(runs)
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS * 2)}) as service:
        other = (await service.deliberations.hold(await service.deliberations.convene(made(service)))).run
        await service.deliberations.convene(made(service, tmp_path / "unborn"))
        assert find_session(service.store, runs / "s-1") == find_session(service.store, tmp_path / "link/s-1") == run
        (runs / "s-1" / "manifest.json").unlink()
        assert find_session(service.store, tmp_path / "link/../runs/s-1") == run
        with pytest.raises(UsageError, match=f"{run} is a run, and its session lies in {runs / 's-1'}: name that"):
            find_session(service.store, runs / run)
        with pytest.raises(UsageError, match="nothing to resume"):
            await service.deliberations.resume(other)
        assert deliberation_view(service.store, other)["state"] == "answered"


async def test_a_directory_that_was_moved_is_not_resumed_and_the_advice_is_true(tmp_path: Path) -> None:
    ledger, runs = str(tmp_path / "log.db"), tmp_path / "runs"
    run = await crashed(ledger, runs)
    runs.rename(tmp_path / "moved")
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        with pytest.raises(
            UsageError, match=rf"move it to {runs / 's-1'}, or `hansard runs resume {run} --ledger {ledger}`"
        ):
            find_session(service.store, tmp_path / "moved" / "s-1")
        assert (await service.runs.resume(run)).state == "answered"
        assert validated(runs / "s-1", service.store, named=True).ok
        with pytest.raises(UsageError) as refused:
            find_session(service.store, tmp_path / "moved" / "s-1")
        assert "runs resume" not in str(refused.value)
        with pytest.raises(UsageError, match="knows no session"):
            find_session(service.store, tmp_path)


def test_a_pinned_session_writes_the_same_log_of_its_calls_however_long_they_took(tmp_path: Path) -> None:
    def held(name: str) -> bytes:
        log = str(tmp_path / f"{name}.db")
        run_session(config(), scripted(ANSWERS), runs_root=tmp_path / name, ledger=log, harness_pinning=pinned())
        return (tmp_path / name / "s-1" / EVENTS).read_bytes()

    assert held("a") == held("b")


class FullDisk(Archive):
    """A directory that cannot be completed."""

    def finish(self, files: Any) -> Any:
        raise StoreError("the disk is full")


async def test_an_end_stays_the_last_word_when_the_directory_is_completed_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = str(tmp_path / "log.db")
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        with monkeypatch.context() as patch:
            patch.setattr("hansard.deliberation.session.Archive", FullDisk)
            assert "disk is full" in str((await service.deliberations.hold(run)).sitting.fault)
            before = service.runs.show(run)
            # Still full: this fails, and the run has ended all the same.
            with pytest.raises(StoreError, match="disk is full"):
                await service.deliberations.resume(run)
            assert service.runs.show(run)["state"] == "answered"
        assert (await service.deliberations.resume(run)).sitting.fault is None
        after = service.runs.show(run)
        kinds = [entry.kind for entry in service.runs.entries(run)]
        assert (after["state"], after["spent"], after["answer"]) == ("answered", before["spent"], before["answer"])
        assert (kinds.count("run.answered"), kinds.count("run.ended"), kinds[-1]) == (1, 3, "run.ended")
        audit(service.store, run)
        assert validated(tmp_path / "s-1", service.store, named=True).ok
        with pytest.raises(UsageError, match="nothing to resume"):
            await service.deliberations.resume(run)


async def test_whoever_died_behind_the_end_leaves_a_run_that_can_be_ended_again(tmp_path: Path) -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        await service.deliberations.hold(run)
        async with service.deliberations._held(run) as hold:
            await hold._claimed()
        assert deliberation_view(service.store, run)["state"] == "running"
        assert (await service.deliberations.resume(run)).sitting.fault is None
        assert deliberation_view(service.store, run)["state"] == "answered"


async def test_a_configuration_that_is_gone_hides_no_deliberation(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS * 2)}) as service:
        runs = [await service.deliberations.convene(made(service, tmp_path / name)) for name in "ab"]
        for run in runs:
            await service.deliberations.hold(run)
        configured = next(each.seq for each in service.runs.entries(runs[1]) if each.kind == "run.configured")
        before = service.deliberations.show(runs[1])
        service.store.erase((configured, "config"))
        assert [view["run"] for view in service.deliberations.listed()] == runs[::-1]
        assert find_session(service.store, tmp_path / "a" / "s-1") == runs[0]
        assert service.deliberations.show(runs[1]) == before | {"run_dir": None}


async def test_a_replay_that_fails_has_ended_whatever_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*_: Any, **__: Any) -> Any:
        raise RuntimeError("something nobody thought of")

    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        await service.deliberations.hold(await service.deliberations.convene(made(service, tmp_path)))
        monkeypatch.setattr("hansard.app.driving.holding.execution_replay", breaks)
        with pytest.raises(RuntimeError):
            await service.deliberations.replay(tmp_path / "s-1", lambda _: made(service, tmp_path / "again"))
        replayed = service.deliberations.listed()[0]
        assert (replayed["state"], replayed["session_id"]) == ("failed", "s-1-replay")
        assert replayed["run_dir"] == str(tmp_path / "again" / "s-1-replay")


@requirement("R-7.3-2")
def test_a_session_takes_the_next_id_where_another_process_was_quicker(tmp_path: Path) -> None:
    def stamp(ordinal: int) -> str:
        # The first thing that a session asks for, before it makes its directory.
        (tmp_path / "s-1").mkdir(exist_ok=True)
        return pinned().stamp(ordinal)

    (tmp_path / "s-1-r1").symlink_to("nowhere")
    pins = replace(pinned(), stamp=stamp)
    artifact = run_session(config(), scripted(ANSWERS), runs_root=tmp_path, ledger="memory:", harness_pinning=pins)
    assert (artifact.outcome.kind, artifact.session_id, artifact.fault) == ("synthesis", "s-1-r2", None)
    assert not list((tmp_path / "s-1").iterdir())


@requirement("R-7.3-2")
async def test_a_crash_between_the_directory_and_the_record_leaves_the_directory_alone(tmp_path: Path) -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        (tmp_path / "s-1").mkdir()
        sat = await service.deliberations.hold(run)
        assert sat.sitting.directory == tmp_path / "s-1-r1"
        assert list((tmp_path / "s-1").iterdir()) == []


async def test_a_run_whose_session_is_over_is_ended_by_whoever_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed when the session is over, before the run says so")

    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        with monkeypatch.context() as killed:
            killed.setattr("hansard.app.driving.holding.Hold._ended", dies)
            with pytest.raises(RuntimeError):
                await service.deliberations.hold(run)
        assert service.runs.show(run)["state"] == "interrupted"
        sat = await service.deliberations.resume(run)
        view = service.runs.show(run)
        assert (view["state"], view["answer"], sat.sitting.reason) == ("answered", "Yes.", "synthesis")
        assert (view["spent"]["calls"], view["spent"]["tokens"]) == (len(ANSWERS), 10 * len(ANSWERS))
        assert sum(entry.kind == "run.ended" for entry in service.runs.entries(run)) == 1


async def test_two_sessions_can_be_held_again_at_once(tmp_path: Path) -> None:
    ledger = str(tmp_path / "log.db")
    await run_session_async(config(), scripted(ANSWERS), ledger=ledger, runs_root=tmp_path)

    def again() -> bool:
        return execution_replay(tmp_path / "s-1", script=SCRIPT, ledger="memory:", assumed=["adapter"]).matches

    assert all(await asyncio.gather(asyncio.to_thread(again), asyncio.to_thread(again)))


@pytest.mark.parametrize("left", [b"", b"1 2026-01-01T00:00:00Z", b"99999999 never"])
async def test_a_lock_that_a_crash_has_left_behind_blocks_nobody(left: bytes, tmp_path: Path) -> None:
    ledger, slow = str(tmp_path / "log.db"), Slow()
    async with Hansard.open(ledger, providers={"fake": slow}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        holding = asyncio.ensure_future(service.deliberations.hold(run))
        await slow.asked.wait()
        holding.cancel()
        await asyncio.wait([holding])
    (tmp_path / "s-1" / ".lock").write_bytes(left)
    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        assert (await service.deliberations.resume(run)).sitting.reason == "synthesis"


async def test_runs_and_deliberations_are_driven_through_the_same_door() -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service))
        ended = await service.runs.drive(run)
        assert (ended.state, ended.reason) == ("answered", "synthesis")
        view = service.runs.show(run)
        assert (view["mode"], view["answer"]) == ("deliberation", "Yes.")
        [listed] = service.deliberations.listed()
        assert listed == service.deliberations.show(run)
        assert (listed["outcome"], listed["synthesis_answer"], listed["rounds"]) == ("synthesis", "Yes.", 1)
        with pytest.raises(UsageError, match="no deliberation"):
            service.deliberations.show("nothere")


async def test_a_session_that_is_over_is_not_ended_again_by_whoever_comes_to_drive_it(tmp_path: Path) -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service, tmp_path))
        ended = await service.runs.drive(run)
        before = service.runs.views(run)
        # As a daemon does with what another process held when it first came.
        assert await service.runs.drive(run) == ended
        assert service.runs.views(run) == before


async def test_a_session_whose_directory_cannot_be_made_ends_its_run_and_is_taken_up_by_nobody(tmp_path: Path) -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service, tmp_path / "runs"))
        (tmp_path / "runs").rmdir()
        (tmp_path / "runs").write_text("in the way")
        with pytest.raises((UsageError, StoreError)):
            await service.deliberations.hold(run)
        ended = service.runs.entries(run)[-1]
        assert (ended.kind, ended.data["state"], ended.data["calls"]) == ("run.ended", "failed", 0)
        assert ended.data["reason"].startswith("not_begun: ")
        audit(service.store, run)


async def test_a_session_has_no_task_to_do_again_and_what_can_be_done_instead_is_told() -> None:
    async with Hansard.open("memory:", providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service))
        for ended in (False, True):
            for again in (service.runs.retry, service.runs.ask_to_retry):
                with pytest.raises(UsageError, match="is a panel's, and has no task to do again; `hansard deliberate"):
                    await again(run, "only")
            if not ended:
                await service.deliberations.hold(run)
        assert service.runs.show(run)["state"] == "answered"
        assert service.runs.entries(run)[-1].kind == "run.ended"


async def test_a_session_that_ends_while_another_process_takes_its_claim_is_not_ended_again(tmp_path: Path) -> None:
    ledger, busy, free = str(tmp_path / "log.db"), threading.Event(), ThreadPoolExecutor(1)

    def held_elsewhere() -> None:
        async def hold() -> None:
            async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as other:
                await other.runs.drive(run)

        asyncio.run(hold())

    async with Hansard.open(ledger, providers={"fake": scripted(ANSWERS)}) as service:
        run = await service.deliberations.convene(made(service))
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        held_up = loop.run_in_executor(None, busy.wait)
        driving = asyncio.create_task(service.runs.drive(run))
        await asyncio.sleep(0)
        await loop.run_in_executor(free, held_elsewhere)
        busy.set()
        assert (await driving).state == "answered"
        await held_up
        kinds = [view["kind"] for view in service.runs.views(run)]
        assert (kinds.count("run.answered"), kinds.count("run.ended"), kinds[-1]) == (1, 1, "run.ended")
    free.shutdown()


def settings(environment: dict[str, str], **tables: Any) -> Settings:
    return Settings(ledger="memory:", state=Path(), environment=environment, providers=tables)


@requirement("R-6.8-1", "R-6.8-2")
@pytest.mark.parametrize("model", ["gpt-4.1-mini", "claude-sonnet-4-5"])
def test_a_key_that_is_missing_is_told_before_anything_begins(model: str) -> None:
    given = settings({})
    with pytest.raises(UsageError, match=re.escape("_API_KEY is not set")):
        convening(given, Pool(given), Call(problem="What?", wishes=Wishes(api=model)))


@requirement("R-6.8-1", "R-8.9-1")
def test_a_key_is_known_as_a_secret_as_soon_as_its_provider_is_open() -> None:
    given = settings({"OPENAI_API_KEY": "sk-0123456789abcdef"})
    pool = Pool(given)
    session = convening(given, pool, Call(problem="Is sk-0123456789abcdef a key?", wishes=Wishes(api="gpt-4.1-mini")))
    assert b"sk-0123456789abcdef" not in pool.secrets.scrub(session.as_json())
    assert "sk-0123456789abcdef" not in session.setting(pool).config.problem_statement


@requirement("R-8.9-1", "R-8.9-2")
async def test_the_key_of_a_configured_provider_whom_nobody_asks_is_in_no_session_and_no_run(tmp_path: Path) -> None:
    key = "sk-0123456789abcdef"
    cloud = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "CLOUD_KEY", "model": "m"}
    given = replace(
        settings({"CLOUD_KEY": key}, cloud=cloud), ledger=str(tmp_path / "log.db"), state=tmp_path / "state"
    )

    def says(exchange: Exchange) -> Any:
        said = agreeing(exchange)
        return {**said, "text": f"I found {key}."} if "text" in said else said

    async with Hansard.open(settings=given, providers={"voices": Voices(says)}) as service:
        call = Call(config=default_config(f"Is {key} safe?", "voices", "voice"), runs=tmp_path / "runs")
        run = await service.deliberations.convene(convening(service.settings, service.pool, call))
        sitting = (await service.deliberations.hold(run)).sitting
        assert "I found " in sitting.artifact["canonical_transcript"][1]["content"]["text"]
        await service.runs.submit(
            f"Use {key}.", run_config(service.settings, service.pool, Wishes(provider="voices", roster=roster()))
        )
    assert files_with(tmp_path, key.encode()) == []


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_whoever_hansard_toml_names_is_asked_by_default_and_with_its_own_model() -> None:
    table = {"kind": "scripted", "model": "m-1", "entries": [{"text": "hello"}]}
    given = settings({}, mine=table)
    session = convening(given, Pool(given), Call(problem="What?"))
    assert {(agent.provider, agent.model) for agent in session.config.agents} == {("mine", "m-1")}
    assert session.providers == {"mine": table}
    wished = convening(given, Pool(given), Call(problem="What?", wishes=Wishes(provider="mine:m-2")))
    assert (wished.config.coordinator.provider, wished.config.coordinator.model) == ("mine", "m-2")


def test_a_script_and_a_provider_contradict_each_other() -> None:
    given = settings({})
    with pytest.raises(UsageError, match="script answers for every agent"):
        convening(given, Pool(given), Call(problem="What?", script=SCRIPT, wishes=Wishes(provider="rehearsal")))


def test_a_convening_comes_back_from_the_record_as_it_was() -> None:
    session = Convening(config=default_config("What?", "fake"), runs="/somewhere", shape="reference", script=SCRIPT)
    assert Convening.from_json(session.as_json()) == session


@pytest.mark.parametrize("answered_before", range(8))
def test_a_script_goes_on_behind_the_calls_that_were_answered(answered_before: int) -> None:
    for mode, rest in (("error", 6 - answered_before), ("loop", 6)):
        session = Convening(config=config(), script={**SCRIPT, "on_exhaustion": mode})
        provider: Any = session.setting(Pool(settings({})), answered=answered_before).providers["fake"]
        assert len(provider._script.entries) == max(0, rest)
        if mode == "loop":
            first = provider._script.entries[0].reply.structured
            assert first == ANSWERS[answered_before % 6].content  # type: ignore[union-attr]
