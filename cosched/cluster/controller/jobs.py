"""Carries out what the queue decides: starts jobs, ends them and records each step.

A step is in the store before it has an effect. So a job is stored before its user gets the
number, and a start before its first message. The order to go is stored before it is sent,
and an end before the nodes may forget it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

from cosched.cluster.config import DomainConfig
from cosched.cluster.controller.clock import DomainClock
from cosched.cluster.controller.members import Member, Members
from cosched.cluster.controller.starts import ActiveStart, chunks, job_object
from cosched.cluster.messages import (
    Began,
    End,
    EndNoted,
    Failure,
    Message,
    NodeEnded,
    OfJob,
    Order,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
    TaskFailed,
)
from cosched.cluster.store import JobStore, Record, State
from cosched.core.cluster.queue.domain import (
    Command,
    EndJob,
    Event,
    JobCancelled,
    JobFailedToStart,
    JobRecovered,
    NodesDrained,
    NodesJoined,
    NodesLost,
    Why,
)
from cosched.core.cluster.queue.messages import (
    Job,
    JobEnded,
    JobSubmitted,
    StartJob,
    Ticked,
    WakeAt,
)
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.rows import SharedQueue
from cosched.core.cluster.queue.scheduler import POLICIES
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: A job whose start failed through its nodes is tried so often.
ATTEMPTS = 3
_STATE_OF = {
    Why.CANCELLED: State.CANCELLED,
    Why.WALLTIME: State.TIMEOUT,
    Why.NODE_LOST: State.NODE_LOST,
}
_REASON_OF = {
    Why.CANCELLED: "cancelled",
    Why.WALLTIME: "its time is over",
    Why.NODE_LOST: "a node was lost",
}


class Outbox(Protocol):
    """Sends a message to a member of the domain."""

    def __call__(self, to: str, message: Message) -> None: ...


class Jobs:
    """The live jobs of a domain.

    log: takes one line about what happened. frozen: while True no job starts, because the
    controller recovers.
    """

    def __init__(
        self,
        config: DomainConfig,
        store: JobStore,
        members: Members,
        send: Outbox,
        log: Callable[[str], None],
    ) -> None:
        self.clock = DomainClock()
        self.frozen = True
        self.records: dict[int, Record] = {}
        self.active: dict[int, ActiveStart] = {}
        self._config = config
        self._store = store
        self._members = members
        self._send = send
        self._log = log
        queue = config.queue
        self.queue = SharedQueue(
            members.all, POLICIES[queue.policy], queue.grace_ns, queue.jobs_per_node
        )
        self.queue.handle(NodesDrained(self.clock.now_ns(), members.all))
        self._timer: asyncio.TimerHandle | None = None
        self._pass: asyncio.Handle | None = None
        self._ended: dict[int, list[asyncio.Future[Record]]] = {}

    # --- users' wishes --------------------------------------------------------------------

    def submit(self, record: Record) -> Record:
        """Stores a job and lets it wait; returns it with its number. Raises CoschedError if
        the domain can never run it."""
        counts = self.counts(record)
        number = self._store.add(record.submission.token, record)
        if number in self.records:  # sent twice
            return self.records[number]
        known = self._store.find(number)
        assert known is not None
        if not known.state.over:
            self.records[number] = known
            if known.state is State.QUEUED:
                self._enqueue(known, len(counts))
        return known

    def cancel(self, number: int) -> None:
        """Ends a job, or takes it from the queue."""
        record = self.live(number)
        if record.state is State.HELD:
            self._finish(record, State.CANCELLED, None, "cancelled")
            return
        waits = record.state is State.QUEUED
        self._handle(JobCancelled(self.clock.now_ns(), number))
        if waits:
            self._finish(record, State.CANCELLED, None, "cancelled")

    def hold(self, number: int) -> None:
        """Keeps a waiting job from starting. Raises CoschedError if it has started."""
        record = self.live(number)
        if record.state is State.HELD:
            return
        if record.state is not State.QUEUED:
            raise CoschedError(f"job {number}: has started; only a waiting job can be held")
        self._save(record, State.HELD)
        self._handle(JobCancelled(self.clock.now_ns(), number))

    def unhold(self, number: int) -> None:
        """Lets a held job wait in the queue again."""
        record = self.live(number)
        if record.state is State.HELD:
            self._save(record, State.QUEUED)
            self._enqueue(record, len(self.counts(record)))

    def live(self, number: int) -> Record:
        """Returns a job that has not ended. Raises CoschedError for another."""
        if number in self.records:
            return self.records[number]
        ended = self._store.find(number)
        if ended is None:
            raise CoschedError(f"job {number}: there is no such job")
        raise CoschedError(f"job {number}: has ended ({ended.state.value})")

    def counts(self, record: Record) -> tuple[int, ...]:
        """Returns the tasks of a job on each of its nodes."""
        slots = self._members.slots
        if not slots:
            raise CoschedError("no node has joined the domain yet; try again")
        return record.submission.counts(slots, len(self._members.by_number))

    async def wait(self, number: int) -> Record:
        """Returns a job once it has ended."""
        if number not in self.records:
            ended = self._store.find(number)
            if ended is None:
                raise CoschedError(f"job {number}: there is no such job")
            return ended
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._ended.setdefault(number, []).append(future)
        return await future

    # --- nodes ----------------------------------------------------------------------------

    def node_joined(self, member: Member) -> None:
        """Puts a node into service."""
        self._handle(NodesJoined(self.clock.now_ns(), member.interval))

    def node_drained(self, member: Member) -> None:
        """Keeps new jobs away from a node."""
        self._handle(NodesDrained(self.clock.now_ns(), member.interval))

    def node_lost(self, member: Member) -> None:
        """Ends the jobs of a node that does not answer."""
        self._handle(NodesLost(self.clock.now_ns(), member.interval))
        for start in list(self.active.values()):
            if member.name in start.hosts:
                # The queue has not ordered this for a job that ends already.
                self.break_tree(start, State.NODE_LOST, f"node {member.name} was lost")
                self._node_is_done(start, member.name)

    # --- messages of agents ---------------------------------------------------------------

    def take(self, sender: str, message: OfJob) -> None:
        """Handles a message about a start."""
        start = self.active.get(message.job)
        if start is None or start.record.start != message.start:
            self._take_about_unknown(sender, message)
            return
        if isinstance(message, NodeEnded):
            self._node_is_done(start, sender)
            return
        if sender != start.root:
            self._log(f"job {message.job}: {sender} is not its root")
            return
        match message:
            case SubtreePrepared():
                self._prepared(start)
            case Began():
                start.record.started_ns = message.since_ns
                self._store.save(start.record)
            case StartFailed():
                start.failure = start.failure or Failure(125, message.reason)
                start.lost = start.lost or message.again
            case TaskFailed():
                start.failure = start.failure or message.failure
            case SubtreeEnded():
                start.failure = start.failure or message.failure
                self._over(start)
            case _:
                self._log(f"{sender}: {type(message).__name__} is not for the controller")

    def _take_about_unknown(self, sender: str, message: OfJob) -> None:
        """Answers for a start that is not active: its end is stored, or it must end."""
        if isinstance(message, SubtreeEnded):
            self._send(sender, EndNoted(message.job, message.start))
        elif not isinstance(message, NodeEnded):
            self.end_stray(sender, message.job, message.start)

    def end_stray(self, node: str, job: int, start: int) -> None:
        """Ends a start on a node that should not have it."""
        self._send(node, End(job, start, "the controller does not have this start", True))

    # --- the queue ------------------------------------------------------------------------

    def restore(self, record: Record) -> None:
        """Takes a stored job that waits, after a restart."""
        self.records[record.number] = record
        if record.state is State.QUEUED:
            self._enqueue(record, self._size(record))

    def recover(self, record: Record, hosts: list[str]) -> None:
        """Takes a job that runs, after a restart."""
        self.records[record.number] = record
        self.active[record.number] = ActiveStart(record, hosts)
        now_ns = self.clock.now_ns()
        since_ns = record.started_ns or now_ns
        job = self._job(record, len(hosts))
        self.queue.handle(JobRecovered(now_ns, job, record.nodes, since_ns))

    def give_up(self, record: Record, state: State, reason: str) -> None:
        """Records a job that cannot be recovered, or lets it wait again if no task of it
        can have begun, or if its user allows it."""
        self.records[record.number] = record
        if record.state is State.STARTING or record.submission.requeue:
            self._save(record, State.QUEUED)
            self._enqueue(record, self._size(record))
        else:
            self._finish(record, state, None, reason)

    def thaw(self) -> None:
        """Lets jobs start: the recovery is over."""
        self.frozen = False
        self._soon()

    def _size(self, record: Record) -> int:
        """Returns the number of nodes of a job that was accepted before."""
        slots = self._members.slots or record.submission.ppn or 1
        try:
            return len(record.submission.counts(slots, len(self._members.by_number)))
        except CoschedError:
            return len(self._members.by_number)

    def _job(self, record: Record, size: int) -> Job:
        asked_ns = record.submission.time_ns or self._config.queue.default_time_ns
        # While a job waits for its turn on shared nodes, its time passes.
        walltime_ns = asked_ns * self._config.queue.jobs_per_node
        return Job(record.number, size, walltime_ns, record.submitted_ns)

    def _enqueue(self, record: Record, size: int) -> None:
        self._handle(JobSubmitted(self.clock.now_ns(), self._job(record, size)))

    def _handle(self, event: Event) -> None:
        self._carry_out(self.queue.handle(event))
        self._soon()

    def _soon(self) -> None:
        """Makes a pass once the events of this moment are in."""
        if self._pass is None and not self.frozen:
            self._pass = asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self._pass = None
        self._carry_out(self.queue.handle(Ticked(self.clock.now_ns())))

    def _carry_out(self, commands: Collection[Command]) -> None:
        for command in commands:
            match command:
                case StartJob():
                    self._start(self.records[command.job.number], command.nodes)
                case EndJob():
                    self._end(self.active[command.number], command.why)
                case WakeAt():
                    self._wake(command.at_ns)

    def _wake(self, at_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            delay_s = max(0.0, (at_ns - self.clock.now_ns()) / NS_PER_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    # --- starts and ends ------------------------------------------------------------------

    def _start(self, record: Record, nodes: Intervals) -> None:
        record.start += 1
        record.nodes = nodes
        self._save(record, State.STARTING)
        hosts = self._members.names(nodes)
        start = self.active[record.number] = ActiveStart(record, hosts)
        grace_s = self._config.queue.grace_ns / NS_PER_S
        try:
            found = job_object(record, self.counts(record), grace_s)
            messages = chunks(record, found, self._config)
        except CoschedError as error:
            start.failure = Failure(125, str(error))
            start.ending = State.FAILED
            asyncio.get_running_loop().call_soon(self._over, start)
            return
        for message in messages:
            self._send(start.root, message)
        start.timer = asyncio.get_running_loop().call_later(
            self._config.life.prepare_ns / NS_PER_S, self._late, start
        )

    def _prepared(self, start: ActiveStart) -> None:
        number, which = start.record.number, start.record.start
        if start.timer is not None:
            start.timer.cancel()
        if start.ending is not None or start.failure is not None:
            return  # its end is on the way
        if not start.went:
            start.record.started_ns = self.clock.now_ns()
            self._save(start.record, State.RUNNING)
        self._send(start.root, Order(number, which, go=True))

    def _late(self, start: ActiveStart) -> None:
        """Gives up a start whose nodes do not report."""
        reason = f"the start took more than {self._config.life.prepare_ns // NS_PER_S} s"
        start.lost = True
        self.break_tree(start, State.FAILED, reason)

    def _end(self, start: ActiveStart, why: Why) -> None:
        """Ends a job's tasks; its end will be reported."""
        if why is Why.NODE_LOST:
            return  # ``node_lost`` breaks its tree
        start.ending = start.ending or _STATE_OF[why]
        end = End(start.record.number, start.record.start, _REASON_OF[why], direct=False)
        self._send(start.root, end)

    def break_tree(self, start: ActiveStart, state: State, reason: str) -> None:
        """Ends a job without its tree: each node reports for itself."""
        start.lost = start.lost or state is State.NODE_LOST
        start.ending = start.ending or state
        start.failure = start.failure or Failure(128 + 9, reason)
        if start.waits_for is None:
            start.waits_for = set(start.hosts)
            number, which = start.record.number, start.record.start
            for host in start.hosts:
                self._send(host, End(number, which, reason, direct=True))

    def _node_is_done(self, start: ActiveStart, host: str) -> None:
        if start.waits_for is not None:
            start.waits_for.discard(host)
            if not start.waits_for:
                self._over(start)

    def _over(self, start: ActiveStart) -> None:
        """Records the end of a start, and frees its nodes."""
        record = start.record
        if self.active.get(record.number) is not start:
            return
        del self.active[record.number]
        if start.timer is not None:
            start.timer.cancel()
        again = self._starts_again(start)
        which = record.start
        if again:
            record.started_ns = None
            self._save(record, State.QUEUED)
        else:
            self._record_end(start)
        self._send(start.root, EndNoted(record.number, which))
        now_ns = self.clock.now_ns()
        if again:
            self._handle(JobFailedToStart(now_ns, record.number, requeue=True))
            if self.queue_lacks(record.number):
                self._enqueue(record, len(start.hosts))
        else:
            self._handle(JobEnded(now_ns, record.number))

    def queue_lacks(self, number: int) -> bool:
        """Returns whether a job neither waits nor runs in the queue."""
        return all(
            row.scheduler.job(number) is None and number not in dict(row.ends())
            for row in self.queue.rows
        )

    def _starts_again(self, start: ActiveStart) -> bool:
        if start.ending in (State.CANCELLED, State.TIMEOUT) or not start.lost:
            return False
        if start.went:
            return start.record.submission.requeue
        return start.record.start < ATTEMPTS

    def _record_end(self, start: ActiveStart) -> None:
        failure = start.failure
        state = start.ending or (State.DONE if failure is None else State.FAILED)
        if failure is None and state is not State.DONE:
            failure = Failure(128 + 15, state.value)
        status = 0 if failure is None else failure.status
        self._finish(start.record, state, status, "" if failure is None else failure.reason)

    def _finish(
        self, record: Record, state: State, status: int | None, reason: str
    ) -> None:
        record.status = 128 + 15 if status is None else status
        record.reason = reason
        record.ended_ns = self.clock.now_ns()
        self._save(record, state)
        del self.records[record.number]
        self._log(f"job {record.number}: {state.value}{': ' + reason if reason else ''}")
        for future in self._ended.pop(record.number, ()):
            if not future.done():
                future.set_result(record)

    def _save(self, record: Record, state: State) -> None:
        record.state = state
        self._store.save(record)
