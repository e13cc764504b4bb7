"""Keeps the jobs of a queue and their states; each step follows the table in ``states``."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.states import NEXT, State, Step, Taken, refusal

#: Steps of jobs that are kept, to explain a step that is refused.
STEPS_MOST = 1000


@dataclass(slots=True)
class Entry:
    """A job in the queue.

    since_ns: when it got its nodes, or began on them. limit_ns: when it must end; None:
    never. nodes: empty while it waits.
    """

    job: Job
    state: State = State.ABSENT
    since_ns: int = 0
    limit_ns: int | None = None
    nodes: Intervals = ()


class Entries(dict[JobId, Entry]):
    """The jobs of a queue by number."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: deque[Taken] = deque(maxlen=STEPS_MOST)

    def state(self, number: JobId) -> State:
        """Returns the state of a job."""
        entry = self.get(number)
        return State.ABSENT if entry is None else entry.state

    def check(self, number: JobId, step: Step) -> None:
        """Raises CoschedError if a job cannot take this step now."""
        state = self.state(number)
        if (state, step) not in NEXT:
            raise refusal(number, state, step, self._taken)

    def step(self, number: JobId, step: Step, now_ns: int) -> State:
        """Takes a step of a job; returns its new state. Raises CoschedError for a step
        that is not in the table."""
        entry = self[number]
        state = NEXT.get((entry.state, step))
        if state is None:
            raise refusal(number, entry.state, step, self._taken)
        entry.state = state
        self._taken.append((now_ns, number, step))
        if state is State.ABSENT:
            del self[number]
        return state
