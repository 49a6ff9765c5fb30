"""The deliberation functions that `hansard` offers to Python: `run_session`, `execution_replay`, `transcript_replay`.

Each works on the ledger that Hansard.open would open. Those that ask models come twice: plain, and as a coroutine.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hansard.app.service import Hansard
from hansard.app.setup.convening import Call, Convening, convening, given
from hansard.app.setup.wishes import Wishes
from hansard.deliberation.afterwards.replay import ExecutionReplay, PinningViolation, TranscriptReplay
from hansard.deliberation.afterwards.replay import transcript_replay as _transcript_replay
from hansard.deliberation.documents import Artifact, Config, SynthesisContent
from hansard.deliberation.documents.vocabulary import PinningCondition
from hansard.deliberation.pins import Pins
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.providers.base import Provider
from hansard.providers.tools import Handler

Providers = Mapping[str, Provider] | Provider
P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "HeldArtifact",
    "PinningViolation",
    "execution_replay",
    "execution_replay_async",
    "run_session",
    "run_session_async",
    "transcript_replay",
]


@value
class HeldArtifact(Artifact):
    """The artifact of a session that was held here. `fault` says why its directory is not complete, where it is not."""

    fault: str | None = None

    @property
    def answer(self) -> str | None:
        """What the panel has come to; None where the session ended without a synthesis."""
        said = self.canonical_transcript[-1].content
        return said.integrated_answer if isinstance(said, SynthesisContent) else None

    def as_data(self) -> dict[str, Any]:
        """The artifact alone: `fault` is no part of it."""
        return Artifact.as_data(replace(self, fault=None))


async def run_session_async(
    config: Mapping[str, Any] | Config,
    providers: Providers | None = None,
    *,
    problem: str | None = None,
    runs_root: str | Path | None = None,
    ledger: str | PathLike[str] | None = None,
    script: Mapping[str, Any] | None = None,
    selector_script: Mapping[str, Any] | None = None,
    wishes: Wishes | None = None,
    tools: Mapping[str, Handler] | None = None,
    harness_pinning: Pins | None = None,
) -> HeldArtifact:
    """Hold a session and give its artifact. Cancelling this leaves it resumable; `Hansard.deliberations` can also end it.

    A directory that could not be completed changes no outcome: `fault` says why, and `hansard session resume` completes it.
    `providers` are those that the configuration names, by id, or one for all; without them, those of hansard.toml. `tools` run
    what agents declare, by name: each is awaited with the arguments and gives text or JSON, or a `Refusal`.
    """
    call = Call(
        config=config,
        problem=problem,
        runs=Path(runs_root) if runs_root is not None else None,
        script=script,
        selector_script=selector_script,
        wishes=wishes or Wishes(),
    )
    async with Hansard.open(ledger) as hansard:
        if providers is not None:
            given(hansard.pool, providers, Config.parse(config) if isinstance(config, Mapping) else config)
        hansard.pool.seams.update(tools or {})
        made = convening(hansard.settings, hansard.pool, call)
        run = await hansard.deliberations.convene(made)
        sat = await hansard.deliberations.hold(run, pins=harness_pinning)
    return replace(HeldArtifact.parse(sat.sitting.artifact), fault=sat.sitting.fault)


def transcript_replay(artifact: Mapping[str, Any] | Artifact) -> TranscriptReplay:
    """The canonical bytes of a transcript and their digest. Give the JSON as it is stored: a digest is over that."""
    return _transcript_replay(artifact.as_data() if isinstance(artifact, Artifact) else artifact)


async def execution_replay_async(
    folder: str | Path,
    providers: Providers | None = None,
    *,
    runs_root: str | Path | None = None,
    ledger: str | PathLike[str] | None = None,
    script: Mapping[str, Any] | None = None,
    selector_script: Mapping[str, Any] | None = None,
    assumed: Collection[PinningCondition] = (),
) -> ExecutionReplay:
    """Hold a finished session again. PinningViolation names the condition that does not hold; nothing was run then."""

    def make(config: Config) -> Convening:
        if providers is not None:
            given(hansard.pool, providers, config)
        call = Call(config=config, script=script, selector_script=selector_script)
        made = convening(hansard.settings, hansard.pool, call)
        return replace(made, runs=str(runs_root) if runs_root is not None else None)

    async with Hansard.open(ledger) as hansard:
        return await hansard.deliberations.replay(Path(folder), make, assumed=assumed)


def _alone(ask: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same without a loop, with the same words, types and arguments."""

    @wraps(ask)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        if _is_in_a_loop():
            raise UsageError(f"an event loop is running here; await {ask.__name__} instead")
        return asyncio.run(ask(*args, **kwargs))

    alone.__name__ = alone.__qualname__ = ask.__name__.removesuffix("_async")
    return alone


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


run_session = _alone(run_session_async)
execution_replay = _alone(execution_replay_async)
