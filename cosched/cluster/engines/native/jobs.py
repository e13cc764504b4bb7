"""Decides what happens to each job of a domain: submissions, users' wishes, lost nodes.

A job is stored before its user gets the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.coupling.driver import Driver
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.engines.native.batch_jobs import BatchJobs
from cosched.cluster.engines.native.changes import OF_CHANGES, Changes
from cosched.cluster.engines.native.domain_place import place_of
from cosched.cluster.engines.native.halves_answers import room_text
from cosched.cluster.engines.native.job_mates import JobMates
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeEntry, NodeState
from cosched.cluster.engines.native.prerequisites import Prerequisites
from cosched.cluster.engines.native.queueing import Queueing
from cosched.cluster.engines.native.records import Records
from cosched.cluster.engines.native.shared_jobs import SharedJobs
from cosched.cluster.engines.native.starts.running import Starts
from cosched.cluster.engines.native.starts.start import ActiveStart, Outbox
from cosched.cluster.engines.native.starts.strays import Strays
from cosched.cluster.engines.native.suspensions import OF_SUSPENSIONS, Suspensions
from cosched.cluster.message_kinds import OfJob
from cosched.cluster.record import Record, State
from cosched.cluster.sharing_messages import JobShared
from cosched.cluster.store import JobStore
from cosched.config.domain import RIGID, DomainConfig
from cosched.core.cluster.coupling.engine_messages import (
    GoJob,
    JobRefused,
)
from cosched.core.cluster.coupling.queue import Command, CoupledQueue, PrepareOn
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import from_numbers
from cosched.core.cluster.queue.queue_events import (
    ContinueJob,
    DropJobs,
    EndJob,
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    LetIn,
    NodesAdded,
    NodesDrained,
    NodesJoined,
    NodesLost,
    NodesRemoved,
    OutcomeKnown,
    ResizeJob,
    SettingsChanged,
    SharingChanged,
    StartJob,
    SuspendJob,
    WithdrawResize,
)
from cosched.core.counting import counted
from cosched.core.errors import CoschedError

#: The stored reason of a job whose user has cancelled it, also before it has ended.
_CANCELLED = "cancelled"
_NOT_AT_ONCE = "the controller restarted before the job could start"


class Jobs:
    """The live jobs of a domain: their records, the queue and the starts.

    log: takes one line about what happened. pairs: those with mates in other domains; None
    if the domain is coupled with no other. recovered: whether all jobs of before a restart
    are known.
    """

    def __init__(
        self,
        config: DomainConfig,
        store: JobStore,
        members: NodeEntries,
        send: Outbox,
        log: Callable[[str], None],
        pairs: Pairs | None = None,
    ) -> None:
        self.clock = DomainClock() if pairs is None else pairs.clock
        self.pairs = pairs
        self.recovered = False
        self.records = Records(store, self.clock, log, self._note_end)
        self.strays = Strays(send, self._strays_changed)
        self.starts = Starts(
            config,
            members,
            self.records,
            self.clock,
            self.strays,
            send,
            log,
            self._is_prepared,
            self._begins,
            self._start_is_over,
        )
        self._config = config.queue
        self._members = members
        place = place_of(config, members.all)
        place.expect(config.most_nodes)
        self.queue = QueueMachine(place, config.queue.decides, config.queue.grace_ns)
        self.queue.handle(NodesDrained(self.clock.now_ns(), members.all))
        coupled = None if pairs is None else CoupledQueue(self.queue, pairs.coupling)
        self.driver = Driver(coupled or self.queue, self.clock, self._carry_out, pairs)
        self.prerequisites = Prerequisites(store, self.queue.batches)
        self._mates = JobMates(pairs, members, self.records, self.clock, self.driver)
        self.changes = Changes(
            config,
            members,
            self.records,
            self.starts,
            self.clock,
            send,
            log,
            self._report,
        )
        self.suspensions = Suspensions(
            self.records, self.starts, self.clock, send, log, self._report
        )
        self.shared = SharedJobs(
            config.symbiosis,
            store.learned,
            self.records,
            self.queue,
            self.clock,
            self._report,
        )
        self._entries = Queueing(
            config.queue,
            members,
            self.records,
            self.queue,
            self.driver,
            self.clock,
            self.shared.limits_of,
            self.prerequisites,
        )
        self.batch_jobs = BatchJobs(
            self.records, members, self._entries, self._mates, self.driver, self.clock
        )

    def end_recovery(self) -> None:
        """Allows starts: all jobs of before the restart are known."""
        self._entries.add_unsized()
        ended = None if self.pairs is None else self.pairs.recovery_ended()
        if ended is not None:
            self.driver.handle(ended)
        self.recovered = True
        self.driver.thaw()

    @property
    def nodes_most(self) -> int:
        """How many nodes a job may have."""
        return self._members.most

    def not_known_yet(self, what: str) -> CoschedError:
        """Returns the error of a request that needs jobs of before the restart."""
        return CoschedError(
            f"{what}: the controller has restarted and asks its nodes; try again"
        )

    def configure(self, config: DomainConfig) -> None:
        """Applies changed settings. No job that runs gets a shorter limit."""
        shared = config.queue.jobs_per_node != self._config.jobs_per_node
        self._config = config.queue
        self._entries.configure(config.queue)
        self.starts.configure(config)
        self.changes.configure(config)
        self.shared.configure(config.symbiosis)
        now_ns = self.clock.now_ns()
        self.driver.handle(
            SettingsChanged(now_ns, config.queue.decides, config.queue.grace_ns)
        )
        if shared:
            walltimes_ns = self._entries.walltimes_ns()
            self.driver.handle(
                SharingChanged(now_ns, config.queue.jobs_per_node, walltimes_ns)
            )

    # --- users' wishes --------------------------------------------------------------------

    def submit(self, record: Record) -> Record:
        """Stores a job, or all tasks of an array, and lets them wait; returns the first one
        with its number. Raises CoschedError if the domain can never run it, or cannot at
        once if it must start at once."""
        counts = self._members.counts(record.submission)
        self._members.half_counts(record.submission)  # whether its tasks fit
        if record.submission.malleable and self._config.size == RIGID:
            raise CoschedError(
                "this domain keeps the sizes of jobs: submit it with a number of nodes, or "
                'write size = "malleable" into [queue] of domain.toml'
            )
        self._mates.check(record, self._config.jobs_per_node)
        self.prerequisites.check(record)
        if record.submission.array:
            return self.batch_jobs.submit(record, len(counts))
        stored, new = self.records.add(record)
        if new:
            self._mates.announce(stored)
        self.shared.forget_old()
        if new and stored.state is State.QUEUED:
            self._wait(stored, len(counts))
            if stored.submission.at_once:
                self._start_or_refuse(stored, len(counts))
        if stored.submission.at_once and stored.state.over and not stored.start:
            raise CoschedError(stored.reason)
        return stored

    def _wait(self, record: Record, size: int) -> None:
        """Adds a job to the queue. Raises CoschedError for a job that the queue refuses; it
        has ended then."""
        try:
            self._entries.add(record, size)
        except CoschedError as error:
            self.records.finish(record, State.CANCELLED, None, str(error))
            raise

    def _start_or_refuse(self, record: Record, size: int) -> None:
        """Ends a job that does not start now."""
        self.driver.decide()
        if record.state is State.QUEUED:
            needs = record.submission.minimum or size
            room = room_text(self.queue, self._members, record, needs)
            reason = f"cannot start at once: {room}"
            others = len(self.queue.waiting) - 1
            if others:
                reason += f", {counted(others, 'job waits', 'jobs wait')}"
            if self.driver.frozen:
                reason = "cannot start at once: the controller asks the nodes; try again"
            self._withdraw([record], reason)

    def cancel(self, number: int) -> None:
        """Ends a job, or takes it from the queue. A second time it changes nothing: the
        request is sent again if its answer is lost with a controller."""
        record = self.records.known(number)
        if record.state is State.CANCELLED:
            return
        record = self.records.get(number)
        if number not in self.records.live:
            raise self.not_known_yet(f"job {number}")
        if record.state in (State.HELD, State.QUEUED):
            self._withdraw([record], _CANCELLED)
            return
        # Stored first: a controller that restarts must not let the job run again.
        self.records.save(record, reason=_CANCELLED)
        self._cancel_start(self.starts.active[number])

    def _cancel_start(self, start: ActiveStart) -> None:
        start.cancelled = True
        self.driver.handle(JobCancelled(self.clock.now_ns(), start.record.number))

    def _withdraw(self, records: Sequence[Record], reason: str) -> None:
        """Ends jobs that wait, in the queue or held."""
        if any(self._entries.is_unsized(record.number) for record in records):
            self._entries.add_unsized()
        known = [
            record.number
            for record in records
            if record.state is State.QUEUED or self._mates.has(record.number)
        ]
        self.records.finish_all(records, State.CANCELLED, reason)
        for number in known:
            self.driver.handle(JobCancelled(self.clock.now_ns(), number))

    def cancel_all(self, numbers: Sequence[int]) -> None:
        """Ends several jobs, as ``cancel``. Waiting jobs end together. Raises
        CoschedError if no job could be ended."""
        live = [self.records.live.get(number) for number in numbers]
        waiting = [
            record
            for record in live
            if record is not None and record.state in (State.HELD, State.QUEUED)
        ]
        self._withdraw(waiting, _CANCELLED)
        ended = {record.number for record in waiting}
        first: CoschedError | None = None
        for number in numbers:
            if number in ended:
                continue
            try:
                self.cancel(number)
            except CoschedError as error:
                first = first or error
            else:
                ended.add(number)
        if first is not None and not ended:
            raise first

    # --- mates ----------------------------------------------------------------------------

    async def expect_accord(self, record: Record) -> None:
        """Waits a moment for the domains of a new job's mates. Raises CoschedError if one
        refuses the group; the job is cancelled and its group forgotten then."""
        if self.pairs is None:
            return
        number = record.number
        reason = await self.pairs.objection(number)
        if reason is not None and record.state in (State.HELD, State.QUEUED):
            self._withdraw([record], reason)
            self.driver.handle(JobRefused(self.clock.now_ns(), number))
            raise CoschedError(f"job {number}: {reason}")

    def _is_prepared(self, start: ActiveStart) -> None:
        self._mates.prepared(start)

    # --- nodes ----------------------------------------------------------------------------

    def nodes_added(self, members: Sequence[NodeEntry]) -> None:
        """Takes new nodes into the domain; they join later."""
        nodes = from_numbers(member.number for member in members)
        self.driver.handle(NodesAdded(self.clock.now_ns(), nodes))
        self._entries.resize()

    def nodes_removed(self, members: Sequence[NodeEntry]) -> None:
        """Lets the queue do without nodes that have left the domain."""
        nodes = from_numbers(member.number for member in members)
        self.driver.handle(NodesRemoved(self.clock.now_ns(), nodes))
        self._entries.resize()

    def end_on(self, member: NodeEntry) -> None:
        """Ends the jobs of a node that is removed."""
        self.changes.node_lost(member.name)
        self.driver.handle(NodesLost(self.clock.now_ns(), member.interval))
        self.starts.break_on(member.name, f"node {member.name} was removed")

    def node_joined(self, member: NodeEntry) -> None:
        """Puts a node into service, once tasks that should not be there are gone."""
        self._entries.node_joined()
        if not self.strays.on(member.name):
            self.driver.handle(NodesJoined(self.clock.now_ns(), member.interval))

    def end_strays(self, member: NodeEntry) -> None:
        """Ends what a node reports and should not have."""
        starts = {(each.job, each.start) for each in member.starts if each.has_tasks}
        known = {each for each in starts if self.starts.has_on(member.name, *each)}
        self.strays.replace(member.name, starts - known)

    def node_drained(self, member: NodeEntry) -> None:
        """Keeps new jobs away from a node."""
        self.driver.handle(NodesDrained(self.clock.now_ns(), member.interval))

    def node_lost(self, member: NodeEntry) -> None:
        """Ends the jobs of a node that does not answer."""
        self.changes.node_lost(member.name)
        self.driver.handle(NodesLost(self.clock.now_ns(), member.interval))
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
        """Restores a stored job that waits."""
        self.records.restore(record)
        if record.submission.at_once:
            self.records.finish(record, State.CANCELLED, None, _NOT_AT_ONCE)
            return
        try:
            self._mates.announce(record)
        except CoschedError:
            return  # it has ended, and the reason is stored
        if record.state is State.QUEUED:
            if self._mates.has(record.number):
                self._entries.add_with_mates(record)
            else:
                self._entries.add_again(record)

    def recover(self, record: Record) -> ActiveStart:
        """Restores a job that runs; returns its start."""
        since_ns = record.started_ns or self.clock.now_ns()
        job = self._entries.recovered(record)
        mates = () if self.pairs is None else self.pairs.mates_of(record.number)
        start = self._recover(ActiveStart(record, mates=mates), job, since_ns)
        self.changes.recover(start)
        self.suspensions.recover(start)
        if record.reason == _CANCELLED:
            self._cancel_start(start)
        return start

    def recover_prepared(self, record: Record) -> None:
        """Restores a job that is prepared and waits for its mates."""
        job = replace(self._entries.recovered(record), waits_for_mates=True)
        start = ActiveStart(record, waits_for_mates=True, prepared=True)
        self._recover(start, job, self.clock.now_ns())

    def _recover(self, start: ActiveStart, job: Job, since_ns: int) -> ActiveStart:
        record = start.record
        self.records.restore(record)
        self.starts.recover(start)
        now_ns = self.clock.now_ns()
        nodes = self._members.numbers(record.nodes)
        halves = from_numbers(
            2 * self._members.by_name[name].number + part
            for name, part in zip(record.hosts, record.parts, strict=False)
        )
        terms = self.prerequisites.terms(record)
        event = JobRecovered(now_ns, job, nodes, since_ns, halves=halves, terms=terms)
        event = self.changes.completed(event, record)
        self.driver.handle(self.suspensions.completed(event, record))
        return start

    def waits_for_mates(self, record: Record) -> bool:
        """Returns whether a start of this job begins only together with its mates."""
        return record.state is State.STARTING and self._mates.has(record.number)

    def give_up(self, record: Record, state: State, reason: str) -> None:
        """Records a job that cannot be recovered, or lets it wait again if no task of it
        can have begun, or if its user allows it."""
        self.records.restore(record)
        self.changes.over(record)
        self.suspensions.over(record)
        if record.reason == _CANCELLED:
            self.records.finish(record, State.CANCELLED, None, _CANCELLED)
            return
        starting = record.state is State.STARTING and not record.submission.at_once
        if starting or record.submission.requeue:
            self.records.save(record, state=State.QUEUED)
            self._entries.add_again(record)
        else:
            self.records.finish(record, state, None, reason)

    # --- the queue ------------------------------------------------------------------------

    def _carry_out(self, command: Command) -> None:
        match command:
            case ResizeJob():
                self.changes.order(command, self.queue.why_resized(command.number))
            case WithdrawResize():
                self.changes.withdraw(command.number)
            case StartJob():
                record = self.records.live[command.job.number]
                self.starts.begin(record, command.nodes, command.halves, command.lender)
            case SuspendJob():
                self.suspensions.order(command)
            case ContinueJob():
                self.suspensions.order_on(command)
            case EndJob():
                self.starts.end(command.number, command.why)
            case LetIn():
                self.batch_jobs.let_in(command)
            case DropJobs():
                self.batch_jobs.drop(command)
            case PrepareOn():
                self.starts.prepare(self.records.live[command.job.number], command.nodes)
            case GoJob() if self.pairs is not None:
                self.starts.go(command.number, self.pairs.others(command.addresses))

    def _note_end(self, record: Record) -> None:
        """Reports an end to the jobs that wait for it."""
        if self.queue.batches.awaits(record.number):
            ok = record.state is State.DONE
            self._report(OutcomeKnown(self.clock.now_ns(), record.number, ok))

    def take(self, sender: str, message: OfJob) -> None:
        """Handles a message of a node about a job, as ``Starts.take``."""
        if isinstance(message, OF_CHANGES):
            self.changes.take(sender, message)
        elif isinstance(message, OF_SUSPENSIONS):
            self.suspensions.take(sender, message)
        elif isinstance(message, JobShared):
            self.shared.take(sender, message)
        else:
            self.starts.take(sender, message)

    def _report(self, event: Any) -> None:
        """Gives the queue an event, after the orders that are being carried out."""
        self.driver.when_idle(lambda: self.driver.handle(event))

    def _begins(self, start: ActiveStart) -> None:
        self.changes.begun(start)

    def _start_is_over(self, start: ActiveStart, again: bool) -> None:
        number = start.record.number
        self.changes.over(start.record)
        self.suspensions.over(start.record)
        now_ns = self.clock.now_ns()
        if start.waits_for_mates:
            self.driver.handle(JobFailedToStart(now_ns, number, requeue=again))
            return
        if not again:
            self.driver.handle(JobEnded(now_ns, number))
            return
        self.driver.handle(JobFailedToStart(now_ns, number, requeue=True))
        if number not in self.queue:
            self._entries.add_again(start.record)
        if start.misfit or start.record.submission.malleable:
            self._entries.resize()
