"""Whether a finished transcript kept the rules: the machine is run over it, and what differs is a breach.

Takes messages as JSON data that has passed the schema. What only the driver could see (failed calls, the clock) is not in
a transcript: a cap that was breached by failed calls alone cannot be shown here, one that the messages breach can.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hansard.deliberation.documents.breach import Breach
from hansard.deliberation.protocol.machine import Machine
from hansard.deliberation.protocol.moves import (
    Answered,
    Ask,
    Draft,
    Failed,
    Json,
    Pause,
    Reading,
    Rested,
    Select,
    Selected,
    Spent,
    Step,
    Stopped,
    Synthesized,
)
from hansard.deliberation.protocol.rules import Rules
from hansard.domain.budget import in_nano
from hansard.domain.value import replace

_RULE_OF = {
    "type": "R-4.2-4",
    "speaker": "R-4.10-2",
    "round": "R-4.2-4",
    "turn_index": "R-4.5-7",
    "branch_depth": "R-4.5-3",
    "parent_id": "R-4.6-2",
    "content": "R-4.9-6",
}
_ANNOTATIONS = {"suggested_followups": "R-4.5-4", "dropped_deferred": "R-4.6-4", "schema_failure": "R-4.5-5"}
_FAILURES = frozenset({"provider_unrecoverable", "schema_error"})
CUT_SHORT = frozenset({"budget_exceeded", "timeout", "user_cancel", "provider_unrecoverable", "schema_error"})
FROM_OUTSIDE = frozenset({"timeout", "user_cancel"})
"""What may end a session at any moment: the clock and the host."""


def breaches(
    rules: Rules,
    panel: Sequence[str] | None,
    transcript: Sequence[Json],
    outcome: Json,
    *,
    flat: bool = False,
    unopened: Collection[str] = CUT_SHORT,
) -> list[Breach]:
    """Every rule of the course of a session that this transcript, with this outcome, did not keep.

    A panel of None never sat. In a `flat` transcript, whoever leaves the panel does so at depth 0 and under no message, wherever
    he failed. `unopened` are the reasons for which this session may have ended before its first round.
    """
    walk = _Walk(rules, transcript, flat=flat, unopened=unopened)
    walk.follow(panel)
    if not walk.found:
        ending = outcome.get("termination_artifact")
        walk.compare_annotations(cut_short=ending is not None and ending["reason"] not in _FAILURES)
        walk.compare_outcome(outcome)
    return walk.found


class _Walk:
    """The machine's way along the transcript, up to the first message that it would not have written."""

    def __init__(self, rules: Rules, transcript: Sequence[Json], *, flat: bool, unopened: Collection[str]) -> None:
        self.machine = Machine(rules)
        self.transcript = transcript
        self.flat, self.unopened = flat, unopened
        self.ordinals = {message["id"]: ordinal for ordinal, message in enumerate(transcript)}
        self.found: list[Breach] = []
        self.at = 0
        self.step: Step | None = None

    def follow(self, panel: Sequence[str] | None) -> None:
        step = self.machine.begin(Reading())
        while self._compare(step):
            self.step = step
            match step.move:
                case Select() if panel is not None:
                    step = self.machine.send(Selected(reading=Reading(), panel=tuple(panel)))
                case Pause():
                    step = self.machine.send(Rested(reading=Reading()))
                case Ask() as ask if self.at < len(self.transcript):
                    step = self.machine.send(self._heard(ask, self.transcript[self.at]))
                case _:
                    break
        if not self.found and self.at < len(self.transcript):
            reason = step.move.reason if isinstance(step.move, Stopped) else "synthesis"
            self._breach(self.at, "R-4.10-8", f"the session had ended before this message ({reason})")

    def _heard(self, ask: Ask, message: Json) -> Answered | Failed:
        """What the driver must have heard for this message to follow."""
        saved = message["type"] == "synthesis" and ask.expect != "synthesis_content"
        if message["type"] == "panel_contraction" or (saved and self.machine.state.rules.synthesize_on_terminate):
            malformed = isinstance(message["content"], Mapping) and message["content"].get("reason") == "schema_error"
            kind = "malformed_response" if malformed else "internal"
            return Failed(reading=Reading(), kind=kind, retriable=False, spent=Spent())  # type: ignore[arg-type]
        content, usage = message["content"], message["usage"]
        spent = Spent(tokens=usage["total_tokens"], cost_usd_nano=in_nano(usage["cost_usd"]))
        wanted = {"primary_turn", "branch_turn"} if ask.expect == "turn_structured_output" else _TYPE_OF[ask.expect]
        if message["type"] not in wanted:
            # A message of another type: its content would mean nothing to the rules. The comparison reports it.
            content = _NOTHING_SAID if ask.expect == "turn_structured_output" else _NO_VERDICT
        return Answered(reading=Reading(), content=content, usage=usage, spent=spent)

    def _compare(self, step: Step) -> bool:
        for draft in step.appended:
            if self.at >= len(self.transcript):
                self._breach(self.at - 1, "R-4.1-1", f"a {draft.type} of {draft.speaker} must follow")
                return False
            self._compare_message(draft, self.transcript[self.at])
            if self.found:
                return False
            self.at += 1
        return True

    def _compare_message(self, draft: Draft, message: Json) -> None:
        if self.flat and draft.type == "panel_contraction":
            draft = replace(draft, branch_depth=0, parent=None)
        parent = message.get("parent_id")
        actual = {**message, "parent_id": parent if parent is None else self.ordinals.get(parent, parent)}
        expected = {
            "type": draft.type,
            "speaker": draft.speaker,
            "round": draft.round,
            "turn_index": draft.turn_index,
            "branch_depth": draft.branch_depth,
            "parent_id": draft.parent,
            "content": draft.content,
        }
        for member, wanted in expected.items():
            if actual[member] != wanted:
                self._breach(self.at, _rule(member, draft), f"must be {wanted!r:.80}", member)
                return

    def compare_annotations(self, *, cut_short: bool) -> None:
        """Annotations are what the rules make of each request.

        The clock, the host, or what failed calls took, which no transcript shows, may have ended the session right behind its
        last message: what the rules would have decided then may be missing. Of a failure it is not: a call came first.
        """
        last = (*self.step.appended, *self.step.amended) if self.step and cut_short else ()
        undecided = {draft.ordinal for draft in last}
        for ordinal, (draft, message) in enumerate(zip(self.machine.state.transcript, self.transcript, strict=False)):
            for name, rule in _ANNOTATIONS.items():
                wanted = [_comparable(each) for each in getattr(draft, name)]
                actual = [_comparable(each) for each in message.get(name) or []]
                if actual != (wanted[: len(actual)] if ordinal in undecided else wanted):
                    self._breach(ordinal, rule, f"must hold {len(wanted)} requests: {wanted!r:.160}", name)

    def compare_outcome(self, outcome: Json) -> None:
        said = outcome["termination_artifact"]["reason"] if outcome["kind"] == "termination" else "synthesis"
        match self.step.move if self.step else None:
            case Synthesized():
                wanted = {"synthesis"}
            case Stopped(reason=reason):
                # Cancellation, the clock and failed calls, which no transcript shows, come before what a verdict says.
                wanted = {reason, "user_cancel", "timeout", "budget_exceeded"}
            case _:
                wanted = set(CUT_SHORT)
        if said not in wanted:
            rule = "R-4.8-4" if "synthesis" in (said, *wanted) else "R-4.1-5"
            message = f"the rules end this session with {' or '.join(sorted(wanted))}, not with {said}"
            self.found.append(Breach(document="Artifact", path="/outcome", rule=rule, message=message))
        elif outcome["kind"] == "termination":
            self._compare_round(outcome["termination_artifact"])
            self._compare_failure(outcome["termination_artifact"])

    def _compare_round(self, ending: Json) -> None:
        wanted = self._last_rounds(ending)
        if ending["final_round"] not in wanted:
            message = f"must be {' or '.join(map(str, sorted(wanted)))}, the last round that was opened"
            self._ending_breach("final_round", "§5.8", message)

    def _last_rounds(self, ending: Json) -> set[int]:
        """The rounds that may have been the last one: that of the last message, or one behind it of which no message is left [A-13]."""
        reached, opened = self.transcript[-1]["round"], self.machine.state.round
        reason, failure = ending["reason"], ending.get("last_provider_failure")
        if not reached and failure is not None:
            # A panel is asked before its coordinator: he was asked by a selector.
            return {reached if failure["agent_id"] == self.machine.state.rules.coordinator else opened}
        if not reached:
            return {reached, opened} if reason in self.unopened else {opened}
        if reason in _FAILURES:
            return {opened}
        if reached < opened and self.step and self.step.amended:
            # What is due and cannot be routed any more is noted as the round opens.
            return {opened if all(map(self._is_noted, self.step.amended)) else reached}
        return {reached, opened}

    def _is_noted(self, draft: Draft) -> bool:
        return len(self.transcript[draft.ordinal].get("schema_failure") or ()) == len(draft.schema_failure)

    def _compare_failure(self, ending: Json) -> None:
        """The failure that the session is said to have ended with is one of whom the rules asked last, and leads to the reason."""
        failure, reason = ending.get("last_provider_failure"), ending["reason"]
        if failure is None:
            return
        if reason not in _FAILURES:
            self._ending_breach(
                "last_provider_failure", "§5.8", f"must not stand there: no failure ended it, but {reason}"
            )
            return
        move, last = self.step.move if self.step else None, self.transcript[-1]
        asked = {move.agent} if isinstance(move, Ask | Stopped) else set()
        if last["type"] == "panel_contraction" and isinstance(move, Ask) and move.expect == "synthesis_content":
            # The panel is gone, and what was tried instead leaves it at that.
            asked = {last["content"]["agent_id"]}
        if len(self.transcript) == 1:
            # Whom a selector asked.
            asked.add(self.machine.state.rules.coordinator)
        if failure["agent_id"] not in asked:
            message = f"must be {' or '.join(sorted(map(str, asked)))}, who was asked last"
            self._ending_breach("last_provider_failure/agent_id", "§5.8", message)
        # The last one who leaves the panel ends it alike, whatever he failed with.
        led_to = "schema_error" if failure["kind"] == "malformed_response" else "provider_unrecoverable"
        if reason != led_to and last["type"] != "panel_contraction":
            self._ending_breach("reason", "R-4.9-4", f"must be {led_to}, to which {failure['kind']} leads")

    def _ending_breach(self, member: str, rule: str, message: str) -> None:
        path = f"/outcome/termination_artifact/{member}"
        self.found.append(Breach(document="Artifact", path=path, rule=rule, message=message))

    def _breach(self, ordinal: int, rule: str, message: str, member: str = "") -> None:
        path = f"/canonical_transcript/{ordinal}" + (f"/{member}" if member else "")
        self.found.append(Breach(document="Artifact", path=path, rule=rule, message=message))


_TYPE_OF: dict[str, set[str]] = {"verdict": {"coordination_turn"}, "synthesis_content": {"synthesis"}}
_NOTHING_SAID: Json = {"text": "(another type of message)"}
_NO_VERDICT: Json = {"next_action": "continue", "resolved_disagreements": [], "unresolved_disagreements": []}


def _rule(member: str, draft: Draft) -> str:
    if member in {"type", "speaker"} and draft.type == "coordination_turn":
        return "R-4.10-3"
    if member == "parent_id" and draft.parent is None:
        return "R-4.5-3"
    if draft.ordinal == 0:
        return "R-4.1-3"
    return _RULE_OF[member]


def _comparable(annotation: Any) -> Any:
    """An annotation without its free text, which each runtime words for itself [A-16]."""
    if isinstance(annotation, Mapping) and "offending_request" in annotation:
        return annotation["offending_request"]
    return annotation
