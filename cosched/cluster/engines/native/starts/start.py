"""Describes one start of a job: its state in the controller, and its messages."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from cosched.cluster.messages import Chunk, Failure
from cosched.cluster.output_names import expand
from cosched.cluster.record import Record, State
from cosched.cluster.user_requests import JOB_VARIABLE
from cosched.config.domain import StartupSettings
from cosched.config.queue import CPU, QueueSettings
from cosched.core.arrays import parse_array
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.startup.jobobject import JobObject, cut, encode_object
from cosched.core.cluster.startup.seal import Tied, seal
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

_NAME_LENGTH = 16


@dataclass(slots=True)
class ActiveStart:
    """One start of a job."""

    record: Record  #: the job as it is stored
    failure: Failure | None = None  #: why the job does not end well; None: no reason yet
    ending: State | None = None  #: how the job will be recorded; None: it need not end
    lost: bool = False  #: a node of it was lost, or did not answer in time
    #: After the tree broke, the nodes whose end is not reported yet; None: the tree is
    #: whole.
    waits_for: set[str] | None = None
    #: Ends a start that takes too long; None: not running.
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)
    waits_for_mates: bool = False  #: it is to begin only when its mates are prepared
    prepared: bool = False  #: this was reported
    withdrawn: bool = False  #: it is given up, and the job waits again
    #: Its user does not want the job any more, whatever else ends it.
    cancelled: bool = False
    misfit: bool = False  #: nothing was sent, because it needs another number of nodes now
    mates: Addresses = ()  #: the jobs that begin with it
    #: When its tasks were gone, by the wall clock of its root; None: not known.
    ended_ns: int | None = None

    @property
    def root(self) -> str:
        """The name of its first node, which never leaves it."""
        return self.record.hosts[0]

    @property
    def holds(self) -> set[str]:
        """The names of the nodes that it has, that are to come to it, or for whose end it
        waits."""
        return {*self.record.admitted, *(self.waits_for or ())}

    def expect_root(self, sender: str) -> None:
        """Raises CoschedError for another member than its root."""
        if sender != self.root:
            raise CoschedError(f"job {self.record.number}: {sender} is not its root")

    @property
    def is_given_up(self) -> bool:
        """Whether its end is on the way."""
        over = self.ending is not None or self.failure is not None
        return over or self.withdrawn or self.cancelled

    @property
    def went(self) -> bool:
        """Whether the order to go was given, so that tasks may have begun."""
        return self.record.state is State.RUNNING

    @property
    def not_made(self) -> bool:
        """Whether nodes that stay in service could not make it. One that waits for its
        mates was made."""
        made = self.went or self.prepared or self.withdrawn
        return self.lost and not made and self.ending is not State.NODE_LOST


def job_object(record: Record, counts: tuple[int, ...], queue: QueueSettings) -> JobObject:
    """Returns the job object of a record. counts: the tasks on each node.

    COSCHED_JOB names the job to the nodes' schedulers. Its number is added: the name must
    differ from those of the user's other jobs. COSCHED_LIMITED_BY is its user's label.
    """
    job = record.submission
    number = str(record.number)
    environ = {**job.environ, JOB_VARIABLE: number}
    environ["COSCHED_DOMAIN_START"] = str(record.start)
    environ.update(_task_environment(record))
    if job.limited_by:
        environ["COSCHED_LIMITED_BY"] = ",".join(job.limited_by)
    if "COSCHED_JOB" in environ:
        environ["COSCHED_JOB"] += f"-{number}"
    return JobObject(
        name=unique_name(f"{job.token}_{number}" if record.array else job.token),
        uid=record.uid,
        gid=record.gid,
        argv=job.argv,
        script=job.script,
        environ=environ,
        cwd=job.cwd,
        umask=job.umask,
        limits=job.limits,
        counts=counts,
        pmi=job.pmi,
        pmix_library=job.pmix_library,
        bind=job.bind,
        input=job.input,
        output=expand(job.output, record),
        error=expand(job.error, record),
        label=job.label,
        grace_s=queue.grace_ns / NS_PER_S,
        jobs_per_node=queue.jobs_per_node,
        malleable=record.size is not None,
        parts=record.parts,
        cpus=job.cpus,
        alone=queue.unit == CPU and not job.share,
    )


def unique_name(token: str) -> str:
    """Returns a name for the job's PMI that no other job has, in letters and digits.

    MPICH names its shared memory by it, so what a killed job left there must not fit.
    """
    return hashlib.sha256(token.encode()).hexdigest()[:_NAME_LENGTH]


def _task_environment(record: Record) -> dict[str, str]:
    """Returns the variables of a task of an array that others do not have; {} for a job
    in none."""
    if not record.array:
        return {}
    array = parse_array(record.submission.array)
    values = {
        "JOB_ID": record.array,
        "TASK_ID": record.task,
        "TASK_COUNT": len(array.indices),
        "TASK_MIN": array.indices[0],
        "TASK_MAX": array.indices[-1],
        "TASK_STEP": array.step,
    }
    names = ["COSCHED_ARRAY"]
    if record.submission.slurm_variables:
        names.append("SLURM_ARRAY")
    return {
        f"{name}_{what}": str(value) for name in names for what, value in values.items()
    }


def chunks(
    record: Record,
    nodes: Intervals,
    found: JobObject,
    startup: StartupSettings,
    secrets: Sequence[bytes],
    roster: int,
) -> list[Chunk]:
    """Returns the messages with the sealed job object, for the root. secrets: each
    node's secret, by place. roster: the version of the roster with these nodes."""
    start, arity, exchange = (record.number, record.start), startup.arity, startup.tables
    sealed = seal(encode_object(found), Tied(*start, nodes, arity, exchange), secrets)
    empty = Chunk(*start, 0, nodes, arity, exchange, 0, 1, nodes[0][0], b"", roster)
    return empty.with_parts(cut(sealed, startup.chunk_bytes))
