"""Defines where the jobs of a domain can be placed, for plans and for the queue.

``ledger``: one job a node, on any nodes or on aligned blocks. ``rows``: several jobs a
node. A place keeps the jobs that have nodes, and when each is expected to end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.places.matching import NodeOffer
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.program_pairs import Pair
from cosched.core.units import NS_PER_S

#: A job that exceeds its walltime is expected to take so much more, repeatedly, ns. Qsim,
#: the simulator of Tang et al., uses five minutes.
OVERRUN_NS = 300 * NS_PER_S

#: A spot for a job: found by a place, passed back to it, and valid until its next change.
Spot: TypeAlias = Any
#: A ledger as plans see it: ``free``, ``expected``, ``overrun_ns`` and ``prolong``.
Row: TypeAlias = Any
#: The row in which a job was planned, its expected end, and the nodes that are free again.
Freed: TypeAlias = "tuple[int, int, int]"


class Place(ABC):
    """The nodes of one domain and the jobs that have some of them.

    Nodes can be out of service: a job that has some keeps them, but they are not free after
    its end.

    total: the nodes in and out of service, also those that the domain may get. capacity:
    those that jobs may get now. free: those that a job could have now. moved: counts the
    changes of expected ends and of nodes in service, so that plans can detect them. shrunk:
    whether nodes were removed, so that jobs may wait that need more than all. rows: the
    parts that conservative backfill plans with; None if it cannot.
    """

    total: int
    capacity: int
    free: int
    moved: int
    shrunk: bool = False

    @property
    def takes_all(self) -> bool:
        """Returns whether each waiting job has a spot once other jobs end."""
        return self.capacity == self.total and not self.shrunk

    @property
    @abstractmethod
    def rows(self) -> Sequence[Row] | None:
        """Returns the rows for plans with numbers of nodes; None: no such plans."""

    @property
    @abstractmethod
    def ends(self) -> Sequence[tuple[int, JobId, int]]:
        """Returns (expected end, number, nodes in service) of each job with nodes, soonest
        first."""

    @abstractmethod
    def check(self, job: Job) -> None:
        """Raises CoschedError for a job that has no spot even if no other job runs."""

    def check_needs(self, job: Job) -> None:  # noqa: B027  (nodes may have CPUs alone)
        """Raises CoschedError for a job that needs more besides CPUs than there is. A job
        that runs keeps what it has."""

    def runs_alone(self, job: Job) -> bool:
        """Returns whether a job needs nodes that other jobs could otherwise share."""
        return False

    def fits_alone(self, job: Job) -> bool:
        """Returns whether a job has a spot in service once no other job has nodes. If not,
        it waits until nodes return, and others pass it."""
        return job.size <= self.capacity

    def taken_by(self, size: int) -> int:
        """Returns the number of nodes that a job of ``size`` nodes takes."""
        return size

    # --- spots ----------------------------------------------------------------------------

    def shape(self, job: Job) -> Hashable:
        """Returns a key. If one job with this key finds a spot now, all do. By default each
        job has its own key: a search takes no longer than a comparison."""
        return job.number

    @abstractmethod
    def find(self, job: Job) -> Spot | None:
        """Returns where a job could have nodes now; None if nowhere."""

    @abstractmethod
    def beside(self, job: Job, spot: Spot) -> Spot | None:
        """Returns a spot that leaves the first waiting job what it will need; None if there
        is none. spot: one that ``find`` returned."""

    @abstractmethod
    def keep_for(self, job: Job) -> int:
        """Returns when the first waiting job, which has no spot now, is expected to have
        one. ``beside`` spares that spot until the next call."""

    def block(self, job: Job) -> bool:
        """Keeps later jobs of a pass from where this one may run; returns whether no job
        can start any more."""
        return True

    def unblock(self) -> None:  # noqa: B027  (need not do more)
        """Ends the effect of ``block``."""

    def expected_ns(self, size: int, now_ns: int) -> int | None:
        """Returns the time when ``size`` nodes are expected to be free if no job starts;
        None: fewer are in service. Late jobs are expected to take some time more."""
        raise CoschedError("such nodes do not combine with mates in other domains")

    @property
    def in_service(self) -> int:
        """Returns the number of nodes in service."""
        return self.capacity

    @property
    def free_alone(self) -> int:
        """Returns the number of nodes in service without any job."""
        return self.free

    # --- jobs -----------------------------------------------------------------------------

    @abstractmethod
    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        """Gives the job nodes from ``now_ns`` on; returns them."""

    @abstractmethod
    def release(self, number: JobId) -> Freed | None:
        """Frees a job's nodes; None if plans must be made again."""

    def walltime_ns(self, job: Job) -> int:
        """Returns how long a job with nodes may run, from its start on."""
        return job.walltime_ns

    def restart(self, number: JobId, now_ns: int, walltime_ns: int) -> None:
        """Expects the end of a job after a walltime that begins now."""
        raise CoschedError("such nodes do not combine with mates in other domains")

    @abstractmethod
    def extend(self, now_ns: int) -> int:
        """Puts off the expected ends of jobs that are late; returns the number of jobs."""

    def halves_of(self, number: JobId) -> Intervals:
        """Returns the halves of nodes that a job has, 2 x node and 2 x node + 1; () where
        nodes are not divided."""
        return ()

    def lender_of(self, number: JobId) -> JobId | None:
        """Returns the suspended job whose nodes a job has; None: its nodes are its own."""
        return None

    def adopt(
        self, job: Job, nodes: Intervals, since_ns: int, halves: Intervals = ()
    ) -> None:
        """Restores a job that has these nodes since ``since_ns``. halves: those of the
        nodes that it has; (): whole nodes."""
        raise CoschedError(f"job {job.number}: such nodes cannot take a running job")

    def limit(self, share_up_to: float) -> None:
        """Lets jobs of up to this part of the nodes have halves (``HalvesLimited``)."""
        raise CoschedError("such nodes have no halves")

    def observe(self, primary: str, background: str | None, speedup: float) -> None:
        """Learns the observed speedup of an application beside another one."""
        raise CoschedError("such nodes do not depend on observed speeds")

    def learn(self, pair: Pair, speed: float, runs: int, *, harmful: bool) -> None:
        """Keeps what is known of two applications beside each other (``PairKnown``)."""
        raise CoschedError("such nodes do not depend on observed speeds")

    # --- nodes ----------------------------------------------------------------------------

    def has(self, number: JobId, nodes: Intervals) -> bool:
        """Returns whether a job, to which some of these nodes belong, has one of them
        already."""
        return True

    def expect(self, most: int) -> None:
        """Lets jobs of up to ``most`` nodes wait for nodes that the domain may get."""
        raise CoschedError("such nodes are always the same")

    def add(self, nodes: Intervals) -> None:
        """Takes new nodes into the domain, out of service."""
        raise CoschedError("such nodes are always the same")

    def remove(self, nodes: Intervals) -> None:
        """Removes nodes from the domain; those of a job stay, out of service."""
        raise CoschedError("such nodes are always the same")

    def withdraw(self, nodes: Intervals) -> None:
        """Removes nodes from service."""
        raise CoschedError("such nodes stay in service")

    def admit(self, nodes: Intervals) -> None:
        """Puts nodes into service: new ones, or such as were withdrawn."""
        raise CoschedError("such nodes stay in service")

    def offer(self, offer: NodeOffer[int]) -> None:
        """Takes what a node has besides CPUs, for the first time or again."""
        raise CoschedError("such nodes have nothing that jobs need besides CPUs")

    def resize(self, cpus: int) -> None:
        """Lets each node have this number of CPUs for jobs."""
        raise CoschedError("such nodes do not count CPUs")

    def share(self, rows: int, held: Mapping[JobId, tuple[Job, Intervals, int]]) -> None:
        """Changes the number of jobs on a node to ``rows``. held: the jobs that have nodes,
        with these nodes and since when."""
        raise CoschedError("such nodes cannot take another number of jobs")
