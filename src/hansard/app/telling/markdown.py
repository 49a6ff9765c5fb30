"""A finished session as Markdown, for people. What agents said is quoted, so that nothing of it can pass for our own words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hansard.app.telling.deliberationviews import asked_for, left_out, price_unknown, requested
from hansard.app.views import usd
from hansard.deliberation.documents import Artifact
from hansard.domain.budget import in_nano

Json = Mapping[str, Any]

_ALIVE = {"<": "&lt;", "](": "]&#40;", "]:": "]&#58;", "://": ":&#47;&#47;", "www.": "www&#46;", "@": "&#64;"}
"""What viewers make HTML, links, pictures and notices to people of, also where nothing marks it as such."""


def as_markdown(artifact: Json, events: Sequence[Json] | None = None) -> str:
    """The whole debate. `events` are the calls of it, where they are at hand."""
    Artifact.parse(artifact)
    return "\n".join(_lines(artifact, events)) + "\n"


def _lines(artifact: Json, events: Sequence[Json] | None) -> Iterator[str]:
    used, ending = artifact["cumulative_usage"], artifact["outcome"].get("termination_artifact")
    yield f"# Session {_inline(artifact['session_id'])}"
    yield ""
    yield f"- outcome: {ending['reason'] if ending else 'synthesis'}"
    if ending and (failure := ending.get("last_provider_failure")):
        yield f"- failed: {_inline(failure['agent_id'])}: {failure['kind']}: {_inline(failure['message'])}"
    yield f"- from {artifact['started_at']} to {artifact['ended_at']}"
    about = price_unknown(artifact) + left_out(events)
    yield f"- {used['total_tokens']:,} tokens, {usd(in_nano(used['cost_usd']))} USD{about}"
    yield f"- transcript digest: `{artifact['transcript_digest']}`"
    told = 0
    for message in artifact["canonical_transcript"]:
        if message["round"] > told:
            told = message["round"]
            yield from ("", f"## Round {told}")
        yield from _message(message)
    if artifact["cumulative_unresolved"]:
        yield from ("", "## Unresolved", "")
        for each in artifact["cumulative_unresolved"]:
            yield f"- {_disagreement(each)}"


def _message(message: Json) -> Iterator[str]:
    kind, content = message["type"].replace("_", " "), message["content"]
    parent = f", on {_inline(message['parent_id'])}" if message.get("parent_id") else ""
    yield from ("", f"### {_inline(message['speaker'])} ({kind}{parent}) {{#{_inline(message['id'])}}}", "")
    yield from _quoted(_said(message["type"], content))
    if isinstance(content, str):
        return
    for request in content.get("direct_requests") or ():
        yield from ("", f"asks {_inline(request['target'])} ({_inline(request['type'])}):", "")
        yield from _quoted(requested(request))
    if pending := content.get("user_input_request") or content.get("external_research_request"):
        yield from ("", "asks:", "")
        yield from _quoted("\n".join(asked_for(pending)))
    if told := [*_left_open(content), *_unanswered(message)]:
        yield from ("", *told)


def _left_open(content: Json) -> Iterator[str]:
    for each in content.get("resolved_disagreements") or ():
        yield f"- settled: {_inline(each['topic'])} ({_inline(each['resolution'])})"
    # What a synthesis leaves open is what the session does.
    for each in content["unresolved_disagreements"] if "next_action" in content else ():
        yield f"- open: {_disagreement(each)}"
    for question in content.get("open_questions") or ():
        yield f"- open question: {_inline(question)}"


def _unanswered(message: Json) -> Iterator[str]:
    for each in message.get("schema_failure") or ():
        yield f"- not asked, since nobody of that name could be: {_inline(each['offending_request'].get('target'))}"
    for each in message.get("dropped_deferred") or ():
        yield f"- not asked, since the queue was full: {_inline(each['target'])}"


def _disagreement(each: Json) -> str:
    held = "; ".join(f"{_inline(side['agent'])}: {_inline(side['claim'])}" for side in each["positions"])
    return f"{_inline(each['topic'])} ({held})"


def _said(type: str, content: Any) -> str:
    match type:
        case "problem_statement":
            return str(content)
        case "coordination_turn":
            return f"{content['next_action']} ({content['confidence']}): {content['focus']}\n\n{content['rationale']}"
        case "synthesis":
            return str(content["integrated_answer"])
        case "panel_contraction":
            return f"{content['agent_id']} left the panel: {content['reason']}"
        case _:
            return str(content["text"])


def _quoted(text: str) -> Iterator[str]:
    """A text as a quotation: no HTML, no picture and no link of it comes to life in a viewer, where it stands or by reference."""
    for line in text.splitlines() or [""]:
        yield f"> {_dead(line)}".rstrip()


def _inline(text: object) -> str:
    """A name or a short text in one line that Markdown reads as text."""
    plain = " ".join(str(text).split())
    return _dead("".join(f"\\{each}" if each in "\\`*_[]>#|" else each for each in plain))


def _dead(line: str) -> str:
    for alive, dead in _ALIVE.items():
        line = line.replace(alive, dead)
    return line
