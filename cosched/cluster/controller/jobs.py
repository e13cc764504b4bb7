"""Decides what happens to each job of a domain: submissions, users' wishes, lost nodes.

A job is stored before its user gets the number.
"""

from __future__ import annotations

from collections.abc import Callable

from cosched.cluster.config import DomainConfig
from cosched.cluster.controller.clock import DomainClock
from cosched.cluster.controller.driver import QueueDriver
from cosched.cluster.controller.members import Member, Members, NodeState
from cosched.cluster.controller.records import Records
from cosched.cluster.controller.running import Starts
from cosched.cluster.controller.starts import ActiveStart, Outbox
from cosched.cluster.controller.strays import Strays
from cosched.cluster.store import JobStore, Record, State
from cosched.core.cluster.queue.domain import (
    EndJob,
    JobCancelled,
    JobFailedToStart,
    JobRecovered,
    NodesDrained,
    NodesJoined,
    NodesLost,
    SettingsChanged,
    SharingChanged,
)
from cosched.core.cluster.queue.messages import Job, JobEnded, JobSubmitted, StartJob
from cosched.core.cluster.queue.rows import SharedQueue
from cosched.core.cluster.queue.scheduler import POLICIES
from cosched.core.errors import CoschedError

_NOT_AT_ONCE = "the controller restarted before the job could start"


class Jobs:
    """The live jobs of a domain: their records, the queue and the starts.

    log: takes one line about what happened.
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
        self.records = Records(store, self.clock, log)
        self.strays = Strays(send, self._strays_changed)
        self.starts = Starts(
            config,
            members,
            self.records,
            self.clock,
            self.strays,
            send,
            log,
            self._start_is_over,
        )
        self._config = config.queue
        self._members = members
        policy = POLICIES[config.queue.policy]
        self.queue = SharedQueue(
            members.all, policy, config.queue.grace_ns, config.queue.jobs_per_node
        )
        self.queue.handle(NodesDrained(self.clock.now_ns(), members.all))
        self._driver = QueueDriver(self.queue, self.clock, self._carry_out)

    @property
    def frozen(self) -> bool:
        """Whether no job starts, because the controller recovers."""
        return self._driver.frozen

    def thaw(self) -> None:
        """Lets jobs start: the recovery is over."""
        self._driver.thaw()

    def configure(self, config: DomainConfig) -> None:
        """Takes changed settings. No job that runs gets a shorter limit."""
        shared = config.queue.jobs_per_node != self._config.jobs_per_node
        self._config = config.queue
        self.starts.configure(config)
        policy = POLICIES[config.queue.policy]
        now_ns = self.clock.now_ns()
        self._driver.handle(SettingsChanged(now_ns, policy, config.queue.grace_ns))
        if shared:
            live = self.records.live
            walltimes = {number: self._walltime_ns(live[number]) for number in live}
            self._driver.handle(
                SharingChanged(now_ns, config.queue.jobs_per_node, walltimes)
            )

    # --- users' wishes --------------------------------------------------------------------

    def submit(self, record: Record) -> Record:
        """Stores a job and lets it wait; returns it with its number. Raises CoschedError if
        the domain can never run it, or cannot at once if it must start at once."""
        counts = self._members.counts(record.submission)
        stored, new = self.records.add(record)
        if new and stored.state is State.QUEUED:
            self._enqueue(stored, len(counts))
            if stored.submission.at_once:
                self._start_or_refuse(stored, len(counts))
        if stored.submission.at_once and stored.state.over and not stored.start:
            raise CoschedError(stored.reason)
        return stored

    def _start_or_refuse(self, record: Record, size: int) -> None:
        """Ends a job that does not start now."""
        self._driver.decide()
        if record.state is State.QUEUED:
            free = self.queue.free_for(exclusive=record.submission.exclusive)
            reason = f"cannot start at once: {free} nodes free, needs {size}"
            others = len(self.queue.waiting) - 1
            if others:
                reason += f", {others} jobs wait"
            if self.frozen:
                reason = "cannot start at once: the controller asks the nodes; try again"
            self._withdraw(record, reason)

    def cancel(self, number: int) -> None:
        """Ends a job, or takes it from the queue."""
        record = self.records.get(number)
        if record.state is State.HELD:
            self.records.finish(record, State.CANCELLED, None, "cancelled")
        elif record.state is State.QUEUED:
            self._withdraw(record, "cancelled")
        else:
            self._driver.handle(JobCancelled(self.clock.now_ns(), number))

    def _withdraw(self, record: Record, reason: str) -> None:
        """Ends a job that waits in the queue."""
        self.records.finish(record, State.CANCELLED, None, reason)
        self._driver.handle(JobCancelled(self.clock.now_ns(), record.number))

    def hold(self, number: int) -> None:
        """Keeps a waiting job from starting. Raises CoschedError if it has started."""
        record = self.records.get(number)
        if record.state is State.HELD:
            return
        if record.state is not State.QUEUED:
            raise CoschedError(f"job {number}: has started; only a waiting job can be held")
        self.records.save(record, state=State.HELD)
        self._driver.handle(JobCancelled(self.clock.now_ns(), number))

    def unhold(self, number: int) -> None:
        """Lets a held job wait in the queue again."""
        record = self.records.get(number)
        if record.state is State.HELD:
            self.records.save(record, state=State.QUEUED)
            self._enqueue(record, len(self._members.counts(record.submission)))

    # --- nodes ----------------------------------------------------------------------------

    def node_joined(self, member: Member) -> None:
        """Puts a node into service, once tasks that should not be there are gone."""
        if not self.strays.on(member.name):
            self._driver.handle(NodesJoined(self.clock.now_ns(), member.interval))

    def node_drained(self, member: Member) -> None:
        """Keeps new jobs away from a node."""
        self._driver.handle(NodesDrained(self.clock.now_ns(), member.interval))

    def node_lost(self, member: Member) -> None:
        """Ends the jobs of a node that does not answer."""
        self._driver.handle(NodesLost(self.clock.now_ns(), member.interval))
        self.starts.node_lost(member.name)
        self.strays.forget(member.name)

    def _strays_changed(self, node: str) -> None:
        member = self._members.by_name[node]
        if self.strays.on(node):
            self.node_drained(member)
        elif member.state is NodeState.UP:
            self.node_joined(member)

    # --- after a restart of the controller ------------------------------------------------

    def restore(self, record: Record) -> None:
        """Takes a stored job that waits."""
        self.records.restore(record)
        if record.submission.at_once:
            self.records.finish(record, State.CANCELLED, None, _NOT_AT_ONCE)
        elif record.state is State.QUEUED:
            self._enqueue(record, self._size(record))

    def recover(self, record: Record, hosts: list[str]) -> None:
        """Takes a job that runs."""
        self.records.restore(record)
        self.starts.recover(record, hosts)
        now_ns = self.clock.now_ns()
        since_ns = record.started_ns or now_ns
        job = self._job(record, len(hosts))
        self.queue.handle(JobRecovered(now_ns, job, record.nodes, since_ns))

    def give_up(self, record: Record, state: State, reason: str) -> None:
        """Records a job that cannot be recovered, or lets it wait again if no task of it
        can have begun, or if its user allows it."""
        self.records.restore(record)
        starting = record.state is State.STARTING and not record.submission.at_once
        if starting or record.submission.requeue:
            self.records.save(record, state=State.QUEUED)
            self._enqueue(record, self._size(record))
        else:
            self.records.finish(record, state, None, reason)

    # --- the queue ------------------------------------------------------------------------

    def _carry_out(self, command: StartJob | EndJob) -> None:
        if isinstance(command, StartJob):
            self.starts.begin(self.records.live[command.job.number], command.nodes)
        else:
            self.starts.end(command.number, command.why)

    def _start_is_over(self, start: ActiveStart, again: bool) -> None:
        number = start.record.number
        now_ns = self.clock.now_ns()
        if not again:
            self._driver.handle(JobEnded(now_ns, number))
            return
        self._driver.handle(JobFailedToStart(now_ns, number, requeue=True))
        if number not in self.queue:
            self._enqueue(start.record, len(start.hosts))

    def _enqueue(self, record: Record, size: int) -> None:
        self._driver.handle(JobSubmitted(self.clock.now_ns(), self._job(record, size)))

    def _size(self, record: Record) -> int:
        """Returns the number of nodes of a job that was accepted before."""
        slots = self._members.slots or record.submission.ppn or 1
        try:
            return len(record.submission.counts(slots, len(self._members.by_number)))
        except CoschedError:
            return len(self._members.by_number)

    def _job(self, record: Record, size: int) -> Job:
        return Job(
            record.number,
            size,
            self._walltime_ns(record),
            record.submitted_ns,
            exclusive=record.submission.exclusive,
        )

    def _walltime_ns(self, record: Record) -> int:
        asked_ns = record.submission.time_ns or self._config.default_time_ns
        # While a job waits for its turn on shared nodes, its time passes.
        alone = record.submission.exclusive
        return asked_ns * (1 if alone else self._config.jobs_per_node)
