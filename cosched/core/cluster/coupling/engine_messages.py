"""Defines what the coupling of a domain needs of an engine, as events and commands.

An *engine* queues the jobs of a domain and has nodes for them: our own queue
(``coupling.coupled_queue``), or that of another batch system. It treats a job of a group
like any other, with one exception. When it is the job's turn the engine gives it nodes but
does not start it, and reports ``JobReady``. From then on it waits for commands:

    PrepareJob   make everything ready, then report JobPrepared or JobFailed
    GoJob        begin; the job was prepared
    ReleaseJob   undo: the nodes are free, and the job waits in the queue again
    TryJob       it may be the job's turn now: report JobReady or JobNotReady

An engine that cannot prepare jobs reports JobPrepared at once. Commands are carried out in
order. They are repeated after a restart, so each must be harmless the second time.

Before it carries out commands, a driver stores ``Coupling.snapshot()``. After a restart it
restores the machine, reports each job that the engine has (``JobFound``), and ends this
with ``RecoveryEnded``. ``now_ns`` is the monotonic clock, which never steps; ``wall_ns`` is
the clock on the wall, which only orders groups by age and appears in sentences.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from cosched.core.cluster.coupling.groups import DomainName, Group
from cosched.core.cluster.coupling.mate_messages import Addresses, AnyMessage
from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.queue_commands import WakeAt
from cosched.core.cluster.queue.queue_events import Ticked


class JobAnnounced(Struct, frozen=True):
    """A job of a group will be submitted here by ``user``."""

    now_ns: int  #: ns, monotonic
    wall_ns: int  #: ns since 1970
    number: JobId  #: the job's number
    group: Group  #: that the job names
    user: str = ""  #: its user here


class JobQueued(Struct, frozen=True):
    """An announced job waits in the engine's queue."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number
    size: int  #: its nodes


class JobReady(Struct, frozen=True):
    """It is a job's turn: the engine keeps nodes for it."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number
    size: int = 0  #: how many; 0: its size has not changed since it was queued


class JobNotReady(Struct, frozen=True):
    """The result of TryJob: it is not the job's turn."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number
    #: When it should be, if no other job of a group has nodes; None: unknown.
    expected_ns: int | None = None
    #: The reason passes soon, without another event; for example, what was prepared for the
    #: job still ends.
    passing: bool = False


class JobPrepared(Struct, frozen=True):
    """A job can begin in an instant."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number
    address: str = ""  #: how its mates reach it; may be empty


class JobFailed(Struct, frozen=True):
    """A job that had nodes has lost them; it waits in the queue again."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number


class JobOver(Struct, frozen=True):
    """A job has ended, was cancelled, or failed for good."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number


class JobStartedAlone(Struct, frozen=True):
    """The engine has started a job although nothing here decided that. Its mates do not
    wait for it any more."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number


class JobRefused(Struct, frozen=True):
    """A job that is over, or was never queued, was refused: its group is forgotten, as if
    the job had never been announced."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number


class QueueMoved(Struct, frozen=True):
    """Something else happened in the queue: jobs that yielded may be offered again."""

    now_ns: int  #: ns, monotonic


class CapacityChanged(Struct, frozen=True):
    """The domain has this many nodes in service."""

    now_ns: int  #: ns, monotonic
    nodes: int  #: nodes in service


class Received(Struct, frozen=True):
    """A message came."""

    now_ns: int  #: ns, monotonic
    peer: DomainName  #: the domain whose key the connection has
    message: AnyMessage  #: a question or an answer


class PeerLost(Struct, frozen=True):
    """The transport reports that another domain cannot be reached."""

    now_ns: int  #: ns, monotonic
    peer: DomainName  #: the domain that does not answer


class Found(str, Enum):
    """Names the state of a job in its engine after a restart."""

    WAITS = "waits"  #: in its queue; a job that only had nodes waits again
    PREPARED = "prepared"
    RUNS = "runs"


class JobFound(Struct, frozen=True):
    """After a restart the engine reports a job."""

    now_ns: int  #: ns, monotonic
    number: JobId  #: the job's number
    found: Found  #: its state in the engine
    size: int  #: its nodes


class RecoveryEnded(Struct, frozen=True):
    """After a restart all jobs are reported; a job that was not is over."""

    now_ns: int  #: ns, monotonic
    wall_ns: int  #: ns since 1970


#: The events of a job that was announced.
OfMember = (
    JobQueued | JobReady | JobNotReady | JobPrepared | JobFailed | JobOver | JobStartedAlone
)

Event = (
    OfMember
    | JobAnnounced
    | JobRefused
    | QueueMoved
    | CapacityChanged
    | Received
    | PeerLost
    | JobFound
    | RecoveryEnded
    | Ticked
)


class TryJob(Struct, frozen=True):
    """Give this job nodes if it could have them now, without any job of another group."""

    number: JobId  #: the job's number


class PrepareJob(Struct, frozen=True):
    """Prepare the job on its nodes."""

    number: JobId  #: the job's number


class GoJob(Struct, frozen=True):
    """Let the prepared job begin."""

    number: JobId  #: the job's number
    addresses: Addresses = ()  #: the address of each job of the group that begins


class HoldJob(Struct, frozen=True):
    """The job keeps its nodes, idle. Nothing to do."""

    number: JobId  #: the job's number


class Why(str, Enum):
    """Why a job gives its nodes back."""

    YIELD = "yield"  #: its mates are not ready, and other jobs go first
    LEASE = "lease"  #: it has held for the release period
    ROUND = "round"  #: it had them for a round that failed
    NOT_DUE = "not due"  #: its leader has not run long enough
    DOUBT = "doubt"  #: the coordinator did not report its decision in time


class ReleaseJob(Struct, frozen=True):
    """Free the job's nodes; end what was prepared; it waits in the queue again."""

    number: JobId  #: the job's number
    why: Why  #: the reason


class Send(Struct, frozen=True):
    """Send a message to another domain."""

    to: DomainName  #: the receiver
    message: AnyMessage  #: a question or an answer


class PassWanted(Struct, frozen=True):
    """Make a pass: the order of the queue has changed."""


class GroupDisputed(Struct, frozen=True):
    """Another domain refused a job's group."""

    number: JobId  #: the job's number
    domain: DomainName  #: the domain that refused it
    reason: str  #: one line for its user


Command = (
    TryJob
    | PrepareJob
    | GoJob
    | HoldJob
    | ReleaseJob
    | Send
    | PassWanted
    | GroupDisputed
    | WakeAt
)
