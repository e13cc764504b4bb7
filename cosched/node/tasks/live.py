"""Holds a job and a task of this node with their kernel objects."""

from __future__ import annotations

from dataclasses import dataclass, field

from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.linux import proc
from cosched.shm.region import JobRegion


@dataclass(frozen=True, slots=True)
class Claim:
    """The fields that a process sends about itself when it registers."""

    rank: int
    world: int
    carrier: int
    launched: bool


@dataclass(slots=True)
class LiveTask:
    """A registered process.

    pidfd: becomes readable when the process ends. start_ticks: identifies the process
    together with its pid. launched: the process has not called MPI_Init yet, so it does not
    use its slot."""

    pid: int
    pidfd: int
    slot: int
    rank: int
    world: int
    start_ticks: int
    launched: bool = False


@dataclass(slots=True)
class LiveJob:
    """A job's region, its bell, and its tasks by pid.

    declared_bytes: the memory that the job declared. expectation: how long like jobs ran.
    Both are kept here, because the user can write into the region. The bell is open twice:
    the daemon reads ``bell``, and tasks get ``task_bell_fd``. Otherwise a task could clear
    O_NONBLOCK on the daemon's descriptor.
    """

    key: str
    name: str
    uid: int
    region: JobRegion
    bell: int
    task_bell_fd: int
    carrier: int = 0
    declared_bytes: int = 0
    expectation: Expectation = UNKNOWN
    tasks: dict[int, LiveTask] = field(default_factory=dict)

    def task_in_slot(self, slot: int) -> LiveTask | None:
        """Returns the live task that owns a slot; requests name slots, not pids."""
        return next((t for t in self.tasks.values() if t.slot == slot), None)

    def above(self, pid: int) -> LiveTask | None:
        """Returns the nearest ancestor of this process that is a task of the job."""
        above = proc.parent(pid)
        while above is not None and above not in self.tasks:
            above = proc.parent(above)
        return None if above is None else self.tasks[above]
