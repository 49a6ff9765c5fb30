"""Replays a finished session: its transcript, byte for byte, or the whole of it again under ten pinning conditions [§7.5, §7.6].

Nothing is replayed on trust: a condition that is not shown, and that the caller does not vouch for, ends the replay
before it begins. Digests are made over what is stored, never over what a file says of itself.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from hansard.deliberation.archive import Taken, read_manifest
from hansard.deliberation.documents import Artifact, Config, RunManifest, jcs, transcript_bytes
from hansard.deliberation.documents.semantics import semantic_breaches
from hansard.deliberation.documents.vocabulary import PinningCondition
from hansard.deliberation.inventory import ARTIFACT, PINS, read_file
from hansard.deliberation.pins import as_recorded
from hansard.deliberation.session import PRODUCER, Pen, Sitting, pins_of, run_session
from hansard.deliberation.setting import Setting
from hansard.deliberation.turn import MessageShape
from hansard.domain.strict_json import read_json
from hansard.domain.value import replace, value
from hansard.errors import UsageError, plainly

CONDITIONS: tuple[PinningCondition, ...] = get_args(PinningCondition)
LONGEST_ID = 64
MOST_CALLS = 2_000
SCRIPTED = "scripted"


class PinningViolation(UsageError):
    """A condition of an execution replay that does not hold; nothing was run [R-7.6-3]."""

    def __init__(self, condition: PinningCondition, message: str) -> None:
        super().__init__(f"pinning_violation ({condition}): {message}")
        self.condition: PinningCondition = condition


@value
class TranscriptReplay:
    """The canonical bytes of a transcript, and whether they have the digest that the artifact claims."""

    output: bytes
    stored_digest: str
    digest: str

    @property
    def matches(self) -> bool:
        return self.digest == self.stored_digest


def transcript_replay(artifact: Mapping[str, Any]) -> TranscriptReplay:
    """Emit the transcript again. Needs no model and no configuration [R-7.5-1]."""
    transcript = artifact.get("canonical_transcript")
    if not isinstance(transcript, list):
        raise UsageError("this is no artifact: it has no canonical_transcript")
    output = transcript_bytes(jcs(message) for message in transcript)
    stored = artifact.get("transcript_digest")
    return TranscriptReplay(output=output, stored_digest=str(stored), digest=hashlib.sha256(output).hexdigest())


@value
class Original:
    """A finished session with what its directory says about how it was run. `pins` is None where it says nothing."""

    artifact: dict[str, Any]
    manifest: RunManifest
    pins: Mapping[str, Any] | None

    @property
    def config(self) -> Config:
        return Artifact.parse(self.artifact).config

    @property
    def shape(self) -> MessageShape | None:
        """How its messages are written, where that is known: it decides nothing of a session, and everything of its digest."""
        return None if self.pins is None else self.pins.get("message_shape")


def read_original(folder: Path) -> Original:
    """The session in this directory. One that is not finished, or breaks its own rules, is not replayed [R-7.3-1]."""
    manifest = read_manifest(folder)
    if manifest.status not in {"complete", "terminated"}:
        raise UsageError(f"{folder} is {manifest.status}; only a finished session can be replayed")
    artifact = _json(folder / ARTIFACT)
    for breach in semantic_breaches(artifact, manifest=manifest.as_data()):
        raise UsageError(f"{folder} cannot be replayed: {breach}")
    pins = _json(folder / PINS) if (folder / PINS).exists() else None
    if pins is not None and not isinstance(pins.get("adapters", {}), dict):
        raise UsageError(f"cannot read {folder / PINS}: its adapters are no object")
    if pins is not None and pins.get("message_shape") not in (None, *get_args(MessageShape)):
        raise UsageError(f"cannot read {folder / PINS}: its message_shape is none")
    return Original(artifact=artifact, manifest=manifest, pins=pins)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = read_json(read_file(path), where=str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {plainly(error)}") from error
    if not isinstance(found, dict):
        raise UsageError(f"cannot read {path}: it holds no object")
    return found


def most_calls(transcript: Sequence[object]) -> int:
    """How many calls may be made for this transcript again. With its clock pinned no time ends a session, and a script may loop."""
    return max(MOST_CALLS, 20 * len(transcript))


def check_assumed(assumed: Collection[str]) -> None:
    """UsageError where somebody vouches for what is no condition."""
    if unknown := [each for each in assumed if each not in CONDITIONS]:
        raise UsageError(f"there is no pinning condition {unknown[0]!r:.40}; there are {', '.join(CONDITIONS)}")


@value
class ExecutionReplay:
    """A session that was run again, beside the original."""

    fresh: Sitting
    original_digest: str
    checked: tuple[PinningCondition, ...]
    assumed: tuple[PinningCondition, ...]
    first_diverging_message_id: str | None

    @property
    def matches(self) -> bool:
        return self.fresh.digest == self.original_digest


async def execution_replay(
    original: Original,
    make_setting: Callable[[Config], Setting],
    pen: Pen,
    *,
    assumed: Collection[PinningCondition] = (),
    prefix: Sequence[Mapping[str, Any]] = (),
    runs: Path | None = None,
    producer: Mapping[str, str] = PRODUCER,
    cancel: asyncio.Event | None = None,
) -> ExecutionReplay:
    """Hold the session again with the ids, times and message shape of the original. PinningViolation before anything is run."""

    def as_then(config: Config) -> Setting:
        setting = make_setting(config)
        return replace(setting, shape=original.shape or setting.shape)

    setting = as_then(original.config)
    vouched: list[PinningCondition] = []
    for condition, why in _violations(original, setting, prefix, producer):
        # For a provider that is not here nobody can vouch: there is nobody to ask, and nothing behind it was looked at.
        if condition not in assumed or condition == "provider":
            raise PinningViolation(condition, why)
        vouched.append(condition)
    transcript = original.artifact["canonical_transcript"]
    fresh = None
    while fresh is None:
        config = replace(original.config, session_id=fresh_id(original.config.session_id, runs))
        # Where another process was quicker, the next id will do.
        with suppress(Taken):
            fresh = await run_session(
                as_then(config), pen, pins=as_recorded(transcript), runs=runs, producer=producer, cancel=cancel
            )
    return ExecutionReplay(
        fresh=fresh,
        original_digest=transcript_replay(original.artifact).digest,
        checked=tuple(condition for condition in CONDITIONS if condition not in vouched),
        assumed=tuple(vouched),
        first_diverging_message_id=_first_difference(transcript, fresh.artifact["canonical_transcript"]),
    )


def _violations(
    original: Original, setting: Setting, prefix: Sequence[Mapping[str, Any]], producer: Mapping[str, str]
) -> Iterator[tuple[PinningCondition, str]]:
    """Every condition that is not shown to hold, in the order in which the protocol lists them."""
    config, known = original.config, original.pins or {}
    now, then = pins_of(setting, producer), setting.secrets.scrub_json(known.get("adapters", {}))
    agents = config.everybody
    used = {agent.provider for agent in agents}
    if original.manifest.producer.as_data() != dict(producer):
        yield "runtime", f"it was run by {original.manifest.producer.as_data()}, and this is {dict(producer)}"
    for id in sorted(used & setting.providers.keys()):
        if then.get(id) != now["adapters"][id]:
            yield "adapter", f"provider {id} is not the one that answered then"
            break
    for id in sorted(used - setting.providers.keys()):
        yield "provider", f"{id} is not configured here"
        return
    # Whoever vouches for another adapter does not say that the model behind that of then is the script of now.
    live = sorted(id for id in used if _is_live(then.get(id)) or _is_live(now["adapters"][id]))
    if live:
        yield "model", f"nobody can see whether {live[0]} still serves the same snapshot of its model"
    if known.get("sampling") != now["sampling"]:
        yield "sampling", "the sampling parameters are not those of then"
    if live:
        yield "cache", f"nobody can see what {live[0]} has cached; clear it and say so"
    if known.get("tools") != now["tools"] or any(agent.tools for agent in agents):
        yield "tool_env", "the tools and what they act on cannot be shown to be the same"
    if (reason := _reason(original)) in {"timeout", "user_cancel"}:
        yield "wallclock", f"it ended with {reason}, which came from a clock or a host and not from its turns"
    if known.get("personas") != now["personas"]:
        yield "persona", "the personas are not those of then"
    begun = original.artifact["canonical_transcript"][: len(prefix)]
    if jcs(list(prefix)) != jcs(begun):
        yield "transcript_prefix", "the transcript to start from is not the beginning of the original"


def _is_live(adapter: object) -> bool:
    """Whether somebody answers here, and no script. Where nothing is known of an adapter, somebody has to vouch for it first."""
    return isinstance(adapter, Mapping) and adapter.get("kind") != SCRIPTED


def _reason(original: Original) -> str | None:
    ending = original.artifact["outcome"].get("termination_artifact")
    return str(ending["reason"]) if ending else None


def fresh_id(session: str, runs: Path | None) -> str:
    """An id of its own for the replay: neither the original nor an earlier replay is overwritten [R-7.3-2]."""
    number = 1
    while True:
        tail = "-replay" if number == 1 else f"-replay-{number}"
        name = session + tail
        if len(name) > LONGEST_ID:
            short = hashlib.sha256(session.encode()).hexdigest()[:8]
            name = f"{session[: LONGEST_ID - len(tail) - 9]}-{short}{tail}"
        if runs is None or not os.path.lexists(runs / name):
            return name
        number += 1


def _first_difference(original: list[Any], fresh: list[Any]) -> str | None:
    for before, after in zip(original, fresh, strict=False):
        if jcs(before) != jcs(after):
            return str(before["id"])
    longer = original if len(original) > len(fresh) else fresh
    return None if len(original) == len(fresh) else str(longer[min(len(original), len(fresh))]["id"])
