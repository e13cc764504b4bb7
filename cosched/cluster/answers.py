"""Defines what a domain answers about its jobs and nodes; ``--json`` prints the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from cosched.core.config.tables import Change

#: The states of a node whose agent has joined, and whose node stays in the domain.
JOINED = ("up", "draining", "drained")


class _Job(TypedDict):
    job: int
    name: str
    uid: int
    state: str
    nodes: int | None
    tasks: int | None
    hosts: list[str]
    submitted_ns: int
    started_ns: int | None
    ended_ns: int | None
    expected_ns: int | None
    time_ns: int | None
    run_ns: int | None
    ends_ns: int | None
    status: int | None
    reason: str
    starts: int
    command: list[str]
    cwd: str
    output: str
    error: str
    mates: str
    minimum: int | None
    ideal: int | None
    preferred: int | None
    resized: int | None
    node_s: float
    limited_by: list[str]
    shares: bool
    halves: list[str]
    neighbours: list[int]
    suspensions: int
    suspended_s: float
    suspended_for: int | None
    lender: int | None
    array: int | None
    task: int | None
    waits_for: str


class PhasesInfo(TypedDict):
    """Where the time of a change of a job's size went, in their order.

    prepare_s: from the queue's order until all nodes of the change had admitted the job.
    agree_s: until all ranks were bound to stop at one boundary. wait_s: the part of that in
    which the job's first rank waited there. The job stands still for wait_s, and from
    spawn_s to resume_s. spawn_s: new tasks were started. connect_s: communicators were
    made. start_s: until all ranks came to move their data. move_s: data moved. resume_s:
    old communicators were freed. empty_s: until the tasks that left were gone. moved_bytes:
    how much data went from one process to another.
    """

    prepare_s: float
    agree_s: float
    wait_s: float
    spawn_s: float
    connect_s: float
    start_s: float
    move_s: float
    resume_s: float
    empty_s: float
    moved_bytes: int


class ChangeInfo(TypedDict):
    """A change of a job's size. Times are by the wall clock; ended_ns None: it is open.

    before, after: numbers of nodes, also of a change that was refused. reason: why the
    queue ordered it. refused: why the job kept what it had; empty: it did not. stood_s: how
    long the job stood still for it. phases: where its time went; None: it is not done.
    slower: by which part an iteration takes longer since; below 0: it takes less; None:
    unknown.
    """

    ordered_ns: int
    ended_ns: int | None
    before: int
    after: int
    reason: str
    refused: str
    stood_s: float
    phases: PhasesInfo | None
    slower: float | None


class JobInfo(_Job, total=False):
    """A job. Times are by the wall clock; None: not yet, or unknown.

    state: ``held``, ``queued``, ``starting``, ``running``, or how it ended: ``done``,
    ``failed``, ``cancelled``, ``timeout``, ``node lost``. nodes, tasks: how many of each.
    hosts: the nodes of its latest start. time_ns: its limit; None: it has none. run_ns: how
    long earlier runs took. ends_ns: when it will probably end. status: as a shell reports
    it. starts: how often it was started. output, error: its files, in ``cwd`` unless they
    begin with ``/``; an empty ``error`` means the same file. reason: why it waits, or why
    it failed, in a few words. mates: one line about its
    mates in other domains; empty without mates, and after its end. minimum, ideal: the
    least and the most nodes of a malleable job; None for a rigid one. preferred: the nodes
    beyond which it grows only while no job waits; None: its ideal. resized: how often
    its size was changed; None for a rigid one. node_s: the time of its nodes in its latest
    start, added up; half a node counts half. limited_by: its user's label; empty: none.
    shares: whether it may share its nodes. halves: for each of ``hosts`` ``top`` or
    ``bottom``, the half that it has; empty: whole nodes. neighbours: the jobs on the other
    halves of its nodes, or that share its CPUs. array: the number of its array, that of the
    first task; None: it is in none. task: its index there. waits_for: the jobs whose end it
    needs to enter the queue, in words; empty: none. suspensions: how often it was suspended
    in its latest start. suspended_s: how long, in all. suspended_for: the job that has
    nodes of it now; None: it is not suspended. lender: the job that was suspended so that
    it got its nodes; None: there was none.
    """

    #: The tasks that it stands for, such as ``12_[4-100%10]``; only in a folded queue.
    folded: str

    #: The changes of its size, in their order; only in the answer about one job.
    changes: list[ChangeInfo]
    why: str  #: one line about its work or its wait; only in the answer about one job


class EndInfo(TypedDict):
    """The end of a job, in short; see ``JobInfo``."""

    job: int
    state: str
    status: int | None
    reason: str


class TaskInfo(TypedDict):
    """A job that a user names. task: its index in its array; None: it is in none."""

    job: int
    task: int | None
    state: str


class PairInfo(TypedDict):
    """The observed speed of a program beside another one. uid: its user. beside,
    beside_uid: the program on the other halves of its nodes, and its user. speed: the mean;
    1 is that on the same halves without a neighbour. seen: how many runs it is the mean of.
    harmful: whether the domain keeps the two apart.
    """

    program: str
    uid: int
    beside: str
    beside_uid: int
    speed: float
    seen: int
    harmful: bool


class NodeInfo(TypedDict):
    """A node. slots: the tasks that it takes. tasks_most: the most tasks of a job there, if
    tasks take turns on its CPUs. jobs: the numbers of its jobs."""

    node: str
    state: str
    reason: str
    slots: int
    tasks_most: int
    jobs: list[int]


class InputInfo(TypedDict):
    """The answer to input. taken: the bytes that the job got, in all. open: whether it
    takes more."""

    taken: int
    open: bool


class ReloadInfo(TypedDict):
    """The effect of a new domain.toml. changed: settings in use now. restart: settings that
    need a restart. text: both in one line, with the programs that must restart."""

    changed: list[str]
    restart: list[str]
    text: str


def reload_info(change: Change[Any]) -> ReloadInfo:
    """Returns the answer about a change."""
    return ReloadInfo(
        changed=list(change.changed), restart=list(change.restart), text=change.text
    )


class LeavingInfo(TypedDict):
    """The effect of a removal. jobs: the numbers of the jobs that run on the nodes; the
    nodes go after them."""

    jobs: list[int]


class DomainInfo(TypedDict):
    """Another domain with which this one is coupled. state: ``down`` if it does not answer,
    ``up`` if it does, or ``unknown`` before the first question to it. down_since_ns: since
    when it does not answer, by the wall clock; None: it is not down. waiting, running: how
    many jobs here wait for mates there, or were started with some.
    """

    domain: str
    state: str
    down_since_ns: int | None
    waiting: int
    running: int


class MateInfo(TypedDict):
    """A waiting job with mates. nodes: how many it wants; held: whether it has them.
    since_s: how long it has been in its state. yields: how often it yielded."""

    job: int
    group: str
    user: str
    state: str
    nodes: int
    held: bool
    since_s: float
    yields: int
    why: str
