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
    READY = "ready"  #: it has nodes, and its mates are asked
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
    """An answer that is not ready yet. peer: this domain itself, for its own rounds."""

    peer: DomainName
    incarnation: int
    number: int


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
    #: The round to which it has promised its latest start, until that goes; None: none.
    promised: RoundId | None = None
    #: The domains that have no job of the group.
    without: list[DomainName] = []
    #: Whether it begins once it is prepared.
    starting: bool = False
    #: Whether it has nodes because it was its turn, not for a round.
    own: bool = False


class Dates(msgspec.Struct, omit_defaults=True):
    """When a job may get nodes, must start or asks again, by the monotonic clock."""

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
        """Notes that a round has asked for the job."""
        self.seen[round_id[0]] = max(round_id, self.seen.get(round_id[0], round_id))

    def note_failed(self, round_id: RoundId) -> None:
        """Notes that a round has failed."""
        self.failed[round_id[0]] = max(round_id, self.failed.get(round_id[0], round_id))

    def is_over(self, round_id: RoundId) -> bool:
        """Returns whether a round has failed, or a later one of its coordinator came."""
        name = round_id[0]
        if name in self.failed and round_id <= self.failed[name]:
            return True
        return name in self.seen and round_id < self.seen[name]


class GroupJob(msgspec.Struct, omit_defaults=True):
    """This domain's job of a group, from its announcement until it is forgotten."""

    number: JobId
    group: Group
    #: That of the group as it was announced here.
    digest: str
    #: Its user here.
    user: str
    #: The wall time of the group's first announcement that is known here, in ns.
    older_ns: int
    stage: Stage = Stage.UNSUBMITTED
    #: The begin of the stage, by the monotonic clock.
    since_ns: int = 0
    #: Its nodes.
    size: int = 0
    #: The epoch of the queue in which it is not offered again; -1: it is offered in each.
    aside: int = -1
    turn: Turn = msgspec.field(default_factory=Turn)
    dates: Dates = msgspec.field(default_factory=Dates)
    past: Past = msgspec.field(default_factory=Past)

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
        """Returns whether the job holds, and nothing is asked about it."""
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
    """An attempt to start the jobs of a group.

    by: the domain whose job was ready. asked: the domains that take part. invited: those
    that were asked for nodes.
    reserved, promised, absent: their answers. ready: open Ready questions of domains whose
    job is ready. preparing: whether all have nodes. prepared: their addresses. began_ns:
    the begin of the round, then of its preparation.
    """

    id: RoundId
    group: GroupKey
    by: DomainName
    began_ns: int
    asked: list[DomainName] = []
    invited: list[DomainName] = []
    reserved: list[DomainName] = []
    promised: list[DomainName] = []
    absent: dict[DomainName, str] = {}
    ready: dict[DomainName, Owed] = {}
    preparing: bool = False
    prepared: dict[DomainName, str] = {}

    @property
    def awaited(self) -> list[DomainName]:
        """Returns the domains that have not answered whether they have nodes."""
        answered = {*self.reserved, *self.promised, *self.absent}
        return [name for name in self.asked if name not in answered]


class Decision(msgspec.Struct):
    """A round that goes. open: the domains that have not confirmed it."""

    id: RoundId
    addresses: Addresses
    open: list[DomainName]


class Open(msgspec.Struct):
    """A question without an answer. heard_ns: when it was sent first, or when the other
    domain last was at work on it. next_ns: when it is sent again."""

    to: DomainName
    question: Question
    job: JobId | None
    first_ns: int
    heard_ns: int
    next_ns: int
    times: int = 1


class Peer(msgspec.Struct):
    """Holds the facts about another domain.

    incarnation, floor: of its questions. answers: those given to it, by the number of the
    question. down: it does not answer, since down_ns.
    """

    incarnation: int = 0
    floor: int = 0
    answers: dict[int, Answer] = {}
    down: bool = False
    down_ns: int = 0


class Counts(msgspec.Struct):
    """Counts how often each branch was taken. held_node_ns: nodes times ns idle, from
    when a job has them until it starts. sync_ns: from ready to begin, over all started
    jobs."""

    asked: int = 0
    resent: int = 0
    rounds: int = 0
    rounds_failed: int = 0
    gone: int = 0
    holds: int = 0
    yields: int = 0
    yields_by_held_cap: int = 0
    yields_to_older: int = 0
    holds_by_yield_cap: int = 0
    not_due: int = 0
    releases: int = 0
    tries: int = 0
    tries_refused: int = 0
    busy: int = 0
    promises: int = 0
    promises_broken: int = 0
    lapsed: int = 0
    doubts: int = 0
    started_alone: int = 0
    peers_down: int = 0
    dropped: int = 0  #: messages that were late, repeated or forged
    refused: int = 0
    held_node_ns: int = 0
    sync_ns: int = 0
    started: int = 0


class State(msgspec.Struct):
    """Everything that a coupled domain remembers.

    epoch: grows whenever the queue may offer other jobs. ticked_ns: the time of the last
    tick. released_ns: when jobs last released nodes. wake_ns: the wake-up that was ordered.
    recovering: after a restart, until the engine has reported its jobs; found: the
    reported jobs, with their sizes.
    """

    name: DomainName
    incarnation: int = 1
    next_number: int = 1
    now_ns: int = 0
    capacity: int = 0
    epoch: int = 0
    ticked_ns: int = 0
    released_ns: int | None = None
    wake_ns: int | None = None
    recovering: bool = False
    found: dict[JobId, tuple[Found, int]] = {}
    members: dict[JobId, GroupJob] = {}
    groups: dict[GroupKey, JobId] = {}
    rounds: dict[GroupKey, Round] = {}
    decisions: dict[GroupKey, list[Decision]] = {}
    questions: dict[int, Open] = {}
    peers: dict[DomainName, Peer] = {}
    counts: Counts = msgspec.field(default_factory=Counts)
