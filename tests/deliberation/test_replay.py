"""Replays: a transcript always, byte for byte; a whole session only when nothing that decided it has changed."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deliberating import Heard, Room, config, fails, scripted, synthesis, turn, verdict
from hansard.deliberation.afterwards.replay import (
    CONDITIONS,
    ExecutionReplay,
    Original,
    PinningViolation,
    execution_replay,
    read_original,
    transcript_replay,
)
from hansard.deliberation.documents import Config, jcs
from hansard.deliberation.pins import live, pinned
from hansard.deliberation.setting import Setting
from hansard.errors import UsageError
from hansard.providers.base import Wrapper

requirement = pytest.mark.requirement
ANSWERS: list[Heard] = [
    *(turn("ben", "cyd"), turn("cyd"), fails("network"), turn(), turn(), verdict()),
    *(turn(), turn(), turn(), turn(), verdict("finalize"), synthesis()),
]


async def original(runs: Path, answers: list[Heard] = ANSWERS, **knobs: Any) -> Original:
    await Room().hold(config(**knobs), answers, runs=runs)
    return read_original(runs / "s-1")


async def replay(given: Original, answers: list[Heard] = ANSWERS, **more: Any) -> ExecutionReplay:
    provider = more.pop("provider", None)
    providers = more.pop("providers", None)

    def setting(wanted: Config) -> Setting:
        fake = provider or scripted(answers)
        return Setting.of(wanted, providers={"fake": fake} if providers is None else providers)

    async with Room() as pen:
        return await execution_replay(given, setting, pen, **more)


@requirement("R-7.5-1", "R-7.5-2", "R-7.7-1", "R-9.8-1")
async def test_replay_transcript_gives_the_exact_bytes_and_their_digest() -> None:
    sitting = await Room().hold(config(), ANSWERS)
    replayed = transcript_replay(json.loads(json.dumps(sitting.artifact)))
    assert replayed.output == jcs(sitting.artifact["canonical_transcript"])
    assert replayed.matches


@requirement("R-7.7-3")
async def test_a_transcript_that_was_changed_has_another_digest_than_it_claims() -> None:
    artifact = (await Room().hold(config(), ANSWERS)).artifact
    artifact["canonical_transcript"][1]["content"]["text"] = "Never said."
    assert not transcript_replay(artifact).matches
    with pytest.raises(UsageError):
        transcript_replay({})


@requirement("R-7.3-2")
async def test_a_replay_takes_the_next_id_where_another_process_was_quicker(tmp_path: Path) -> None:
    given, wanted = await original(tmp_path), list[str]()

    def setting(fresh: Config) -> Setting:
        if fresh.session_id.endswith("-replay"):
            (tmp_path / fresh.session_id).mkdir()
        wanted.append(fresh.session_id)
        return Setting.of(fresh, providers={"fake": scripted(ANSWERS)})

    async with Room() as pen:
        done = await execution_replay(given, setting, pen, runs=tmp_path)
    assert (done.matches, wanted) == (True, ["s-1", "s-1-replay", "s-1-replay-2"])
    assert not list((tmp_path / "s-1-replay").iterdir())


@requirement("R-2.7-1", "R-9.8-1", "R-7.6-1", "R-7.6-2")
async def test_replay_execution_comes_to_the_same_digest_in_a_directory_of_its_own(tmp_path: Path) -> None:
    given = await original(tmp_path)
    done = await replay(given, runs=tmp_path)
    assert done.matches
    assert done.first_diverging_message_id is None
    assert done.checked == CONDITIONS
    assert done.fresh.directory == tmp_path / "s-1-replay"
    again = await replay(given, runs=tmp_path)
    assert again.fresh.directory == tmp_path / "s-1-replay-2"
    assert read_original(tmp_path / "s-1") == given


async def test_a_replay_with_other_answers_says_where_it_goes_another_way(tmp_path: Path) -> None:
    done = await replay(await original(tmp_path), [*ANSWERS[:3], turn(text="Otherwise."), *ANSWERS[4:]])
    assert not done.matches
    assert done.first_diverging_message_id == "msg-003"


async def test_a_replay_that_ends_sooner_or_later_says_at_which_message(tmp_path: Path) -> None:
    short = [*ANSWERS[:-1], fails("auth_failure")]
    last = (await replay(await original(tmp_path / "long"))).fresh.artifact["canonical_transcript"][-1]["id"]
    for name, then, now in (("long", ANSWERS, short), ("short", short, ANSWERS)):
        done = await replay(await original(tmp_path / f"{name}-again", then), now)
        assert (done.matches, done.first_diverging_message_id) == (False, last), name


async def test_a_replay_can_be_cancelled(tmp_path: Path) -> None:
    cancel = asyncio.Event()
    cancel.set()
    done = await replay(await original(tmp_path), cancel=cancel)
    assert done.fresh.artifact["outcome"]["termination_artifact"]["reason"] == "user_cancel"


def test_the_real_clock_is_told_in_utc_to_the_microsecond(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1_700_000_000_000_001_999, 1_700_000_000_123_456_000, 1_700_000_061_999_999_999])
    monkeypatch.setattr("hansard.deliberation.pins.time.time_ns", lambda: next(times))
    pins = live(seed=7)
    assert [pins.stamp(0) for _ in range(3)] == [
        "2023-11-14T22:13:20.000001Z",
        "2023-11-14T22:13:20.123456Z",
        "2023-11-14T22:14:21.999999Z",
    ]
    assert pins.seed == 7


class Newer(Wrapper):
    """The same provider in another version."""

    def describe(self) -> Mapping[str, str]:
        return {**super().describe(), "version": "2"}


class Real(Wrapper):
    """A provider that is no script."""

    def describe(self) -> Mapping[str, str]:
        return {**super().describe(), "kind": "openai"}


@requirement("R-7.6-3", "R-9.8-1", "R-2.7-1")
async def test_replay_pinning_violation_for_each_condition(tmp_path: Path) -> None:
    given = await original(tmp_path)
    pins = given.pins
    assert pins is not None
    tools = [{"name": "t", "description": "d", "input_schema": {}}]
    armed = json.loads(json.dumps(given.artifact))
    armed["config"]["agents"][0]["tools"] = tools
    as_real = replace(given, pins={**pins, "adapters": {"fake": Real(scripted(ANSWERS)).describe()}})
    cases: dict[str, tuple[Original, dict[str, Any]]] = {
        "runtime": (given, {"producer": {"name": "hansard", "version": "9.9.9"}}),
        "adapter": (given, {"provider": Newer(scripted(ANSWERS))}),
        "provider": (given, {"providers": {}}),
        "model": (as_real, {"provider": Real(scripted(ANSWERS))}),
        "sampling": (replace(given, pins={**pins, "sampling": {}}), {}),
        "cache": (as_real, {"provider": Real(scripted(ANSWERS)), "assumed": ["model"]}),
        "tool_env": (replace(given, artifact=armed), {}),
        "persona": (replace(given, pins={**pins, "personas": {}}), {}),
        "transcript_prefix": (given, {"prefix": [{"id": "msg-000"}]}),
    }
    for condition, (changed, more) in cases.items():
        with pytest.raises(PinningViolation) as caught:
            await replay(changed, **{**more, "runs": tmp_path / "fresh"})
        assert caught.value.condition == condition
        assert not (tmp_path / "fresh").exists()


@requirement("R-7.6-3")
async def test_a_session_that_a_clock_has_ended_is_not_replayed_without_that_clock(tmp_path: Path) -> None:
    now = iter(range(0, 10**12, 700_000))
    clock = replace(pinned(), elapsed_us=lambda: next(now))
    await Room().hold(config(budget={"max_wallclock_seconds": 5}), ANSWERS, pins=clock, runs=tmp_path)
    with pytest.raises(PinningViolation) as caught:
        await replay(read_original(tmp_path / "s-1"))
    assert caught.value.condition == "wallclock"


@requirement("R-7.6-3")
async def test_a_condition_that_the_caller_vouches_for_is_told_as_assumed(tmp_path: Path) -> None:
    given = await original(tmp_path)
    done = await replay(replace(given, pins=None), assumed=["adapter", "sampling", "tool_env", "persona"])
    assert done.matches
    assert done.assumed == ("adapter", "sampling", "tool_env", "persona")
    assert "persona" not in done.checked


@requirement("R-7.6-3")
@pytest.mark.parametrize(("assumed", "open_yet"), [(["adapter"], "model"), (["adapter", "model"], "cache")])
async def test_whoever_vouches_for_an_adapter_does_not_vouch_for_the_model_behind_it(
    tmp_path: Path, assumed: list[Any], open_yet: str
) -> None:
    given = await original(tmp_path)
    assert given.pins is not None
    as_real = replace(given, pins={**given.pins, "adapters": {"fake": Real(scripted(ANSWERS)).describe()}})
    with pytest.raises(PinningViolation) as caught:
        await replay(as_real, assumed=assumed)
    assert caught.value.condition == open_yet


@requirement("R-7.6-3")
async def test_nobody_can_vouch_for_a_provider_that_is_not_here(tmp_path: Path) -> None:
    with pytest.raises(PinningViolation) as caught:
        await replay(await original(tmp_path), providers={}, assumed=CONDITIONS, runs=tmp_path / "fresh")
    assert caught.value.condition == "provider"
    assert not (tmp_path / "fresh").exists()


@requirement("R-7.6-2")
async def test_the_true_beginning_of_the_transcript_is_accepted(tmp_path: Path) -> None:
    given = await original(tmp_path)
    assert (await replay(given, prefix=given.artifact["canonical_transcript"][:3])).matches


@requirement("R-7.3-1")
async def test_a_directory_that_breaks_its_own_rules_is_not_replayed(tmp_path: Path) -> None:
    await original(tmp_path)
    path = tmp_path / "s-1" / "artifact.json"
    data = json.loads(path.read_bytes())
    data["canonical_transcript"][1]["content"]["text"] = "Never said."
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match="digest"):
        read_original(tmp_path / "s-1")


@pytest.mark.parametrize(
    "pins", [b"garbage", b"[]", b"5", b'[["adapters", {}]]', b'{"adapters": 5}', b'{"message_shape": "round"}']
)
async def test_pins_that_cannot_be_read_are_named(pins: bytes, tmp_path: Path) -> None:
    await original(tmp_path)
    (tmp_path / "s-1" / "pins.json").write_bytes(pins)
    with pytest.raises(UsageError, match=re.escape("pins.json")):
        read_original(tmp_path / "s-1")


async def test_a_session_in_the_shape_of_the_reference_is_held_again_in_it(tmp_path: Path) -> None:
    await Room().hold(config(), ANSWERS, runs=tmp_path, setting={"shape": "reference"})
    done = await replay(read_original(tmp_path / "s-1"))
    assert (done.matches, done.first_diverging_message_id) == (True, None)


async def test_a_long_id_is_shortened_and_stays_apart(tmp_path: Path) -> None:
    long = Config.parse({**config().as_data(), "session_id": "x" * 64})
    await Room().hold(long, ANSWERS, runs=tmp_path)
    done = await replay(read_original(tmp_path / ("x" * 64)), runs=tmp_path)
    assert done.matches
    assert done.fresh.directory is not None
    assert len(done.fresh.directory.name) == 64
