"""What became of each task so far: its attempts, their verdicts, and where its next attempt belongs. A fold over the task's entries."""

from dataclasses import dataclass, field

from hansard.errors import Tampered
from hansard.ledger.entry import Entry


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One attempt at a task, as far as the record tells."""

    seq: int
    number: int
    rung: str
    model: str
    causes: tuple[int, ...]
    returned: int | None = None
    returned_ok: bool = False
    judged: int | None = None
    passed: bool = False
    final: bool = False
    """The verdict is not about the result, so that another rung would not help."""
    interrupted: bool = False
    """Its driver stopped in good order while it was made: no crash, and nothing that counts against it."""
    advanced: bool = False
    """Its session got further while it was made: a crash behind that does not count against it either."""
    given_up: bool = False
    """A crash cut it short, and another attempt took its place."""


@dataclass(slots=True, kw_only=True)
class TaskProgress:
    """What became of a task so far. `rung` is where its next attempt belongs, None for the first."""

    attempts: list[Attempt] = field(default_factory=list)
    rung: str | None = None
    escalated: int | None = None
    restarts: int = 0
    retry: int | None = None
    tries: int = 0
    skipped: int | None = None
    refused: int | None = None
    """Where it was skipped for good: people turned it away at a gate, or its lane had nothing left for it."""
    begun: int = -1
    """The first attempt of those that are built on the same: it went on from no other."""
    goes_on_from: int = -1
    """The entry from which another attempt goes on."""

    def take(self, entry: Entry) -> None:
        """Fold one entry about the task in."""
        data = entry.data
        match entry.kind:
            case "task.attempted":
                if self.goes_on_from not in entry.causes:
                    self.begun, self.restarts, self.tries = entry.seq, 0, 0
                self.rung, number, model = str(data["rung"]), int(data["attempt"]), str(data["model"])
                self.attempts.append(
                    Attempt(seq=entry.seq, number=number, rung=self.rung, model=model, causes=entry.causes)
                )
            case "task.returned":
                attempt = self._attempt(entry)
                attempt.returned, attempt.returned_ok = entry.seq, data["ok"] is True
                self.goes_on_from = entry.seq
            case "task.judged":
                attempt = self._attempt(entry)
                attempt.judged, attempt.passed = entry.seq, data["ok"] is True
                attempt.final = data["by"] == "engine" and attempt.returned not in entry.causes
                self.tries = 0 if attempt.passed else self.tries + 1
            case "task.escalated":
                self.rung, self.escalated, self.tries = str(data["to_rung"]), entry.seq, 0
                self.goes_on_from = entry.seq
            case "task.restarted":
                self.restarts, self.goes_on_from = int(data["restarts"]), entry.seq
                self._attempt(entry).given_up = True
            case "task.skipped":
                self.skipped = entry.seq
                self.refused = entry.seq if data["because"] == "gate" else None

    def _attempt(self, entry: Entry) -> Attempt:
        number = int(entry.data["attempt"])
        found = next((attempt for attempt in reversed(self.attempts) if attempt.number == number), None)
        if found is None:
            raise Tampered(f"entry {entry.seq} ({entry.kind}) is about attempt {number}, which nobody has made")
        return found

    @property
    def last(self) -> Attempt | None:
        """The newest attempt since somebody asked for a retry."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].seq > (self.retry or -1) else None

    @property
    def failed_in_passing(self) -> int:
        """How many of the newest attempts failed in passing; those that were cut short do not count."""
        made = 0
        for attempt in reversed(self.attempts):
            if attempt.seq < self.begun or attempt.judged is not None or attempt.returned_ok:
                break
            made += attempt.returned is not None
        return made

    @property
    def number(self) -> int:
        """The number of the newest attempt of all."""
        return self.attempts[-1].number if self.attempts else 0
