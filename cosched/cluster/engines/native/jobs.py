"""Decides what happens to each job of a domain: submissions, users' wishes, lost nodes.

A job is stored before its user gets the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.coupling.driver import Driver
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.engines.native.basics import Basics, Outbox
from cosched.cluster.engines.native.batch_jobs import BatchJobs
from cosched.cluster.engines.native.changes import OF_CHANGES, Changes
from cosched.cluster.engines.native.domain_place import place_of
from cosched.cluster.engines.native.job_mates import JobMates
from cosched.cluster.engines.native.job_needs import offer_of
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeEntry, NodeState
from cosched.cluster.engines.native.prerequisites import Prerequisites
from cosched.cluster.engines.native.queueing import Queueing
from cosched.cluster.engines.native.records import Records
from cosched.cluster.engines.native.shared_jobs import SharedJobs
from cosched.cluster.engines.native.starts.running import Starts
from cosched.cluster.engines.native.starts.start import ActiveStart
from cosched.cluster.engines.native.starts.strays import Strays
from cosched.cluster.engines.native.suspensions import OF_SUSPENSIONS, Suspensions
from cosched.cluster.message_kinds import OfJob
from cosched.cluster.record import Record, State
from cosched.cluster.sharing_messages import JobShared
from cosched.cluster.store import JobStore
from cosched.config.domain import DomainConfig
from cosched.core.cluster.coupling.coupled_queue import Command, CoupledQueue, PrepareOn
from cosched.core.cluster.coupling.engine_messages import (
    GoJob,
)
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import from_numbers
from cosched.core.cluster.queue.places.cpus import Cpus
from cosched.core.cluster.queue.queue_commands import (
    ContinueJob,
    DropJobs,
    EndJob,
    LetIn,
    ResizeJob,
    StartJob,
    SuspendJob,
    WithdrawResize,
)
from cosched.core.cluster.queue.queue_events import (
    HalvesLimited,
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    NodeOffered,
    NodesAdded,
    NodesDrained,
    NodesJoined,
    NodesLost,
    NodesRemoved,
    OutcomeKnown,
    SettingsChanged,
    SharingChanged,
)
from cosched.core.errors import CoschedError

#: The stored reason of a job whose user has cancelled it, also before it has ended.
CANCELLED = "cancelled"


class Jobs:
    """The live jobs of a domain: their records, the queue and the starts.

    log: takes one line about what happened. pairs: those with mates in other domains; None
    if the domain is coupled with no other. recovered: whether all jobs of before a restart
    are known. ends: whether the domain ends, so it takes no more jobs.
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
        self.settings = config.queue
        self._resources = config.resources
        self.members = members
        self.pairs = pairs
        self.recovered = False
        self.ends = False
        self.clock = DomainClock() if pairs is None else pairs.clock
        self.records = Records(store, self.clock, log, self._note_end)
        basics = Basics(members, self.records, self.clock, send, log, self._report)
        place = place_of(config, members.all)
        place.expect(config.most_nodes)
        self.queue = queue = QueueMachine(
            place, config.queue.decides, config.queue.grace_ns
        )
        queue.handle(NodesDrained(self.clock.now_ns(), members.all))
        for member in members.by_number:
            self._offer(member, queue)
        coupled = None if pairs is None else CoupledQueue(queue, pairs.coupling)
        self.driver = Driver(coupled or queue, self.clock, self._carry_out, pairs)
        self.strays = Strays(send, self._strays_changed)
        self.starts = Starts(
            basics,
            config,
            self.strays,
            self._is_prepared,
            self._begins,
            self._start_is_over,
        )
        self.mates = JobMates(basics, pairs, self.driver)
        self.changes = Changes(basics, config, self.starts)
        self.suspensions = Suspensions(basics, self.starts)
        self.shared = SharedJobs(basics, config.symbiosis, store.learned, queue)
        self.prerequisites = Prerequisites(store, queue.batches)
        self.entries = Queueing(
            basics,
            config,
            queue,
            self.driver,
            self.shared.limits_of,
            self.prerequisites,
        )
        self.batch_jobs = BatchJobs(basics, self.entries, self.mates, self.driver)

    @property
    def nodes_most(self) -> int:
        """How many nodes a job may have."""
        return self.members.most

    def not_known_yet(self, what: str) -> CoschedError:
        """Returns the error of a request that needs jobs of before the restart."""
        return CoschedError(
            f"{what}: the controller has restarted and asks its nodes; try again"
        )

    def configure(self, config: DomainConfig) -> None:
        """Applies changed settings. No job that runs gets a shorter limit."""
        shared = config.queue.jobs_per_node != self.settings.jobs_per_node
        self.settings = config.queue
        self.entries.configure(config.queue)
        self.starts.configure(config)
        self.changes.configure(config)
        self.shared.configure(config.symbiosis)
        now_ns = self.clock.now_ns()
        self.driver.handle(
            SettingsChanged(now_ns, config.queue.decides, config.queue.grace_ns)
        )
        if config.symbiosis.divides:
            largest = config.symbiosis.largest_part
            self.driver.handle(HalvesLimited(now_ns, largest))
        if shared:
            walltimes_ns = self.entries.walltimes_ns()
            self.driver.handle(
                SharingChanged(now_ns, config.queue.jobs_per_node, walltimes_ns)
            )

    def _is_prepared(self, start: ActiveStart) -> None:
        self.mates.prepared(start)

    def cancel_start(self, start: ActiveStart) -> None:
        """Ends a job that has nodes because its user cancelled it."""
        start.cancelled = True
        self.driver.handle(JobCancelled(self.clock.now_ns(), start.record.number))

    # --- nodes ----------------------------------------------------------------------------

    def nodes_added(self, members: Sequence[NodeEntry]) -> None:
        """Takes new nodes into the domain; they join later."""
        nodes = from_numbers(member.number for member in members)
        self.driver.handle(NodesAdded(self.clock.now_ns(), nodes))
        for member in members:
            self._offer(member, self.driver)
        self.entries.resize()

    def _offer(self, member: NodeEntry, queue: Driver | QueueMachine) -> None:
        """Reports to the queue what a node has besides CPUs."""
        if isinstance(self.queue.place, Cpus):
            offer = offer_of(self._resources, member)
            queue.handle(NodeOffered(self.clock.now_ns(), offer))

    def nodes_removed(self, members: Sequence[NodeEntry]) -> None:
        """Lets the queue do without nodes that have left the domain."""
        nodes = from_numbers(member.number for member in members)
        self.driver.handle(NodesRemoved(self.clock.now_ns(), nodes))
        self.entries.resize()

    def end_on(self, member: NodeEntry) -> None:
        """Ends the jobs of a node that is removed."""
        self.changes.node_lost(member.name)
        self.driver.handle(NodesLost(self.clock.now_ns(), member.interval))
        self.starts.break_on(member.name, f"node {member.name} was removed")

    def node_joined(self, member: NodeEntry) -> None:
        """Puts a node into service, once tasks that should not be there are gone."""
        self._offer(member, self.driver)
        self.entries.node_joined()
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
        member = self.members.by_name[node]
        if self.strays.on(node):
            self.node_drained(member)
        elif member.state is NodeState.UP:
            self.node_joined(member)

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
            judged = self.shared.take(sender, message)
            if judged is not None:
                self.driver.when_idle(lambda: self.entries.relabel(judged))
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
            self.entries.add_again(start.record)
        if start.misfit or start.record.submission.malleable:
            self.entries.resize()
