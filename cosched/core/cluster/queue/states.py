"""Defines the states of a job in the queue, and the state that follows each step.

``NEXT`` is the whole table: (state, step) -> next state. A step that is not in the table
is refused, with the job's last steps (``entries``). docs/dev/queue.md shows the same table.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType


class State(str, Enum):
    """The state of a job. ABSENT: the queue does not have it, not yet or not any more."""

    ABSENT = "neither waits nor runs"
    WAITING = "waits"
    RESERVED = "has reserved nodes"
    RUNNING = "runs"
    ENDING = "was ordered to end"


class Step(str, Enum):
    """A step of a job: an event, or a decision of the queue at a tick."""

    SUBMITTED = "submitted"
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
    RESIZED = "given another size"
    ENDED = "ended"


NEXT = MappingProxyType(
    {
        (State.ABSENT, Step.SUBMITTED): State.WAITING,
        (State.ABSENT, Step.RECOVERED): State.RUNNING,
        (State.ABSENT, Step.RECOVERED_RESERVED): State.RESERVED,
        (State.WAITING, Step.STARTED): State.RUNNING,
        (State.WAITING, Step.GOT_NODES): State.RESERVED,
        (State.WAITING, Step.CANCELLED): State.ABSENT,
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
        (State.RUNNING, Step.RESIZED): State.RUNNING,
        (State.RUNNING, Step.ENDED): State.ABSENT,
        (State.ENDING, Step.REQUEUED): State.ABSENT,
        (State.ENDING, Step.FAILED): State.ABSENT,
        (State.ENDING, Step.CANCELLED): State.ENDING,
        (State.ENDING, Step.NODE_LOST): State.ENDING,
        (State.ENDING, Step.LATE): State.ENDING,
        (State.ENDING, Step.RESIZED): State.ENDING,
        (State.ENDING, Step.ENDED): State.ABSENT,
    }
)
