"""What a recorded run took that nobody asks for when it is run again: what a crash cut short. It counts from its place in the
record on: a budget said no to whoever came behind it, and not to anybody before.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from hansard.app.reruns.phases import Phase, is_answer
from hansard.app.telling.nested_sessions import calls_by_question
from hansard.domain.budget import Spend
from hansard.domain.exchange import is_priced
from hansard.ledger.entry import Entry
from hansard.orchestration.nested import is_panel
from hansard.orchestration.progress import Progress
from hansard.record.reading import came_of


class Lost(NamedTuple):
    """A call that was lost: its entry, its lane, and what is known of what it took."""

    place: int
    lane: str | None
    took: Spend


def put_again(entries: Sequence[Entry], phases: Sequence[Phase], given_up: Set[int]) -> Set[int]:
    """The questions and attempts that a re-run makes too: those whose answers led to something, and those at which a phase stood
    when it was cut.
    """
    answers = (entry for entry in entries if is_answer(entry) and entry.seq not in given_up)
    stood = frozenset[int]().union(*(phase.left for phase in phases if phase.cut))
    return {seq for entry in answers for seq in entry.causes} | stood


def lost_calls(
    entries: Sequence[Entry], progress: Progress, phases: Sequence[Phase], put: Set[int], given_up: Set[int]
) -> list[Lost]:
    """All that was lost, of a run whose questions are `put` again, and whose entries that led to nothing are `given_up`."""
    # What a phase gives up because the engine had ended too often is given up again, and counts then.
    made = put | {seq for phase in phases for seq in phase.swallowed.values() if seq >= phase.first}
    unanswered = (Lost(seq, lane, Spend(calls=1)) for seq, lane in progress.spending.lost.items() if seq not in made)
    lanes = {each.data["task"]: str(each.data["lane"]) for each in entries if each.kind == "task.attempted"}
    return [*unanswered, *_in_sessions(entries, lanes, put), *_answered_in_vain(entries, lanes, given_up)]


def _in_sessions(entries: Sequence[Entry], lanes: Mapping[object, str], put: Set[int]) -> Iterator[Lost]:
    """What sessions took while questions were asked that nobody puts again."""
    task_of = {entry.seq: entry.data.get("task") for entry in entries}
    for question, calls in calls_by_question(entries).items():
        for seq, completion in calls if question not in put else ():
            yield Lost(seq, lanes.get(task_of[question]), Spend().plus(completion, completion.latency_us))


def _answered_in_vain(entries: Sequence[Entry], lanes: Mapping[object, str], given_up: Set[int]) -> Iterator[Lost]:
    """What roles answered and was given up. What a panel answers took its session."""
    asked = {entry.seq: entry.data for entry in entries if entry.kind == "role.asked"}
    for entry in (entry for entry in entries if entry.kind == "role.answered" and entry.seq in given_up):
        question, data = came_of(asked, entry), dict[str, Any](entry.data)
        if not is_panel(question["provider"]):
            tokens = data["input_tokens"] + data["output_tokens"]
            priced = is_priced(tokens, data["cost_basis"])
            took = Spend().more(1, tokens, data["cost_usd_nano"], data["latency_us"], priced=priced)
            yield Lost(entry.seq, lanes.get(question.get("task")), took)
