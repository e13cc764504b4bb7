"""Holds the state of one coupled domain. Plain data: it can be written and read back."""

from __future__ import annotations

from enum import Enum

import msgspec

from cosched.core.cluster.coupling.engine_messages import Found
from cosched.core.cluster.coupling.groups import (
    DomainName,
    Group,
    GroupKey,
    GroupName,
    group_key,
)
from cosched.core.cluster.coupling.mate_messages import (
    Addresses,
    Answer,
    Cause,
    Question,
    RoundId,
)
from cosched.core.cluster.queue.job import JobId


class Stage(str, Enum):
    """How far a job of a group is in its own domain."""

    UNSUBMITTED = "unsubmitted"  #: announced, not in the queue yet
    QUEUING = "queuing"
    READY = "ready"  #: it has nodes, and asks its mates
    HOLDING = "holding"  #: it has nodes and waits for its mates
    PREPARING = "preparing"
    PREPARED = "prepared"  #: it waits for the decision about its round
    RUNNING = "running"
    OVER = "over"

    @property
    def may_wait(self) -> bool:
        """Whether a job in this stage queues, or has nodes and has not begun."""
        return self not in (Stage.UNSUBMITTED, Stage.RUNNING, Stage.OVER)

    @property
    def has_nodes(self) -> bool:
        """Whether the job has nodes and could be prepared."""
        return self in (Stage.READY, Stage.HOLDING)


class Owed(msgspec.Struct, frozen=True):
    """An answer that is not ready yet."""

    peer: DomainName  #: the domain that asked; this domain itself for its own rounds
    incarnation: int  #: the question's incarnation
    number: int  #: the question's number


class Turn(msgspec.Struct, omit_defaults=True):
    """Holds the facts about a job while it has nodes, or while the engine looks for nodes.
    A job that loses them, begins or ends gets a new turn. Times are of the monotonic
    clock."""

    #: The question that the job waits for; None: for no question.
    asking: int | None = None
    #: The round that has its nodes; None: no round.
    round: RoundId | None = None
    #: The round for which the engine looks for nodes; None: it does not.
    trying: RoundId | None = None
    #: The answer that is due to a coordinator; None: no answer.
    owed: Owed | None = None
    #: Until when the job waits for the next step of its round; None: it waits for no step.
    pin_ns: int | None = None
    #: When its promise to wait for the decision ends; None: it has not voted.
    vote_ns: int | None = None
    #: The end of its hold; None: it does not hold, or without a limit.
    lease_ns: int | None = None
    #: The round to which it has promised its latest start, until that goes; None: none. A
    #: job that voted and then lost its nodes has promised to start once it has others.
    promised: RoundId | None = None
    #: The domains that have no job of the group.
    without: list[DomainName] = []
    #: Whether it begins once it is prepared.
    starting: bool = False
    #: Whether it has nodes because it was its turn, not for a round.
    own: bool = False


class Dates(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a job may get nodes, must start or asks again, by the monotonic clock. Changed
    by ``Jobs.set_dates`` alone."""

    #: When its promised start is due; None: it has promised none.
    promise_ns: int | None = None
    #: Its earliest start; None: at once.
    due_ns: int | None = None
    #: When it may get nodes by itself again after a yield; None: at once.
    rest_ns: int | None = None
    #: When it asks its mates again; None: only after an event.
    retry_ns: int | None = None

    @property
    def may_start_ns(self) -> int:
        """Returns the earliest time at which the job gets nodes by itself."""
        return max(self.due_ns or 0, self.rest_ns or 0)


class Past(msgspec.Struct, omit_defaults=True):
    """Holds the facts about a job that last, with nodes or without. All times are of the
    monotonic clock."""

    #: The newest round of each coordinator that has asked for it.
    seen: dict[DomainName, RoundId] = {}
    #: The newest round of each coordinator that failed.
    failed: dict[DomainName, RoundId] = {}
    #: The round with which it began; None: with none.
    went: RoundId | None = None
    #: When it was first ready by itself; None: never.
    ready_ns: int | None = None
    #: When it last released its nodes because its hold ended; None: never.
    released_ns: int | None = None
    #: How often it yielded.
    yields: int = 0
    #: How often it asked a coordinator or its leader.
    asked: int = 0
    #: When the job first wanted to start and this domain did not answer.
    down_since: dict[DomainName, int] = {}
    #: When the job first wanted to start and this domain did not have the group.
    unknown_since: dict[DomainName, int] = {}
    #: Whether a mate has departed since the job has nodes.
    mate_left: bool = False
    #: Why it did not begin last time; None: it did not try.
    cause: Cause | None = None
    #: The domain that reported the cause.
    cause_at: DomainName = ""
    #: The numbers of the other jobs that are known.
    mates: dict[DomainName, JobId] = {}
    #: How its mates reach it.
    address: str = ""
    #: How to reach the jobs that began with it, itself included.
    addresses: Addresses = ()
    #: Why it began without a mate; empty: it did not.
    alone: str = ""
    #: The domains that have not confirmed its departure (``departures``).
    unconfirmed: list[DomainName] = []
    #: Whether its engine has started it or is about to.
    began: bool = False

    def note_round(self, round_id: RoundId) -> None:
        """Records that a round has asked for the job."""
        self.seen[round_id[0]] = max(round_id, self.seen.get(round_id[0], round_id))

    def note_failed(self, round_id: RoundId) -> None:
        """Records that a round has failed."""
        self.failed[round_id[0]] = max(round_id, self.failed.get(round_id[0], round_id))

    def is_over(self, round_id: RoundId) -> bool:
        """Returns whether a round has failed, or a later one of its coordinator came."""
        name = round_id[0]
        if name in self.failed and round_id <= self.failed[name]:
            return True
        return name in self.seen and round_id < self.seen[name]


class GroupJob(msgspec.Struct, omit_defaults=True):
    """This domain's job of a group, from its announcement until it is forgotten."""

    number: JobId  #: the job's number
    group: Group  #: that the job names
    #: That of the group as it was announced here.
    digest: str
    #: Its user here.
    user: str
    #: The wall time of the group's first announcement that is known here, in ns.
    older_ns: int
    stage: Stage = Stage.UNSUBMITTED  #: where it is between announcement and end
    #: The begin of the stage, by the monotonic clock.
    since_ns: int = 0
    #: Its nodes.
    size: int = 0
    #: The epoch of the queue in which it is not offered again; -1: it is offered in each.
    aside: int = -1
    #: Facts that end with a stage or a round.
    turn: Turn = msgspec.field(default_factory=Turn)
    dates: Dates = msgspec.field(default_factory=Dates)  #: when it may start, and must
    past: Past = msgspec.field(default_factory=Past)  #: its history and its mates'

    @property
    def rank(self) -> tuple[int, GroupName, str]:
        """Returns the key of the group by age, the same in all domains."""
        return self.older_ns, self.group.name, self.digest

    @property
    def key(self) -> GroupKey:
        """Returns by what this domain finds the group."""
        return group_key(self.user, self.group.name)

    @property
    def has_promised(self) -> bool:
        """Returns whether the job has promised its latest start, to a round that goes or
        may go."""
        return self.dates.promise_ns is not None or self.turn.promised is not None

    @property
    def is_idle(self) -> bool:
        """Returns whether the job holds, in no round and without an open question."""
        turn = self.turn
        return self.stage is Stage.HOLDING and turn.round is None and turn.asking is None

    @property
    def keeps_nodes(self) -> bool:
        """Returns whether the job has nodes also without a round."""
        return self.stage is Stage.HOLDING or (self.stage is Stage.READY and self.turn.own)

    @property
    def waits(self) -> bool:
        """Returns whether the job queues, or has nodes and has not begun."""
        return self.stage.may_wait


def is_until(other: RoundId | None, round_id: RoundId) -> bool:
    """Returns whether ``other`` is this round, or an earlier one of its coordinator."""
    return other is not None and other[0] == round_id[0] and other <= round_id


class Round(msgspec.Struct):
    """An attempt to start the jobs of a group."""

    id: RoundId  #: names the round
    group: GroupKey  #: its key
    began_ns: int  #: the begin of the round, then of its preparation
    asked: list[DomainName] = []  #: the domains that take part
    invited: list[DomainName] = []  #: the domains that were asked for nodes
    reserved: list[DomainName] = []  #: the domains whose job keeps nodes for the round
    promised: list[DomainName] = []  #: the domains whose job will start in time
    #: The domains that are left out, each with the reason to start without its job; empty:
    #: the job begins by an earlier round.
    absent: dict[DomainName, str] = {}
    #: Open Ready questions of domains whose job is ready.
    ready: dict[DomainName, Owed] = {}
    preparing: bool = False  #: whether all have nodes
    prepared: dict[DomainName, str] = {}  #: the addresses of prepared jobs, by domain

    @property
    def awaited(self) -> list[DomainName]:
        """Returns the domains that have not answered whether they have nodes."""
        answered = {*self.reserved, *self.promised, *self.absent}
        return [name for name in self.asked if name not in answered]


class Decision(msgspec.Struct):
    """A round that goes."""

    id: RoundId  #: names the round
    addresses: Addresses  #: the address of each job that begins
    open: list[DomainName]  #: the domains that have not confirmed it


class Open(msgspec.Struct):
    """A question without an answer."""

    to: DomainName  #: the receiver
    question: Question  #: as it was sent
    job: JobId | None  #: that asks; None: the domain itself
    first_ns: int  #: when it was sent first
    #: When it was sent first, or when the other domain last was at work on it.
    heard_ns: int
    sent_ns: int = 0  #: when it was sent last


class Peer(msgspec.Struct):
    """Holds the facts about another domain."""

    incarnation: int = 0  #: of its latest questions; 0: none came
    floor: int = 0  #: no question of it with a smaller number is open
    #: The answers given to it, by the number of the question.
    answers: dict[int, Answer] = {}
    down: bool = False  #: it does not answer, since down_ns
    down_ns: int = 0  #: since when, by the monotonic clock
    doubted: bool = False  #: whether that is old, and the domain was just asked again


class Counts(msgspec.Struct):
    """Counts how often each branch was taken."""

    asked: int = 0  #: questions that were sent
    resent: int = 0  #: questions that were sent again
    rounds: int = 0  #: attempts to start a group
    rounds_failed: int = 0  #: attempts after which a job waited on
    gone: int = 0  #: rounds that were decided
    holds: int = 0  #: decisions to hold nodes
    yields: int = 0  #: decisions to yield nodes
    yields_by_held_cap: int = 0  #: yields because too many nodes were held
    yields_to_older: int = 0  #: yields because an older group waits for the nodes
    holds_by_yield_cap: int = 0  #: holds because the job had yielded often enough
    not_due: int = 0  #: followers that got nodes before their time
    releases: int = 0  #: holds that ended with their lease
    tries: int = 0  #: orders to look for nodes at once
    tries_refused: int = 0  #: such orders that brought no nodes
    busy: int = 0  #: such orders that jobs of other groups prevented for a moment
    promises: int = 0  #: jobs without nodes that promised to start in time
    promises_broken: int = 0  #: jobs that started later than promised
    lapsed: int = 0  #: orders to go that came after the lease
    doubts: int = 0  #: questions about a decision that has not come
    started_alone: int = 0  #: jobs that started without a mate
    peers_down: int = 0  #: times that another domain stopped to answer
    dropped: int = 0  #: messages that were late, repeated or forged
    refused: int = 0  #: questions of other domains that were refused
    held_node_ns: int = 0  #: nodes times ns idle, from when a job has them until it starts
    sync_ns: int = 0  #: from ready to begin, over all started jobs
    started: int = 0  #: starts of jobs with mates


class State(msgspec.Struct):
    """Everything that a coupled domain remembers."""

    name: DomainName  #: of this domain
    incarnation: int = 1  #: grows with each restart, also of an older state
    next_number: int = 1  #: the number of the next question or round
    now_ns: int = 0  #: the latest time, monotonic
    capacity: int = 0  #: nodes in service
    epoch: int = 0  #: grows whenever the queue may offer other jobs
    ticked_ns: int = 0  #: the time of the last tick
    released_ns: int | None = None  #: when jobs last released nodes; None: never
    wake_ns: int | None = None  #: the wake-up that was ordered; None: none
    recovering: bool = False  #: after a restart, until the engine has reported its jobs
    found: dict[JobId, tuple[Found, int]] = {}  #: the reported jobs, with their sizes
    members: dict[JobId, GroupJob] = {}  #: its jobs of groups, by number
    groups: dict[GroupKey, JobId] = {}  #: the number of the job of each group
    rounds: dict[GroupKey, Round] = {}  #: of groups that it coordinates
    decisions: dict[GroupKey, list[Decision]] = {}  #: that not all domains have confirmed
    questions: dict[int, Open] = {}  #: without an answer, by number
    peers: dict[DomainName, Peer] = {}  #: the other domains, by name
    counts: Counts = msgspec.field(default_factory=Counts)  #: for metrics and tests
