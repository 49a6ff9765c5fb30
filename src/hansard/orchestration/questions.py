"""Questions of a run that have no answer yet, and how often a crash cut each of them short: a fold over the run's entries."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hansard.ledger.entry import Entry
from hansard.record.replaying import SWALLOWED

QuestionKey = tuple[object, ...]
"""A question, however often it is put: the role, its task, and of that the attempt; or the session, the agent, the round and the
branch."""


@dataclass(slots=True, kw_only=True)
class Questions:
    """Questions to roles, and those inside of sessions, as far as the record tells."""

    asking: dict[int, Entry] = field(default_factory=dict)
    """Questions to roles that have no answer yet."""
    crashes: dict[QuestionKey, list[int]] = field(default_factory=dict)
    """By question: where it was put, each time that a crash cut it short."""
    swallowed: dict[QuestionKey, int] = field(default_factory=dict)
    """The entries that stand in place of answers, because of too many crashes."""
    _turns: dict[int, Entry] = field(default_factory=dict)
    """Questions inside of sessions that led to nothing so far."""
    _spared: set[int] = field(default_factory=set)
    """Questions that no crash counts against: one has counted already, or what left them without an answer was none."""

    def take(self, entry: Entry) -> None:
        """Fold one entry of the run in."""
        match entry.kind:
            case "role.asked":
                self.asking[entry.seq] = entry
            case "role.answered":
                asked = self.asking.pop(entry.causes[0], None) if entry.causes else None
                if asked and entry.data.get("error") == SWALLOWED:
                    self.swallowed[_asked(asked)] = entry.seq
            case "turn.asked":
                self._turns[entry.seq] = entry
            case "turn.taken" | "turn.failed" | "panel.selected" | "ensemble.answered":
                self._settle(entry)
            case "persona.made":
                self.crashes.clear()
            case "run.interrupted" if entry.data["by"] != "error":
                self._spared.update(self.asking, self._turns)
            case "run.retry_asked":
                self.crashes, self.swallowed = {}, {}
                self._spared.update(self.asking)

    def count_crashes(self) -> None:
        """Somebody goes on from here: what is under way was cut short."""
        put = self.asking | self._turns
        for asked in put.keys() - self._spared:
            self.crashes.setdefault(_asked(put[asked]), []).append(asked)
        self._spared.update(put)

    def spare(self, asked: Iterable[int]) -> None:
        """No crash counts against these any more."""
        self._spared.update(asked)

    def _settle(self, entry: Entry) -> None:
        """Something came of a question inside of a session: crashes before that no longer count."""
        for seq in entry.causes:
            if (asked := self._turns.pop(seq, None)) is not None:
                self.crashes.pop(_asked(asked), None)


def _asked(entry: Entry) -> QuestionKey:
    about = ("role", "task", "attempt") if entry.kind == "role.asked" else ("session", "agent", "round", "branch_depth")
    return tuple(entry.data.get(name) for name in about)
