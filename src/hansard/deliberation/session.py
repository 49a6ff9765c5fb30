"""Holds a session from end to end: the directory, the chair, the archive. What an application calls.

The record decides: a directory that cannot be completed is reported and changes no outcome [R-4.1-8].
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from hansard.__about__ import __version__
from hansard.deliberation.archive import Archive, Beginning, finished_manifest, shown
from hansard.deliberation.chair import Chair, Held
from hansard.deliberation.documents import SelectorOutput, content_hash, jcs
from hansard.deliberation.events import Event, event_of, line_of
from hansard.deliberation.inventory import (
    ARTIFACT,
    CONFIG,
    EVENTS,
    MANIFEST,
    METRICS,
    PINS,
    SELECTION,
    TOOLS,
    read_file,
)
from hansard.deliberation.metrics import figures_of
from hansard.deliberation.minutes import Listener, Minutes
from hansard.deliberation.pins import Pins, live
from hansard.deliberation.protocol.moves import Stopped, Synthesized
from hansard.deliberation.setting import Setting
from hansard.deliberation.story import Story, Told
from hansard.deliberation.tooling import tool_line
from hansard.deliberation.transcript import Transcript
from hansard.domain.council import SessionArchived
from hansard.domain.fact import Fact
from hansard.domain.strict_json import read_json
from hansard.domain.value import replace, value
from hansard.errors import StoreError, UsageError, plainly
from hansard.providers.secrets import Secrets
from hansard.record.encoder import fast_dumper
from hansard.record.recorder import Cause, Recorded, Records
from hansard.store.base import Claim

_encode = fast_dumper() or (lambda value: json.dumps(value, ensure_ascii=False).encode())
PRODUCER: Mapping[str, str] = {"name": "hansard", "version": __version__}


@value
class Pen:
    """The right to record a run: its recorder, its claim, and the entries that a session in it comes from."""

    recorder: Records
    run: str
    claim: Claim
    causes: Sequence[Cause] = ()


@value
class Sitting:
    """A session that is over. `fault` says why its directory is not complete, where it is not."""

    artifact: dict[str, Any] = field(repr=False)
    held: Held | None
    directory: Path | None = None
    fault: str | None = None

    @property
    def digest(self) -> str:
        return str(self.artifact["transcript_digest"])

    @property
    def reason(self) -> str:
        """`synthesis`, or the reason of the termination."""
        outcome = self.artifact["outcome"]
        return "synthesis" if outcome["kind"] == "synthesis" else str(outcome["termination_artifact"]["reason"])


async def run_session(
    setting: Setting,
    pen: Pen,
    *,
    pins: Pins | None = None,
    runs: Path | None = None,
    cancel: asyncio.Event | None = None,
    listener: Listener | None = None,
    producer: Mapping[str, str] = PRODUCER,
) -> Sitting:
    """A new session. With `runs` it gets a directory of its own there; setting `cancel` ends it with user_cancel."""
    pins, archive = pins or live(), None
    if runs is not None:
        archive = Archive.create(runs, _beginning(setting, producer, pins.stamp(0)))
    sitting = _Sitting(setting, pen, pins, archive, cancel, listener, producer)
    try:
        held = await sitting.chair.convene(pen.causes)
        return await sitting.close(held.artifact, held)
    finally:
        if archive is not None:
            archive.close()


async def resume_session(
    setting: Setting,
    pen: Pen,
    story: Story,
    *,
    pins: Pins | None = None,
    runs: Path | None = None,
    cancel: asyncio.Event | None = None,
    listener: Listener | None = None,
    producer: Mapping[str, str] = PRODUCER,
) -> Sitting:
    """The rest of a session that was interrupted: whatever of it is missing, down to the seal of its directory."""
    if setting.config != story.config:
        raise UsageError("this session was convened with another configuration; resume it with the one on the record")
    pins = pins or live(elapsed_before_us=story.elapsed_us, seed=story.seed)
    archive, fault = None, None
    if runs is not None:
        try:
            archive = _reopened(runs, setting, pins, story, producer)
        except (UsageError, StoreError) as error:
            if cancel is None or not cancel.is_set() or story.ended is not None:
                raise
            # Whoever wants it to end does not wait for its directory [R-4.1-8].
            fault = str(error)
    sitting = _Sitting(setting, pen, pins, archive, cancel, listener, producer)
    sitting.events = [event for told in story.told if (event := event_of(told.seq, told.fact))]
    sitting.tools = [line for told in story.told if (line := tool_line(told.fact))]
    try:
        if story.ended is not None and (artifact := story.artifact) is not None:
            sitting.minutes.take_up(story.convened, story.seqs, story.ended.seq)
            sitting.chair.selection = story.selection
            return await sitting.close(artifact, None, story.archived)
        held = await sitting.chair.resume(story)
        closed = await sitting.close(held.artifact, held)
        if runs is None or fault is None:
            return closed
        return replace(closed, directory=runs / setting.config.session_id, fault=fault)
    finally:
        if archive is not None:
            archive.close()


def _reopened(runs: Path, setting: Setting, pins: Pins, story: Story, producer: Mapping[str, str]) -> Archive:
    """The directory as the session left it. One that was complete is held against the record when it is closed."""
    given = _beginning(setting, producer, pins.stamp(len(story.seqs)))
    folder = runs / given.session
    if story.archived is None:
        _check_begun(folder / CONFIG, given.config, setting.secrets)
        _check_begun(folder / PINS, given.pins, setting.secrets)
    archive = Archive.reopen(folder, story.lines, ended=story.ended is not None)
    try:
        if story.archived is None:
            archive.begin(given)
    except BaseException:
        archive.close()
        raise
    return archive


def _beginning(setting: Setting, producer: Mapping[str, str], now: str) -> Beginning:
    config = setting.config
    pins = pins_of(setting, producer)
    return Beginning(session=config.session_id, config=config.as_data(), pins=pins, producer=producer, now=now)


def _check_begun(path: Path, wanted: Mapping[str, Any], secrets: Secrets) -> None:
    """A session goes on as it began, with the same minds [R-7.6-1], and seals nothing that was changed meanwhile."""
    if not os.path.lexists(path):
        return
    try:
        found = read_json(read_file(path), where=str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {plainly(error)}; put it back as it was") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} holds no object; put it back as it was")
    # What stood there before it was known as a secret is no difference.
    found = secrets.scrub_json(found) if secrets else found
    said = _as_far_as_known(wanted, found)
    both = said.keys() & found.keys()
    other = sorted((said.keys() ^ found.keys()) | {name for name in both if not _same(said[name], found[name])})
    if other:
        raise UsageError(
            f"{path} is not as this session would write it ({', '.join(name[:40] for name in other[:5])}); "
            f"put it back, or resume with what the session began with"
        )


def _as_far_as_known(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The pins as they would stand there. A program tells its version with its first answer: who has not asked takes the other's."""
    before, adapters = found.get("adapters"), wanted.get("adapters")
    if adapters is None or not isinstance(before, dict):
        return dict(wanted)
    said = {}
    for id, adapter in adapters.items():
        known = there if isinstance(there := before.get(id), dict) else {}
        told = {name: value for name, value in adapter.items() if not name.endswith("version") or name in known}
        said[id] = {name: value for name, value in known.items() if name.endswith("version")} | told
    return {**wanted, "adapters": said}


def _same(one: object, other: object) -> bool:
    try:
        return jcs(one) == jcs(other)
    except UsageError:
        return False


class _Sitting:
    """The parts of one session, put together."""

    def __init__(
        self,
        setting: Setting,
        pen: Pen,
        pins: Pins,
        archive: Archive | None,
        cancel: asyncio.Event | None,
        listener: Listener | None,
        producer: Mapping[str, str],
    ) -> None:
        self.events: list[Event] = []
        self.tools: list[bytes] = []
        self._setting, self._archive, self._listener, self._producer = setting, archive, listener, producer
        self._transcript = Transcript(pins, setting.shape)
        self.minutes = Minutes(pen.recorder, pen.run, pen.claim, self._transcript, journal=archive, listener=self._hear)
        self.chair = Chair(setting, pins, self.minutes, self._transcript, cancel)

    def _hear(self, recorded: Recorded[Fact]) -> None:
        if self._archive is not None and (event := event_of(recorded.seq, recorded.fact)):
            self.events.append(event)
            if line := tool_line(recorded.fact):
                self.tools.append(line)
        if self._listener is not None:
            self._listener(recorded)

    async def close(self, artifact: dict[str, Any], held: Held | None, archived: Told | None = None) -> Sitting:
        """Complete the directory: artifact, manifest, the record's word on both, seal [§12]."""
        if self._archive is None:
            return Sitting(artifact=artifact, held=held)
        folder = self._archive.folder
        try:
            listed = await asyncio.to_thread(self._complete, self._archive, artifact, held, archived)
            if archived is None or jcs(listed) != _listed(archived):
                recorded = await self.minutes.archived(artifact["session_id"], len(listed), jcs(listed))
                archived = Told(seq=recorded.seq, fact=recorded.fact)
            self._archive.seal(archived.seq, _listed(archived))
        except (StoreError, OSError) as error:
            return Sitting(artifact=artifact, held=held, directory=folder, fault=str(error))
        return Sitting(artifact=artifact, held=held, directory=folder)

    def _complete(
        self, archive: Archive, artifact: dict[str, Any], held: Held | None, archived: Told | None
    ) -> dict[str, Any]:
        files = self._files(artifact, held)
        if archived is None:
            return archive.finish(files)
        begun = {CONFIG: self._setting.config.as_data(), PINS: pins_of(self._setting, self._producer)}
        whole = files | {name: shown(data) for name, data in begun.items()}
        return archive.restore(whole, archived.seq, _listed(archived))

    def _files(self, artifact: dict[str, Any], held: Held | None) -> dict[str, bytes]:
        """What a session writes at its end."""
        written = held.written if held else jcs(artifact)
        if found := self._setting.secrets.found_in(written):
            raise StoreError(f"the artifact holds the secret {', '.join(found)}; it is not written [R-8.9-2]")
        return {
            **_selected(self.chair.selection),
            EVENTS: b"".join(map(line_of, self.events)),
            **({TOOLS: b"".join(self.tools)} if self.tools else {}),
            METRICS: _shown_in_lines(figures_of(artifact)),
            ARTIFACT: written,
            MANIFEST: finished_manifest(artifact, self._producer, notes=_notes(held)),
        }


def _selected(selection: SelectorOutput | None) -> dict[str, bytes]:
    if selection is None:
        return {}
    return {SELECTION: shown({"schema_version": "1.0.0", "selector_output": selection.as_data()})}


def _listed(archived: Told) -> bytes:
    if not isinstance(archived.fact, SessionArchived) or archived.fact.manifest.data is None:
        raise StoreError("the list of this session's files is not on the record any more")
    return archived.fact.manifest.data


def _notes(held: Held | None) -> str:
    if held is None:
        return "completed from the record"
    outcome = held.outcome
    saved = outcome.instead_of if isinstance(outcome, Synthesized) else None
    parts = [
        f"{held.calls} calls, {held.tokens} tokens, {held.cost_usd_nano / 1e9:.9f} USD in all, failed ones included"
    ]
    if isinstance(outcome, Stopped) and outcome.why:
        parts.append(outcome.why)
    if saved is not None:
        parts.append(f"synthesized instead of {saved.reason}")
    return "; ".join(parts)


def pins_of(setting: Setting, producer: Mapping[str, str]) -> dict[str, Any]:
    """What an execution replay compares: everything that decided how the session went, and no secret [§7.6]."""
    config, described = setting.config, {id: dict(each.describe()) for id, each in setting.providers.items()}
    agents = config.everybody
    return {
        "schema_version": "1.0.0",
        "producer": dict(producer),
        # As the record has their tables: whoever describes himself may quote a command with a key in it.
        "adapters": setting.secrets.scrub_json(described),
        "sampling": {agent.id: {"reasoning_effort": agent.reasoning_effort} for agent in agents},
        "tools": {agent.id: content_hash(list(agent.tools or ())) for agent in agents},
        "personas": setting.registry.pins(config),
        "message_shape": setting.shape,
    }


def _shown_in_lines(data: Mapping[str, Any]) -> bytes:
    """A line for each member, and for each item of a list: short to read, and made in a tenth of the time."""
    return (
        b"{\n" + b",\n".join(b"  %b: %b" % (_encode(name), _in_lines(each)) for name, each in data.items()) + b"\n}\n"
    )


def _in_lines(value: Any) -> bytes:
    if not value or not isinstance(value, list):
        return _encode(value)
    return b"[\n    " + b",\n    ".join(map(_encode, value)) + b"\n  ]"
