"""The machine that a driver turns: an event in, a step out. Holds the state; decides nothing itself."""

from hansard.deliberation.protocol.moves import Event, Move, Reading, Step
from hansard.deliberation.protocol.rules import Rules
from hansard.deliberation.protocol.session import Outcome, session
from hansard.deliberation.protocol.state import State
from hansard.errors import Broken


class Machine:
    """One session's rules at work. Sending the same events to another machine gives the same steps."""

    def __init__(self, rules: Rules) -> None:
        self.state = State(rules=rules)
        self.outcome: Outcome | None = None
        self._course = session(self.state)

    def begin(self, reading: Reading) -> Step:
        """The first step: the problem statement, and the question who sits on the panel."""
        self.state.reading = reading
        return self._step(None)

    def send(self, event: Event) -> Step:
        """What follows from this event."""
        if self.outcome is not None:
            raise Broken("the session has ended; nothing can happen in it any more")
        return self._step(event)

    def _step(self, event: Event | None) -> Step:
        state = self.state
        move: Move
        try:
            move = next(self._course) if event is None else self._course.send(event)
        except StopIteration as end:
            move = self.outcome = end.value
        step = Step(
            appended=tuple([state.transcript[ordinal] for ordinal in state.new]),
            amended=tuple([state.transcript[ordinal] for ordinal in state.changed]),
            move=move,
        )
        state.new.clear()
        state.changed.clear()
        return step
