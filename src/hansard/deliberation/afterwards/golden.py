"""Golden cases: a configuration and a script that every conforming runtime turns into the same transcript [§9.4].

The ids and times of the expected artifact are pinned; everything else is run. Chooses no provider: whoever calls it makes
one from the script.
"""

from collections.abc import Callable, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from hansard.deliberation.afterwards.replay import most_calls
from hansard.deliberation.documents import Config, GoldenTestCase, Persona, jcs
from hansard.deliberation.documents.scripting import neutral_script
from hansard.deliberation.documents.semantics import semantic_breaches
from hansard.deliberation.personas import Personas
from hansard.deliberation.pins import as_recorded
from hansard.deliberation.session import Pen, Sitting, run_session
from hansard.deliberation.setting import Setting
from hansard.domain.strict_json import read_json
from hansard.domain.value import replace, value
from hansard.errors import UsageError, plainly
from hansard.providers.base import Provider
from hansard.providers.script import Script

_FILES = ("config", "fake_script", "expected_artifact")
_CASE = "case"


@value
class GoldenRun:
    """What a case has come to. `differs` shows the first message that is not as expected."""

    produced: Sitting
    expected_digest: str
    differs: str | None

    @property
    def matches(self) -> bool:
        return self.produced.digest == self.expected_digest


async def run_case(data: Mapping[str, Any], make_provider: Callable[[Script], Provider], pen: Pen) -> GoldenRun:
    """Run a case. One scripted provider answers under every provider id of the configuration [R-9.4-1]."""
    case = GoldenTestCase.parse(data)
    if case.problem_statement != case.config.problem_statement:
        raise UsageError(f"case {case.case_id}: its problem_statement is not that of its config [R-9.4-2]")
    for breach in semantic_breaches(data["expected_artifact"]):
        raise UsageError(f"case {case.case_id}: its expected artifact is none: {breach}")
    expected = data["expected_artifact"]["canonical_transcript"]
    script = neutral_script(case.fake_script)
    most = max(most_calls(expected), len(script.entries))
    provider = make_provider(_finite(script, most))
    agents = case.config.everybody
    setting = Setting.of(
        case.config,
        providers={agent.provider: provider for agent in agents},
        registry=stubbed(case.config),
    )
    produced = await run_session(setting, pen, pins=as_recorded(expected))
    if produced.held is not None and produced.held.calls > most:
        raise UsageError(f"case {case.case_id}: its script loops, and its session has not ended with {most:,} calls")
    return GoldenRun(
        produced=produced,
        expected_digest=case.expected_artifact.transcript_digest,
        differs=_difference(expected, produced.artifact["canonical_transcript"]),
    )


def _finite(script: Script, most: int) -> Script:
    """The same, where it loops for so many calls: no clock ends a session whose time is pinned."""
    if script.on_exhaustion == "error":
        return script
    return replace(script, entries=tuple(islice(cycle(script.entries), most)), on_exhaustion="error")


def recorded(data: Mapping[str, Any], run: GoldenRun) -> dict[str, Any]:
    """The case with what was produced as what is expected from now on."""
    return {**data, "expected_artifact": run.produced.artifact}


def stubbed(config: Config) -> Personas:
    """The default personas, and a plain one for each id that nobody knows: a case may name personas that exist nowhere."""
    known = Personas()
    agents = config.everybody
    unknown = {str(agent.persona_ref) for agent in agents if isinstance(agent.persona_ref, str)} - {
        persona.id for persona in known
    }
    return known.with_(_stub(id) for id in sorted(unknown))


def _stub(id: str) -> Persona:
    return Persona(
        persona_class="horizontal",
        id=id,
        reasoning_scope=f"stub of {id}",
        reasoning_style="plain",
        behavioral_constraints=("Answer as scripted.",),
        failure_modes=("None that a script has.",),
    )


def read_case(path: Path) -> dict[str, Any]:
    """A case from one file, or from a directory that holds its parts."""
    if not path.is_dir():
        return _object(path)
    parts = {name: _object(path / f"{name}.json", within=True) for name in _FILES}
    return {**_object(path / f"{_CASE}.json", within=True), **parts}


def _object(path: Path, *, within: bool = False) -> dict[str, Any]:
    """The object in a file. Within a case's directory it is a file indeed: a pipe there would never end."""
    try:
        if within and not path.is_file() and path.exists():
            raise OSError("it is no file")
        found = read_json(path.read_bytes(), where=str(path))
    except OSError as error:
        raise UsageError(f"cannot read the case {path}: {plainly(error)}") from error
    if not isinstance(found, dict):
        raise UsageError(f"cannot read the case {path}: it holds no object")
    return found


def _difference(expected: list[Any], produced: list[Any]) -> str | None:
    for at, (wanted, found) in enumerate(zip(expected, produced, strict=False)):
        if jcs(wanted) != jcs(found):
            return f"message {at}:\n- {jcs(wanted).decode()}\n+ {jcs(found).decode()}"
    if len(expected) != len(produced):
        return f"{len(expected)} messages are expected, and {len(produced)} were produced"
    return None
