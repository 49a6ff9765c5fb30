"""The rules over a whole artifact that no schema can say: order, digests, sums, pointers, mirrors.

It looks at the JSON as it is stored, because a digest over a copy that was read and written again proves nothing. That the
scheduler's rules were kept turn by turn is for `protocol`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from hansard.deliberation.documents.artifact import Artifact, RunManifest, TerminationArtifact
from hansard.deliberation.documents.breach import Breach, Invalid
from hansard.deliberation.documents.exchange import Usage
from hansard.deliberation.documents.jcs import jcs, transcript_digest
from hansard.deliberation.documents.transcript import opening_breaches, speaker_breaches, transcript_breaches
from hansard.deliberation.documents.turns import SynthesisContent, Verdict
from hansard.deliberation.documents.vocabulary import NAME
from hansard.errors import UsageError

COST_TOLERANCE = 1e-6


def semantic_breaches(
    data: object, *, manifest: object = None, config: object = None, secrets: Iterable[str] = ()
) -> list[Breach]:
    """Every rule that this artifact breaks, alone and beside the manifest and config.json of its directory, where given."""
    try:
        artifact = Artifact.parse(data)
    except Invalid as error:
        return [error.breach]
    assert isinstance(data, Mapping)
    return [
        *_identity(artifact),
        *transcript_breaches(artifact),
        *_digest(artifact, data),
        *_usage(artifact),
        *_outcome(artifact),
        *_open_ends(artifact),
        *_times(artifact),
        *(() if manifest is None else _manifest(artifact, manifest)),
        *(() if config is None else _config_file(data, config)),
        *_secrets(data, tuple(secrets)),
    ]


def refuse_incoherent(artifact: Artifact) -> None:
    """UsageError where an artifact names what is not in it: whoever shows or measures it would look there."""
    for breach in (*opening_breaches(artifact), *speaker_breaches(artifact), *_outcome(artifact)):
        raise UsageError(f"the artifact contradicts itself, so it is not measured: {breach}")


def _breach(path: str, rule: str, message: str) -> Breach:
    return Breach(document="Artifact", path=path, rule=rule, message=message)


def _identity(artifact: Artifact) -> Iterator[Breach]:
    if artifact.session_id != artifact.config.session_id:
        yield _breach("/session_id", "R-5.10-2", "must be the session_id of the config")
    if not re.fullmatch(NAME, artifact.session_id):
        yield _breach("/session_id", "R-7.1-1", "must be an id that may name a directory")


def _digest(artifact: Artifact, data: Mapping[str, Any]) -> Iterator[Breach]:
    try:
        digest = transcript_digest(data["canonical_transcript"])
    except Invalid as error:
        yield _breach("/canonical_transcript", "R-7.7-1", f"has no digest: it {error.message}")
        return
    if artifact.transcript_digest != digest:
        yield _breach("/transcript_digest", "R-7.7-1", f"must be {digest}, the digest of the stored transcript")
    ending = artifact.outcome.termination_artifact
    if ending and ending.transcript_digest != artifact.transcript_digest:
        path = "/outcome/termination_artifact/transcript_digest"
        yield _breach(path, "R-7.7-2", "must be the transcript_digest of the artifact")


def _usage(artifact: Artifact) -> Iterator[Breach]:
    used = [message.usage for message in artifact.canonical_transcript]
    if why := _differs(artifact.cumulative_usage, used):
        yield _breach("/cumulative_usage", "R-9.9-1", f"must be the sum over the messages: {why}")
    ending = artifact.outcome.termination_artifact
    if ending and (why := _differs(ending.cumulative_usage, [artifact.cumulative_usage])):
        path = "/outcome/termination_artifact/cumulative_usage"
        yield _breach(path, "R-9.9-1", f"must be the cumulative_usage of the artifact: {why}")


def _differs(total: Usage, parts: list[Usage]) -> str | None:
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        wanted = sum(getattr(part, name) for part in parts)
        if getattr(total, name) != wanted:
            return f"{name} is {getattr(total, name)} and should be {wanted}"
    cost = sum(part.cost_usd for part in parts)
    if abs(total.cost_usd - cost) > COST_TOLERANCE:
        return f"cost_usd is {total.cost_usd} and should be {cost}"
    return None


def _outcome(artifact: Artifact) -> Iterator[Breach]:
    syntheses = [message for message in artifact.canonical_transcript if message.type == "synthesis"]
    ending = artifact.outcome.termination_artifact
    if ending:
        if syntheses:
            yield _breach("/outcome", "R-4.8-1", "is a termination, and the transcript has a synthesis")
        yield from _termination(artifact, ending)
        mirrored = ending.unresolved_disagreements
    else:
        pointed = [each for each in syntheses if each.id == artifact.outcome.synthesis_message_id]
        if len(syntheses) != 1 or not pointed or artifact.canonical_transcript[-1] is not pointed[0]:
            message = "must name the one synthesis of the transcript, which is its last message"
            yield _breach("/outcome/synthesis_message_id", "R-5.10-1", message)
            return
        content = pointed[0].content
        assert isinstance(content, SynthesisContent)
        mirrored = content.unresolved_disagreements
    if artifact.cumulative_unresolved != mirrored:
        yield _breach("/cumulative_unresolved", "§5.10 mirror", "must be what the outcome says is unresolved")


def _termination(artifact: Artifact, ending: TerminationArtifact) -> Iterator[Breach]:
    verdicts = [each.content for each in artifact.canonical_transcript if isinstance(each.content, Verdict)]
    last = verdicts[-1] if verdicts else None
    path = "/outcome/termination_artifact"
    if (ending.most_recent_verdict or None) != last:
        yield _breach(f"{path}/most_recent_verdict", "§5.8", "must be the last verdict of the transcript")
    reached = max(message.round for message in artifact.canonical_transcript)
    if not reached <= ending.final_round <= min(reached + 1, artifact.config.budget.max_rounds):
        yield _breach(
            f"{path}/final_round", "§5.8", f"must be the last round that was opened; messages reach {reached}"
        )
    asked = (last.user_input_request, last.external_research_request) if last else (None, None)
    pending = (ending.pending_user_input_request, ending.pending_external_research_request)
    if pending != (None, None) and pending != asked:
        yield _breach(path, "R-4.4-4", "its pending request must be the one of the last verdict")


def _open_ends(artifact: Artifact) -> Iterator[Breach]:
    """What a termination says of disagreements, and of the failure that led to it."""
    ending = artifact.outcome.termination_artifact
    if ending is None:
        return
    path = "/outcome/termination_artifact"
    verdicts = [each.content for each in artifact.canonical_transcript if isinstance(each.content, Verdict)]
    # Whether what was settled since is still among them is each runtime's own ruling.
    said = {each for verdict in verdicts for each in verdict.unresolved_disagreements}
    left = {each.topic for verdict in verdicts[-1:] for each in verdict.unresolved_disagreements}
    told = ending.unresolved_disagreements
    if not (said.issuperset(told) and left <= {each.topic for each in told}):
        message = "must be what the verdicts left open, and nothing else: all of the last one"
        yield _breach(f"{path}/unresolved_disagreements", "R-4.8-5", message)
    failure = ending.last_provider_failure
    agent = artifact.config.agent(failure.agent_id) if failure else None
    if failure and (agent is None or agent.provider != failure.provider):
        yield _breach(f"{path}/last_provider_failure", "§5.8", "must be of an agent of the config, and of its provider")


def _times(artifact: Artifact) -> Iterator[Breach]:
    times = [("/started_at", artifact.started_at)]
    times += [
        (f"/canonical_transcript/{index}/timestamp", message.timestamp)
        for index, message in enumerate(artifact.canonical_transcript)
    ]
    times.append(("/ended_at", artifact.ended_at))
    latest = moment(times[0][1])
    for path, time in times[1:]:
        if moment(time) < latest:
            yield _breach(path, "§5.10 times", f"is {time}, before what came before it")
        latest = max(latest, moment(time))


def moment(time: str) -> datetime:
    """A date-time of RFC 3339 as Python has it; a leap second counts as the second before it."""
    return datetime.fromisoformat(time.upper().replace(":60", ":59"))


def _manifest(artifact: Artifact, data: object) -> Iterator[Breach]:
    try:
        manifest = RunManifest.parse(data)
    except Invalid as error:
        yield error.breach
        return
    wanted = {
        "session_id": artifact.session_id,
        "status": "terminated" if artifact.outcome.termination_artifact else "complete",
        "transcript_digest": artifact.transcript_digest,
        "outcome_kind": artifact.outcome.kind,
    }
    for name, value in wanted.items():
        if getattr(manifest, name) != value:
            message = f"must be {value}, as the artifact says"
            yield Breach(document="RunManifest", path=f"/{name}", rule="R-2.7-2", message=message)


def _config_file(data: Mapping[str, Any], config: object) -> Iterator[Breach]:
    try:
        same = jcs(config) == jcs(data["config"])
    except Invalid:
        same = config == data["config"]
    if not same:
        yield Breach(document="Config", path="", rule="R-7.1-2", message="config.json must be the artifact's config")


def _secrets(data: object, secrets: tuple[str, ...], path: str = "") -> Iterator[Breach]:
    if not secrets:
        return
    match data:
        case str() if any(secret and secret in data for secret in secrets):
            yield _breach(path, "R-8.9-2", "holds a credential")
        case Mapping():
            for name, each in data.items():
                yield from _secrets(name, secrets, f"{path}/{name}")
                yield from _secrets(each, secrets, f"{path}/{name}")
        case list():
            for index, each in enumerate(data):
                yield from _secrets(each, secrets, f"{path}/{index}")
