"""Defines the states of a job in the queue, and keeps the jobs with their states.

``NEXT`` is the whole table: (state, step) -> next state. A step that is not in the table
is refused, with the job's last steps. docs/dev/queue.md shows the same table.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from enum import Enum
from types import MappingProxyType

from msgspec import Struct

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.errors import CoschedError

#: Steps of jobs that are kept, to explain a step that is refused.
STEPS_MOST = 1000


class State(str, Enum):
    """The state of a job. ABSENT: the queue does not have it, not yet or not any more."""

    __hash__ = str.__hash__  # each step looks one up; that of Enum takes far longer

    ABSENT = "neither waits nor runs"
    KEPT_BACK = "is kept back until other jobs have ended"
    WAITING = "waits"
    RESERVED = "has reserved nodes"
    RUNNING = "runs"
    RESIZING = "runs, and was ordered to change its size"
    SUSPENDING = "runs, and was ordered to stop"
    SUSPENDED = "is suspended"
    ENDING = "was ordered to end"


class Step(str, Enum):
    """A step of a job: an event, or a decision of the queue at a tick."""

    __hash__ = str.__hash__

    SUBMITTED = "submitted"
    KEPT_BACK = "kept back"
    LET_IN = "let into the queue"
    DROPPED = "dropped, because a job for which it waited has failed"
    RECOVERED = "recovered"
    RECOVERED_RESERVED = "recovered with reserved nodes"
    STARTED = "started"
    GOT_NODES = "given reserved nodes"
    BEGAN = "begun on its reserved nodes"
    RELEASED = "released from its reserved nodes"
    REQUEUED = "failed to start, to wait again"
    FAILED = "failed to start"
    CANCELLED = "cancelled"
    NODE_LOST = "hit by a lost node"
    LATE = "over its walltime"
    RESIZE_ORDERED = "ordered to change its size"
    RESIZED = "given another size"
    RESIZE_REFUSED = "left at its size"
    RESIZE_LATE = "late with its change of size"
    REBOUND = "given other bounds"
    SUSPEND_ORDERED = "ordered to stop"
    SUSPENDED = "suspended"
    SUSPEND_REFUSED = "not suspended"
    CONTINUE_ORDERED = "ordered to continue"
    CONTINUED = "continued"
    ENDED = "ended"


NEXT = MappingProxyType(
    {
        (State.ABSENT, Step.SUBMITTED): State.WAITING,
        (State.ABSENT, Step.KEPT_BACK): State.KEPT_BACK,
        (State.ABSENT, Step.RECOVERED): State.RUNNING,
        (State.ABSENT, Step.RECOVERED_RESERVED): State.RESERVED,
        (State.KEPT_BACK, Step.LET_IN): State.WAITING,
        (State.KEPT_BACK, Step.DROPPED): State.ABSENT,
        (State.KEPT_BACK, Step.CANCELLED): State.ABSENT,
        (State.KEPT_BACK, Step.REBOUND): State.KEPT_BACK,
        (State.WAITING, Step.STARTED): State.RUNNING,
        (State.WAITING, Step.GOT_NODES): State.RESERVED,
        (State.WAITING, Step.CANCELLED): State.ABSENT,
        (State.WAITING, Step.REBOUND): State.WAITING,
        (State.RESERVED, Step.BEGAN): State.RUNNING,
        (State.RESERVED, Step.RELEASED): State.WAITING,
        (State.RESERVED, Step.REQUEUED): State.WAITING,
        (State.RESERVED, Step.FAILED): State.ABSENT,
        (State.RESERVED, Step.CANCELLED): State.ABSENT,
        (State.RESERVED, Step.NODE_LOST): State.RESERVED,
        (State.RESERVED, Step.ENDED): State.ABSENT,
        (State.RUNNING, Step.REQUEUED): State.WAITING,
        (State.RUNNING, Step.FAILED): State.ABSENT,
        (State.RUNNING, Step.CANCELLED): State.ENDING,
        (State.RUNNING, Step.NODE_LOST): State.ENDING,
        (State.RUNNING, Step.LATE): State.ENDING,
        (State.RUNNING, Step.RESIZE_ORDERED): State.RESIZING,
        (State.RUNNING, Step.REBOUND): State.RUNNING,
        (State.RUNNING, Step.SUSPEND_ORDERED): State.SUSPENDING,
        (State.RUNNING, Step.ENDED): State.ABSENT,
        (State.RESIZING, Step.RESIZED): State.RUNNING,
        (State.RESIZING, Step.RESIZE_REFUSED): State.RUNNING,
        (State.RESIZING, Step.RESIZE_LATE): State.RESIZING,
        (State.RESIZING, Step.REBOUND): State.RESIZING,
        (State.RESIZING, Step.REQUEUED): State.WAITING,
        (State.RESIZING, Step.FAILED): State.ABSENT,
        (State.RESIZING, Step.CANCELLED): State.ENDING,
        (State.RESIZING, Step.NODE_LOST): State.ENDING,
        (State.RESIZING, Step.LATE): State.ENDING,
        (State.RESIZING, Step.ENDED): State.ABSENT,
        (State.SUSPENDING, Step.SUSPENDED): State.SUSPENDED,
        (State.SUSPENDING, Step.SUSPEND_REFUSED): State.RUNNING,
        (State.SUSPENDING, Step.REBOUND): State.SUSPENDING,
        (State.SUSPENDING, Step.REQUEUED): State.WAITING,
        (State.SUSPENDING, Step.FAILED): State.ABSENT,
        (State.SUSPENDING, Step.CANCELLED): State.ENDING,
        (State.SUSPENDING, Step.NODE_LOST): State.ENDING,
        (State.SUSPENDING, Step.LATE): State.ENDING,
        (State.SUSPENDING, Step.ENDED): State.ABSENT,
        (State.SUSPENDED, Step.CONTINUE_ORDERED): State.SUSPENDED,
        (State.SUSPENDED, Step.CONTINUED): State.RUNNING,
        (State.SUSPENDED, Step.REBOUND): State.SUSPENDED,
        (State.SUSPENDED, Step.REQUEUED): State.WAITING,
        (State.SUSPENDED, Step.FAILED): State.ABSENT,
        (State.SUSPENDED, Step.CANCELLED): State.ENDING,
        (State.SUSPENDED, Step.NODE_LOST): State.ENDING,
        (State.SUSPENDED, Step.ENDED): State.ABSENT,
        (State.ENDING, Step.REQUEUED): State.ABSENT,
        (State.ENDING, Step.FAILED): State.ABSENT,
        (State.ENDING, Step.CANCELLED): State.ENDING,
        (State.ENDING, Step.NODE_LOST): State.ENDING,
        (State.ENDING, Step.LATE): State.ENDING,
        (State.ENDING, Step.RESIZED): State.ENDING,
        (State.ENDING, Step.RESIZE_REFUSED): State.ENDING,
        (State.ENDING, Step.RESIZE_LATE): State.ENDING,
        (State.ENDING, Step.SUSPENDED): State.ENDING,
        (State.ENDING, Step.SUSPEND_REFUSED): State.ENDING,
        (State.ENDING, Step.CONTINUED): State.ENDING,
        (State.ENDING, Step.ENDED): State.ABSENT,
    }
)


#: States of jobs that have no nodes.
UNPLACED = frozenset({State.KEPT_BACK, State.WAITING})
#: States of jobs whose tasks run, and that were not ordered to end.
LIVE = frozenset({State.RUNNING, State.RESIZING, State.SUSPENDING})


class Entry(Struct, gc=False):
    """A job in the queue."""

    job: Job  #: the request
    state: State  #: changes as ``NEXT`` allows
    since_ns: int = 0  #: when it got its nodes, or began on them
    limit_ns: int | None = None  #: when it must end; None: never
    #: Also the nodes that leave it or arrive; empty while it waits.
    nodes: Intervals = ()

    def __deepcopy__(self, _memo: object) -> Entry:
        """Returns a copy for a forecast; all its fields are values that never change."""
        return copy(self)


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

    def with_nodes(self) -> dict[JobId, tuple[Job, Intervals, int]]:
        """Returns the jobs that have nodes, with these nodes and since when, in ns."""
        return {
            number: (entry.job, entry.nodes, entry.since_ns)
            for number, entry in self.items()
            if entry.state not in UNPLACED
        }

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
