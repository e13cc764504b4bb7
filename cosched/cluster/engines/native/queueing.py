"""Puts jobs into the queue, each with the number of nodes that it needs.

The number depends on the slots of the nodes, so it changes when nodes with other slots
join. After a restart no slots are known until a node has joined: the number is a guess
until then. A job with mates waits for the right one, because other domains get it once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from cosched.cluster.coupling.driver import Driver
from cosched.cluster.engines.native.basics import Basics
from cosched.cluster.engines.native.job_needs import check_declared, request_of
from cosched.cluster.engines.native.prerequisites import Prerequisites
from cosched.cluster.record import Record, State
from cosched.cluster.submission_request import MOST
from cosched.config.domain import DomainConfig
from cosched.config.queue import CPU, MALLEABLE, RIGID, QueueSettings
from cosched.core.bounds import UID_MOST
from cosched.core.cluster.queue.halves.sharing_job import SharingJob, whole_nodes_job
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.cpu_board import CpuJob
from cosched.core.cluster.queue.queue_events import CpusCounted, JobCancelled, JobSubmitted
from cosched.core.cluster.queue.sizes.execution import linear
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob, least_nodes
from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Limits
from cosched.core.units import NS_PER_S

#: A job of which nothing is known is planned as one of this length.
UNKNOWN_NS = 3600 * NS_PER_S


class Walltime(NamedTuple):
    """How long a job counts as running."""

    ns: int  #: from its start on
    limited: bool  #: it is ended then
    known: bool  #: it is more than a guess


class Queueing:
    """The ways of a domain's jobs into its queue. driver: feeds the queue."""

    def __init__(
        self,
        basics: Basics,
        config: DomainConfig,
        queue: QueueMachine,
        driver: Driver,
        limits_of: Callable[[Record], Limits],
        prerequisites: Prerequisites,
    ) -> None:
        """limits_of: returns by what a job counts as limited."""
        self._members = basics.members
        self._records = basics.records
        self._clock = basics.clock
        self._settings = config.queue
        self._resources = config.resources
        self._queue = queue
        self._driver = driver
        self._limits_of = limits_of
        self._prerequisites = prerequisites
        self._slots = 0  # those of a node when the waiting jobs got their sizes
        self._unsized: dict[int, Record] = {}  # with mates, until a node has joined

    def configure(self, settings: QueueSettings) -> None:
        """Applies changed settings to jobs from now on."""
        self._settings = settings

    def check_needs(self, record: Record, size: int) -> None:
        """Raises CoschedError for needs besides CPUs that the domain can never meet. size:
        the number of the job's nodes."""
        job = record.submission
        if self._settings.unit == CPU:
            check_declared(self._resources, job)
            self._queue.place.check_needs(self._on_cpus(record, size))
        elif job.features or job.needs:
            raise CoschedError(
                "this domain gives jobs whole nodes, without --constraint or --need; its "
                f'operator writes unit = "{CPU}" into [queue] of domain.toml for them'
            )

    def add(self, record: Record, size: int) -> None:
        """Adds a job to the queue, or keeps it back on its terms. size: the number of its
        nodes. Raises CoschedError for a job that can never start."""
        terms = self._prerequisites.terms(record)
        job = self._job(record, size)
        self._driver.handle(JobSubmitted(self._clock.now_ns(), job, terms))

    def add_again(self, record: Record) -> None:
        """Adds a stored job to the queue. Its size is a guess as long as no node has
        joined. A job that the queue refuses now ends with the reason."""
        try:
            self.add(record, self._size(record))
        except CoschedError as error:
            self._records.finish(record, State.CANCELLED, None, str(error))

    def add_with_mates(self, record: Record) -> None:
        """Adds a stored job with mates to the queue, once a node has joined."""
        if self._members.slots:
            self.add_again(record)
        else:
            self._unsized[record.number] = record

    def add_unsized(self) -> None:
        """Queues the jobs that waited for the first node; their sizes may be guesses."""
        unsized, self._unsized = self._unsized, {}
        for record in unsized.values():
            self.add_again(record)

    def is_unsized(self, number: int) -> bool:
        """Returns whether a job is not in the queue because no node has joined."""
        return number in self._unsized

    def node_joined(self) -> None:
        """Sizes the waiting jobs again if nodes have other slots than before."""
        if self._slots != self._members.slots:
            self._slots = self._members.slots
            if self._settings.unit == CPU:
                self._driver.handle(CpusCounted(self._clock.now_ns(), self._slots))
            self.add_unsized()
            self.resize()

    def resize(self) -> None:
        """Gives waiting jobs the number of nodes that they need now. Jobs with mates keep
        theirs, which other domains know."""
        queue = self._queue
        kept = [queue.jobs[number].job for number in queue.batches.kept]
        for job in [*queue.waiting, *kept]:
            record = self._records.live[job.number]
            try:
                size = len(self._members.counts(record.submission))
                wanted = self._job(record, size)
            except CoschedError:
                continue  # its start fails, and names the reason
            if _wants(wanted) != _wants(job) and not job.waits_for_mates:
                self._driver.handle(JobCancelled(self._clock.now_ns(), job.number))
                self.add(record, size)

    def relabel(self, uid: int) -> None:
        """Lets the waiting jobs of a user count as what is known of their labels now. They
        keep their places."""
        for job in list(self._queue.waiting):
            record = self._records.live[job.number]
            if record.uid != uid or not isinstance(job, SharingJob) or not job.shares:
                continue
            if self._limits_of(record) != job.limits:
                self._submit_again(record, job)

    def _submit_again(self, record: Record, job: SharingJob) -> None:
        now_ns, terms = self._clock.now_ns(), self._prerequisites.terms(record)
        relabelled = replace(job, limits=self._limits_of(record))
        self._driver.handle(JobCancelled(now_ns, job.number))
        self._driver.handle(JobSubmitted(now_ns, relabelled, terms))

    def recovered(self, record: Record) -> Job:
        """Returns a job that has nodes as the queue takes it. It keeps them if it or the
        domain does not change sizes, and may take as long as with its fewest nodes yet."""
        held = len(record.nodes)
        if not record.submission.malleable:
            return self._job(record, self._size(record) if record.parts else held)
        ideal = self._size(record)
        if record.size is not None and self._settings.size == MALLEABLE:
            return self._job(record, ideal)
        least = held if record.size is None else min(held, record.submission.minimum)
        longest_ns = round(self._walltime(record).ns * linear(min(least, ideal), ideal))
        rigid = replace(self._rigid(record, held), walltime_ns=longest_ns)
        return whole_nodes_job(rigid) if self._members.divided else rigid

    def _job(self, record: Record, size: int) -> Job:
        job = record.submission
        if job.malleable and self._settings.size != RIGID:
            walltime = self._walltime(record)
            return MalleableJob(
                record.number,
                size,
                walltime.ns,
                _place_ns(record),
                limited=walltime.limited,
                known=walltime.known,
                minimum=min(job.minimum, size),
                preferred=job.preferred,
            )
        if self._settings.unit == CPU:
            return self._on_cpus(record, size)
        rigid = self._rigid(record, size)
        return self._on_halves(record, rigid) if self._members.divided else rigid

    def _on_cpus(self, record: Record, size: int) -> CpuJob:
        """Returns a job as a domain takes it whose unit is a CPU. An exclusive one has all
        CPUs of its nodes."""
        job, walltime = record.submission, self._walltime(record)
        cpus = job.cpus or -(-job.tasks // size)
        if job.exclusive:
            cpus = MOST
        most = self._members.slots or cpus
        return CpuJob(
            record.number,
            size * min(cpus, most),
            walltime.ns,
            _place_ns(record),
            exclusive=job.exclusive,
            limited=walltime.limited,
            known=walltime.known,
            nodes=size,
            cpus=cpus,
            shares=job.share and not job.exclusive,
            needs=request_of(self._resources, job, size),
        )

    def _on_halves(self, record: Record, rigid: Job) -> SharingJob:
        """Returns a job as a domain with halves of nodes takes it. As long as no node has
        joined, its number of halves is a guess. Raises CoschedError for more tasks than a
        half takes."""
        job = record.submission
        if not self._members.may_share(job):
            return whole_nodes_job(rigid)
        halves = 2 * rigid.size
        if self._members.part_slots:
            halves = len(self._members.half_counts(job))
        if not halves:
            return whole_nodes_job(rigid)
        return SharingJob(
            rigid.number,
            min(halves, 2 * rigid.size),
            rigid.walltime_ns,
            rigid.submit_ns,
            limited=rigid.limited,
            known=rigid.known,
            application=application_of(record),
            limits=self._limits_of(record),
            halves=halves,
            nodes=rigid.size,
        )

    def _rigid(self, record: Record, size: int) -> Job:
        walltime = self._walltime(record)
        return Job(
            record.number,
            size,
            walltime.ns,
            _place_ns(record),
            limited=walltime.limited,
            known=walltime.known,
            # Where nodes take several jobs, a job that waits for mates shares its nodes.
            exclusive=record.submission.exclusive and not record.submission.mates,
        )

    def walltimes_ns(self) -> dict[int, int]:
        """Returns the walltimes of all live jobs by the present settings."""
        live = self._records.live
        return {number: self._walltime(record).ns for number, record in live.items()}

    def _walltime(self, record: Record) -> Walltime:
        """Returns how long a job may run, or without a limit how long it probably will."""
        job, settings = record.submission, self._settings
        asked_ns = job.time_ns  # the default was put there when it was submitted
        if not asked_ns:
            learned_ns = self._records.run_times.expected_ns(record)
            return Walltime(learned_ns or UNKNOWN_NS, False, learned_ns is not None)
        # While a job waits for its turn on what it shares, its time passes.
        alone = job.exclusive or (settings.unit == CPU and not job.share)
        return Walltime(asked_ns * (1 if alone else settings.jobs_per_node), True, True)

    def _size(self, record: Record) -> int:
        """Returns the number of nodes of a job that was accepted before."""
        slots = self._members.slots or MOST
        try:
            return len(record.submission.counts(slots, self._members.most))
        except CoschedError:
            return self._members.most


def application_of(record: Record) -> str:
    """Returns the name under which the speeds of a job's program are known: its user and
    the program."""
    return f"{record.uid}.{program_of(record)}"


def program_of(record: Record) -> str:
    """Returns the name of a job's program."""
    return record.submission.program or record.submission.name


def user_and_program(application: str) -> tuple[int, str]:
    """Returns the parts of an application's name."""
    uid, _, program = application.partition(".")
    return parse_integer(uid, "a user", 0, UID_MOST), program


def _place_ns(record: Record) -> int:
    """Returns the moment that decides about a job's place in the queue."""
    return record.submitted_ns if record.let_in_ns is None else record.let_in_ns


def _wants(job: Job) -> tuple[int, ...]:
    """Returns the nodes and halves, or CPUs, that a job wants."""
    if isinstance(job, SharingJob):
        return job.size, job.whole, job.spread
    if isinstance(job, CpuJob):
        return job.size, job.nodes, job.cpus
    return job.size, least_nodes(job)
