"""Keeps the jobs of a queue and their states; each step follows the table in ``states``."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.states import NEXT, State, Step
from cosched.core.errors import CoschedError

#: Steps of jobs that are kept, to explain a step that is refused.
STEPS_MOST = 1000


class Entry(Struct, gc=False):
    """A job in the queue."""

    job: Job  #: the request
    state: State  #: changes as ``states`` allows
    since_ns: int = 0  #: when it got its nodes, or began on them
    limit_ns: int | None = None  #: when it must end; None: never
    nodes: Intervals = ()  #: empty while it waits


# The objects that stay here for some time are not tracked by Python's garbage collector:
# in a simulation of a year it would take a third of the time.
class KnownJobs(dict[JobId, Entry]):
    """The jobs of a queue by number."""

    def __init__(self) -> None:
        super().__init__()
        self._times: deque[int] = deque(maxlen=STEPS_MOST)  # when each step was taken
        self._numbers: deque[JobId] = deque(maxlen=STEPS_MOST)  # the job of each step
        self._steps: deque[Step] = deque(maxlen=STEPS_MOST)

    def state(self, number: JobId) -> State:
        """Returns the state of a job."""
        entry = self.get(number)
        return State.ABSENT if entry is None else entry.state

    def check(self, number: JobId, step: Step) -> None:
        """Raises CoschedError if a job cannot take this step now."""
        if (self.state(number), step) not in NEXT:
            raise self._refusal(number, step)

    def enter(self, job: Job, step: Step, now_ns: int) -> Entry:
        """Adds an absent job by its first step; returns its entry."""
        entry = self[job.number] = Entry(job, State.ABSENT)
        self.move(entry, step, now_ns)
        return entry

    def step(self, number: JobId, step: Step, now_ns: int) -> Entry:
        """Moves a job by a step; returns it with its new state. Raises CoschedError for a
        step that is not in the table."""
        entry = self.get(number)
        if entry is None:
            raise self._refusal(number, step)
        self.move(entry, step, now_ns)
        return entry

    def move(self, entry: Entry, step: Step, now_ns: int) -> None:
        """Moves a job by a step, as ``step`` does."""
        number = entry.job.number
        try:
            state = entry.state = NEXT[entry.state, step]
        except KeyError:
            raise self._refusal(number, step) from None
        self._times.append(now_ns)
        self._numbers.append(number)
        self._steps.append(step)
        if state is State.ABSENT:
            del self[number]

    def _refusal(self, number: JobId, step: Step) -> CoschedError:
        taken = zip(self._times, self._numbers, self._steps, strict=True)
        steps = [
            f"{each.value} at {at_ns} ns" for at_ns, job, each in taken if job == number
        ]
        story = f" (it was {', '.join(steps)})" if steps else ""
        state = self.state(number).value
        return CoschedError(f"job {number}: {state}, and cannot be {step.value}{story}")
