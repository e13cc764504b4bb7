"""Reads the jobs of ``squeue --json``: those fields that the coupling needs. Pure.

Slurm 22.05 writes plain numbers and one state. Later versions write numbers as objects and
a list of states; both are read.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated

import msgspec

from cosched.core.bounds import Natural, UserId
from cosched.core.decoding import JsonDecoder, parse_integer, shown_text
from cosched.core.errors import CoschedError
from cosched.core.hostlist import expand_hosts
from cosched.core.units import NS_PER_S

#: Numbers that the coupling reckons with in nanoseconds.
_Plain = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
#: The longest answer of squeue, in bytes: a large site has 100,000 jobs of some 4 kB.
_ANSWER_MOST = 1 << 30


class Number(msgspec.Struct):
    """A number as Slurm 23.02 and later write it."""

    set: bool = False  #: whether it is a number
    infinite: bool = False  #: whether it stands for no limit
    number: _Plain = 0  #: its value, if it is set


_Number = _Plain | Number | None


class Stage(Enum):
    """How far a job is, as squeue shows it."""

    WAITS = "waits"
    GETS_READY = "gets ready"  #: it has nodes; its prolog runs
    RUNS = "runs"
    OVER = "over"


_WAITS = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
_RUNS = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"}
_OVER = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
}


class SlurmJob(msgspec.Struct):
    """A job as ``squeue --json`` prints it. Limits are minutes, times seconds.
    None: it prints no value."""

    job_id: Natural  #: Slurm's number of the job
    user_id: UserId = 0  #: its user
    user_name: str | None = ""  #: the name of its user
    job_state: str | list[str] = "PENDING"  #: one word, or several
    state_reason: str | None = ""  #: why it waits
    comment: str | None = ""  #: its user's; may name mates
    admin_comment: str | None = ""  #: the controller's, for the user
    batch_flag: bool = True  #: whether sbatch submitted it
    requeue: bool = True  #: whether it may be put back into the queue
    restart_cnt: Natural = 0  #: how often it was put back
    array_job_id: _Number = 0  #: of its array; 0: none
    het_job_id: _Number = 0  #: of its heterogeneous job; 0: none
    priority: _Number = None  #: 0: the job is held
    time_limit: _Number = None  #: minutes
    submit_time: _Number = 0  #: seconds since 1970
    start_time: _Number = 0  #: seconds since 1970; 0: unknown
    eligible_time: _Number = 0  #: seconds since 1970
    nice: _Number = 0  #: lowers its priority; see ``shown_nice``
    node_count: _Number = 1  #: nodes that it wants or has
    tasks: _Number = None  #: on all nodes
    partition: str | None = ""  #: the partition, or several
    account: str | None = ""  #: of its user, for accounting
    qos: str | None = ""  #: quality of service
    features: str | None = ""  #: that its nodes must have
    required_nodes: str | None = ""  #: by name
    excluded_nodes: str | None = ""  #: by name
    resv_name: str | None = ""  #: its reservation; empty: none
    licenses: str | None = ""  #: that it needs
    tres_per_node: str | None = ""  #: resources on each node
    tres_per_job: str | None = ""  #: resources in all
    tres_per_socket: str | None = ""  #: resources on each socket
    tres_per_task: str | None = ""  #: resources of each task
    tasks_per_node: _Number = None  #: 0: not given
    cpus: _Number = None  #: in all
    cpus_per_task: _Number = None  #: 0: not given
    memory_per_node: _Number = None  #: MiB
    memory_per_cpu: _Number = None  #: MiB
    shared: str | int | list[str] | None = None  #: whether others may use its nodes

    @property
    def states(self) -> list[str]:
        """Returns the state and its flags."""
        if isinstance(self.job_state, str):
            return [self.job_state]
        return self.job_state

    @property
    def stage(self) -> Stage:
        """Returns how far the job is."""
        states = set(self.states)
        if "CONFIGURING" in states:
            return Stage.GETS_READY
        if states & _WAITS:
            return Stage.WAITS
        if states & _OVER and "COMPLETING" not in states:
            return Stage.OVER
        return Stage.RUNS if states & (_RUNS | _OVER) else Stage.WAITS

    @property
    def only_completes(self) -> bool:
        """Returns whether its epilog runs. The job was put back into the queue or is over:
        Slurm 22.05 prints COMPLETING alone for both."""
        states = set(self.states)
        return "COMPLETING" in states and states <= {"COMPLETING", *_OVER}

    @property
    def held(self) -> bool:
        """Returns whether its user or an administrator holds the job in the queue."""
        return self.stage is Stage.WAITS and number(self.priority, 1) == 0

    def begins_later(self, now_s: float) -> bool:
        """Returns whether its user's begin time has not come. After a requeue Slurm itself
        lets a job wait."""
        waits = self.stage is Stage.WAITS and self.restart_cnt == 0
        return waits and number(self.eligible_time, 0) > now_s

    @property
    def limit_ns(self) -> int | None:
        """Returns the time limit; None: unlimited."""
        minutes = number(self.time_limit, 0)
        return int(minutes * 60 * NS_PER_S) if minutes else None

    @property
    def submitted_ns(self) -> int:
        return int(number(self.submit_time, 0) * NS_PER_S)

    @property
    def started_ns(self) -> int:
        return int(number(self.start_time, 0) * NS_PER_S)

    @property
    def nodes(self) -> int:
        return max(1, int(number(self.node_count, 1)))


def count_nodes(nodes: str) -> int:
    """Returns the number of nodes of a list such as ``n[1-3,7],m2``; 0 for another form."""
    try:
        return len(expand_hosts(nodes))
    except CoschedError:
        return 0


def number(value: _Number, otherwise: float) -> float:
    """Returns a number of either form; ``otherwise`` if it is not set."""
    if isinstance(value, Number):
        return value.number if value.set and not value.infinite else otherwise
    return otherwise if value is None else value


class _Problem(msgspec.Struct):
    error: str = ""
    description: str = ""


class _Squeue(msgspec.Struct):
    jobs: list[SlurmJob]
    errors: list[_Problem] = []


_decoder: JsonDecoder[_Squeue] = JsonDecoder(_Squeue, "the jobs of Slurm", _ANSWER_MOST)


def read_jobs(text: bytes) -> list[SlurmJob]:
    """Returns the jobs of an answer of squeue. Raises CoschedError for another form, and
    for an answer that reports an error: without slurmctld it has no jobs. Texts of users
    may have any bytes."""
    answer = _decoder.decode(shown_text(text))
    for problem in answer.errors:
        raise CoschedError(f"{problem.description} ({problem.error})")
    return answer.jobs


# The AdminComment of a moved job has the nice value that its user gave, too. Slurm sets it
# in one update with the nice value. So a crash of the controller or of slurmctld leaves all
# of it or nothing. If the job has another nice value than the line has, its user gave it
# that later.
_MOVED = r"cosched: moved forward from nice value (-?[0-9]{1,10}) to (-?[0-9]{1,10})"


def moved_line(own: int, nice: int) -> str:
    """Returns the AdminComment of a job that is moved. own: the nice value of its user."""
    return f"cosched: moved forward from nice value {own} to {nice}"


def shown_nice(job: SlurmJob) -> int:
    """Returns the nice value of a job. Slurm 22.05, for one, prints a negative one with
    2**32 added."""
    shown = int(number(job.nice, 0))
    return shown - (1 << 32) if shown >= 1 << 31 else shown


def own_nice(job: SlurmJob) -> int:
    """Returns the nice value that the user of a job gave it last."""
    shown = shown_nice(job)
    found = re.fullmatch(_MOVED, job.admin_comment or "")
    if found is None:
        return shown
    own, moved = (
        parse_integer(text, "a nice value", -1 << 33, 1 << 33) for text in found.groups()
    )
    return own if moved == shown else shown
