"""Defines the events of a domain's queue; ``queue_commands.py`` has its commands.

Events are in the past tense. A driver supplies them in order. Most events change only the
state. Decisions are made at a tick: a driver delivers all events of one moment and then
ticks. So two jobs that end together are seen together. Times are nanoseconds; ``now_ns``
never goes backwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from cosched.core.cluster.queue.batches import Terms
from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.places.matching import NodeOffer
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.rules import PassRules
from cosched.core.cluster.queue.sizes.suspension import Suspended
from cosched.core.symbiosis.program_pairs import Pair


class JobSubmitted(Struct, frozen=True):
    """A job entered the queue, or is kept back until its terms allow that."""

    now_ns: int  #: ns, the queue's clock
    job: Job  #: the request
    terms: Terms | None = None  #: those of a batch; None: it enters at once


class JobCancelled(Struct, frozen=True):
    """The user or an operator does not want the job any more."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class OutcomeKnown(Struct, frozen=True):
    """A job has ended for good, wherever it was. Only jobs for which others wait need be
    reported."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number
    ok: bool  #: whether it ended well


class JobFailedToStart(Struct, frozen=True):
    """A job did not begin on its nodes, which are free again."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number
    requeue: bool  #: it waits again. One with mates may also have lost its reservation.


class JobEnded(Struct, frozen=True):
    """A running job's processes are gone; its nodes are free again."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class JobRecovered(Struct, frozen=True):
    """After a restart the agents report a job that runs since ``since_ns``; one that waits
    for its mates has its nodes since then, and has not begun."""

    now_ns: int  #: ns, the queue's clock
    job: Job  #: the request
    nodes: Intervals  #: by number
    since_ns: int  #: when it got its nodes, ns
    #: A job that has grown has the nodes of its start here, then those of each growth.
    #: Without them all nodes count as those of its start.
    growths: tuple[Intervals, ...] = ()
    #: The nodes that it was ordered to have by its open change; None: there is none.
    ordered: Intervals | None = None
    by_ns: int | None = None  #: the change is late from then on; None: never
    halves: Intervals = ()  #: that it has of its nodes; (): whole nodes
    suspension: Suspended | None = None  #: its suspensions; None: there was none
    #: The suspended job whose nodes it has, which is recovered before it; None: none.
    lender: JobId | None = None
    terms: Terms | None = None  #: those of its batch; None: it is in none


class ReservedJobBegan(Struct, frozen=True):
    """A job that had reserved nodes begins on them; its walltime counts from now."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class ReservedJobReleased(Struct, frozen=True):
    """A job that had reserved nodes does not need them; it waits in the queue again."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class NodesLost(Struct, frozen=True):
    """Nodes do not answer any more."""

    now_ns: int  #: ns, the queue's clock
    nodes: Intervals  #: by number


class NodesDrained(Struct, frozen=True):
    """An operator takes nodes out of service; their jobs run on."""

    now_ns: int  #: ns, the queue's clock
    nodes: Intervals  #: by number


class NodesAdded(Struct, frozen=True):
    """The domain has new nodes. They are out of service until they join."""

    now_ns: int  #: ns, the queue's clock
    nodes: Intervals  #: by number; no other node ever has one of them


class NodesRemoved(Struct, frozen=True):
    """Nodes have left the domain for good; no job has them. Jobs that need more nodes than
    those that stay wait on, and others pass them."""

    now_ns: int  #: ns, the queue's clock
    nodes: Intervals  #: by number


class NodesJoined(Struct, frozen=True):
    """Nodes are in service, for the first time or again."""

    now_ns: int  #: ns, the queue's clock
    nodes: Intervals  #: by number


class NodeOffered(Struct, frozen=True):
    """A node has these features and counts from now on (``places.matching``)."""

    now_ns: int  #: ns, the queue's clock
    offer: NodeOffer[int]  #: all that it has besides CPUs


class CpusCounted(Struct, frozen=True):
    """Each node has this number of CPUs for jobs from now on."""

    now_ns: int  #: ns, the queue's clock
    cpus: int  #: of each node; 0: not known


class ResizeDone(Struct, frozen=True):
    """A running job has exactly these nodes now; the others that it had are free."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number
    nodes: Intervals  #: by number; those of the order, or a part of the change
    cost_ns: int  #: how long the job stood still for it


class ResizeRefused(Struct, frozen=True):
    """A running job keeps the nodes that it had before the order."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class ResizeLate(Struct, frozen=True):
    """A change of size takes too long. It is still open: its end follows."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class Sensed(Struct, frozen=True):
    """A running job reports iterations that it has done since its last report."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number
    size: int  #: the number of nodes on which it did them
    iterations: int  #: their number
    exec_ns: int  #: the time that they took together
    comm_ns: int  #: of it, the time that a rank waited for others, on average


class BoundsChanged(Struct, frozen=True):
    """The owner of a malleable job, waiting or running, wants other bounds of its size."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number
    minimum: int  #: in nodes
    ideal: int  #: in nodes
    preferred: int = 0  #: in nodes; 0: its ideal


class SizeWanted(Struct, frozen=True):
    """The program of a running job reports the nodes that it needs and wants, within the
    bounds of its owner. They hold until its next report."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number
    minimum: int  #: that it needs; 0: not known
    ideal: int  #: at which it is fastest; 0: not known
    wanted: int  #: for which it asks; 0: it asks for none
    #: Numbers of nodes and the time of an iteration that it predicts for each, in ns; ():
    #: it predicts none.
    predicted: tuple[tuple[int, int], ...] = ()


class JobSuspended(Struct, frozen=True):
    """All tasks of a job are stopped, as ordered; they keep their memory."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class SuspendRefused(Struct, frozen=True):
    """All tasks of a job run on: it cannot be suspended now."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class JobContinued(Struct, frozen=True):
    """All tasks of a suspended job run again, as ordered."""

    now_ns: int  #: ns, the queue's clock
    number: JobId  #: the job's number


class SettingsChanged(Struct, frozen=True):
    """An operator wants another policy, or another grace for jobs that start later."""

    now_ns: int  #: ns, the queue's clock
    policy: Policy  #: from now on
    grace_ns: int | None  #: after the walltime; None: jobs are not ended


class SharingChanged(Struct, frozen=True):
    """An operator wants ``rows`` jobs on a node at most."""

    now_ns: int  #: ns, the queue's clock
    rows: int  #: the most jobs on a node
    #: From now on, of the jobs that wait or run. No running job gets a shorter one.
    walltimes_ns: Mapping[JobId, int]


class SpeedObserved(Struct, frozen=True):
    """A job had the same neighbour on all its nodes for a while, with this speedup.

    ``background`` None: no neighbour."""

    now_ns: int  #: ns, the queue's clock
    primary: str  #: the application of the job
    background: str | None  #: that of its neighbour; None: no neighbour
    speedup: float  #: relative to whole nodes of its own


class PairKnown(Struct, frozen=True):
    """All that live runs have shown of a job's program beside another one, in place of what
    was known of the two."""

    now_ns: int  #: ns, the queue's clock
    pair: Pair  #: the two applications
    speed: float  #: of the first, where 1 is that on the same halves without a neighbour
    runs: int  #: how many runs it is the mean of; 0: nothing is known any more
    harmful: bool  #: whether the first is slowed so much that they must not be neighbours


class HalvesLimited(Struct, frozen=True):
    """An operator lets jobs of up to a part of the nodes have halves; larger ones get whole
    nodes. Jobs that run keep what they have."""

    now_ns: int  #: ns, the queue's clock
    share_up_to: float  #: the part, above 0 and up to 1


class RulesChanged(Struct, frozen=True):
    """Passes have these exceptions from the order from now on."""

    now_ns: int  #: ns, the queue's clock
    rules: PassRules  #: for the passes from now on


class Ticked(Struct, frozen=True):
    """All events until now are delivered: decide."""

    now_ns: int  #: ns, the queue's clock


AboutJob = (
    JobCancelled
    | OutcomeKnown
    | JobFailedToStart
    | JobEnded
    | ReservedJobBegan
    | ReservedJobReleased
)
AboutNodes = (
    NodesAdded
    | NodesRemoved
    | NodesLost
    | NodesDrained
    | NodesJoined
    | NodeOffered
    | CpusCounted
)
AboutSizes = ResizeDone | ResizeRefused | ResizeLate | Sensed | BoundsChanged | SizeWanted
AboutSuspensions = JobSuspended | SuspendRefused | JobContinued
Event = (
    JobSubmitted
    | JobRecovered
    | AboutJob
    | AboutNodes
    | AboutSizes
    | AboutSuspensions
    | SettingsChanged
    | SharingChanged
    | RulesChanged
    | SpeedObserved
    | PairKnown
    | HalvesLimited
    | Ticked
)


class Machine(Protocol):
    """Decides when jobs start: a queue, the coupling with other domains, or both."""

    def handle(self, event: Any, /) -> Sequence[Any]:
        """Handles an event; returns the commands."""
