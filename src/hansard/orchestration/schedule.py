"""Which task may start now. Pure: no clock, no I/O; it hears what became of tasks and says what follows.

Dataflow: a task starts when its own inputs have passed and a place is free. Cost is O(tasks + edges) over a whole run, times
the handful of different sets of limits: waiting tasks stand in one queue for each set, in the order of the plan.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from hansard.orchestration.plan import Plan, Task

State = Literal["waiting", "held", "ready", "running", "passed", "failed", "skipped"]
Keys = tuple[str, ...]


class Skip(NamedTuple):
    """A task that will not run, because of which of its inputs."""

    task: str
    upstream: str


class Schedule:
    """The state of a plan in execution. `keys` says which limits a task counts against; a key without a limit is free.

    A task that is `held` waits for `release` once its inputs have passed, and takes no place meanwhile.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        limits: Mapping[str, int],
        keys: Callable[[Task], Sequence[str]],
        held: Collection[str] = (),
    ) -> None:
        self._plan = plan
        self._limits = limits
        self._keys = {task.id: tuple(key for key in keys(task) if key in limits) for task in plan.tasks}
        self._place = {task.id: place for place, task in enumerate(plan.tasks)}
        self._open = {task.id: len(task.needs) for task in plan.tasks}
        self._state: dict[str, State] = {task.id: "waiting" for task in plan.tasks}
        self._ready: dict[Keys, list[int]] = {}
        self._used: dict[str, int] = dict.fromkeys(limits, 0)
        self._held = set(held)
        self.holding: dict[str, None] = {}
        """The tasks whose inputs have passed and which are held, in that order."""
        self.busy = 0
        self.ready = 0
        """How many could start if there were places for them."""
        self.halted = False
        for task in plan.tasks:
            if not task.needs:
                self._make_ready(task.id)

    def state(self, id: str) -> State:
        return self._state[id]

    @property
    def unsettled(self) -> list[str]:
        """The tasks of which nothing is decided, in the order of the plan."""
        return [id for id, state in self._state.items() if state in ("waiting", "held", "ready", "running")]

    def start(self) -> Iterator[Task]:
        """The tasks that may start now; each counts as running from here on."""
        while not self.halted and (id := self._next()) is not None:
            for key in self._keys[id]:
                self._used[key] += 1
            self._state[id] = "running"
            self.busy += 1
            self.ready -= 1
            yield self._plan.task(id)

    def release(self, id: str) -> None:
        """Let a task go that was held."""
        self._held.discard(id)
        if id in self.holding:
            del self.holding[id]
            self._make_ready(id)

    def passed(self, id: str) -> None:
        """A task's result was accepted: what waited for it comes one step nearer."""
        self._settle(id, "passed")
        for consumer in self._plan.consumers[id]:
            self._input_settled(consumer)

    def failed(self, id: str) -> list[Skip]:
        """A task failed for good. Gives what is skipped for it, each after its reason."""
        self._settle(id, "failed")
        return self._fail_consumers(id)

    def skipped(self, id: str) -> list[Skip]:
        """A task was decided against before it ran. Gives what is skipped for it in turn."""
        self._settle(id, "skipped")
        return self._fail_consumers(id)

    def _fail_consumers(self, first: str) -> list[Skip]:
        skips, gone = list[Skip](), deque([first])
        while gone:
            upstream = gone.popleft()
            for consumer in self._plan.consumers[upstream]:
                if self._state[consumer] != "waiting":
                    continue
                if self._plan.task(consumer).on_upstream_failure == "run":
                    self._input_settled(consumer)
                    continue
                self._settle(consumer, "skipped")
                skips.append(Skip(consumer, upstream))
                gone.append(consumer)
        return skips

    def _input_settled(self, id: str) -> None:
        self._open[id] -= 1
        if not self._open[id] and self._state[id] == "waiting":
            self._make_ready(id)

    def _make_ready(self, id: str) -> None:
        if id in self._held:
            self._state[id] = "held"
            self.holding[id] = None
            return
        self._state[id] = "ready"
        self.ready += 1
        heappush(self._ready.setdefault(self._keys[id], []), self._place[id])

    def _next(self) -> str | None:
        """Of the queues with free places, the task that stands first in the plan."""
        best: list[int] | None = None
        for keys, queue in self._ready.items():
            while queue and self._state[self._plan.tasks[queue[0]].id] != "ready":
                heappop(queue)
            if not queue or any(self._used[key] >= self._limits[key] for key in keys):
                continue
            if best is None or queue[0] < best[0]:
                best = queue
        return self._plan.tasks[heappop(best)].id if best else None

    def _settle(self, id: str, state: State) -> None:
        before = self._state[id]
        if before in ("passed", "failed", "skipped"):
            raise ValueError(f"task {id!r} is {before} already")
        if before == "ready":
            self.ready -= 1
        elif before == "running":
            self.busy -= 1
            for key in self._keys[id]:
                self._used[key] -= 1
        self.holding.pop(id, None)
        self._state[id] = state
