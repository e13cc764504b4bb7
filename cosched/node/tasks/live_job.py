"""Holds a job and a task of this node with their kernel objects."""

from __future__ import annotations

from msgspec import Struct, field

from cosched.core.named_tuples import NamedTuple
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.linux import proc
from cosched.shm.region import JobRegion
from cosched.shm.region_values import Phase


class Claim(NamedTuple):
    """The fields that a process sends about itself when it registers."""

    rank: int  #: its rank in MPI_COMM_WORLD
    world: int  #: the number of ranks in MPI_COMM_WORLD; 0: unknown
    carrier: int  #: the carrier of the sender's status, a key of ``CARRIERS``
    phase: Phase  #: the part of the process in the job


class LiveTask(Struct):
    """A registered process."""

    pid: int  #: the process, in the daemon's pid namespace
    pidfd: int  #: a descriptor that is readable when the process ends
    slot: int  #: the task's index in the region's table of tasks
    rank: int  #: its rank in MPI_COMM_WORLD
    world: int  #: the number of ranks in MPI_COMM_WORLD; 0: unknown
    #: The process's start in ticks since boot, which identifies it together with its pid.
    start_ticks: int
    #: Its part in the job. Only a task that called MPI_Init uses its slot.
    phase: Phase = Phase.TASK

    @property
    def is_launcher(self) -> bool:
        """Whether it starts tasks of the job and is none itself."""
        return self.phase.starts_tasks


class LiveJob(Struct):
    """A job of this node, with its region and its tasks.

    Memory and expectation are kept here, because the user can write into the region. The
    bell is open twice. Otherwise a task could clear O_NONBLOCK on the daemon's descriptor.
    """

    key: str  #: the job's name on the node, ``UID.NAME``
    name: str  #: the job's name, from its user
    uid: int  #: the user that owns the job
    region: JobRegion  #: the job's region
    bell: int  #: the descriptor of the bell that the daemon reads
    task_bell_fd: int  #: the descriptor of the bell that tasks get
    carrier: int = 0  #: the carrier of the sender's status, a key of ``CARRIERS``
    declared_bytes: int = 0  #: the memory that the job declared for this node; 0: none
    expectation: Expectation = UNKNOWN  #: how long like jobs were scheduled
    #: The resources that limit the job, as its user named them; empty: none. A job with one
    #: of them shares its nodes.
    limited_by: tuple[str, ...] = ()
    #: How long after the user's command its first task here registered, in seconds; None:
    #: unknown.
    began_after_s: float | None = None
    #: The job's tasks and launchers by pid.
    tasks: dict[int, LiveTask] = field(default_factory=dict)

    @property
    def launchers(self) -> list[LiveTask]:
        """The processes here that start its tasks."""
        return [task for task in self.tasks.values() if task.is_launcher]

    @property
    def waits_ns(self) -> int:
        """How long its tasks waited while it was scheduled, in all, by their counters."""
        return sum(self.region.waits_ns(task.slot) for task in self.tasks.values())

    @property
    def work(self) -> tuple[int, int]:
        """How many iterations its tasks have marked, and how many messages they have sent,
        with their collective calls."""
        each = [self.region.work(task.slot) for task in self.tasks.values()]
        return sum(marks for marks, _ in each), sum(messages for _, messages in each)

    def task_in_slot(self, slot: int) -> LiveTask | None:
        """Returns the live task that owns a slot; requests name slots, not pids."""
        return next((t for t in self.tasks.values() if t.slot == slot), None)

    def above(self, pid: int) -> LiveTask | None:
        """Returns the nearest ancestor of this process that is a task of the job."""
        above = proc.parent(pid)
        while above is not None and above not in self.tasks:
            above = proc.parent(above)
        found = None if above is None else self.tasks[above]
        return None if found is None or found.is_launcher else found
