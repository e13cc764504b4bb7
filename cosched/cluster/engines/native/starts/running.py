"""Carries out starts of jobs: sends them to their nodes, and ends them.

A step is stored before it has an effect: a start before its first message, the order to go
before it is sent, and an end before the nodes may forget it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cosched.cluster.engines.native.basics import Basics
from cosched.cluster.engines.native.starts.start import ActiveStart, chunks, job_object
from cosched.cluster.engines.native.starts.strays import Strays
from cosched.cluster.job_size import JobSize
from cosched.cluster.job_suspension import JobSuspension
from cosched.cluster.message_kinds import OfJob
from cosched.cluster.messages import (
    Began,
    Chunk,
    End,
    EndNoted,
    Failure,
    NodeEnded,
    Order,
    StartFailed,
    SubtreeEnded,
    SubtreePrepared,
    TaskFailed,
)
from cosched.cluster.record import Record, State
from cosched.cluster.size_messages import Admitted, Dismiss
from cosched.config.domain import DomainConfig
from cosched.config.queue import MALLEABLE
from cosched.core.bounds import JOB_MOST
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.cluster.queue.nodes import Intervals, count, numbers
from cosched.core.cluster.queue.queue_commands import Why
from cosched.core.errors import CoschedError, must_succeed
from cosched.core.units import NS_PER_S

#: Messages that the nodes of a start send by themselves.
_OF_NODES = (Began, NodeEnded, StartFailed, SubtreeEnded, SubtreePrepared, TaskFailed)
#: How often a job is tried if nodes that stay in service cannot make its start.
ATTEMPTS = 3
_STATE_OF = {
    Why.CANCELLED: State.CANCELLED,
    Why.WALLTIME: State.TIMEOUT,
    Why.NODE_LOST: State.NODE_LOST,
}
_REASON_OF = {
    Why.CANCELLED: "cancelled",
    Why.WITHDRAWN: "its mates cannot begin now",
    Why.WALLTIME: "its time is over",
    Why.NODE_LOST: "a node was lost",
}


class Starts:
    """The starts that nodes have. active: by the number of the job.

    on_prepared: gets a start that waits for its mates from now on. on_begun: gets a start
    whose tasks begin. on_over: called when the end of a start is stored; it gets whether
    the job waits again.
    """

    def __init__(
        self,
        basics: Basics,
        config: DomainConfig,
        strays: Strays,
        on_prepared: Callable[[ActiveStart], None],
        on_begun: Callable[[ActiveStart], None],
        on_over: Callable[[ActiveStart, bool], None],
    ) -> None:
        self.active: dict[int, ActiveStart] = {}
        self._members = basics.members
        self._records = basics.records
        self._clock = basics.clock
        self._send = basics.send
        self._log = basics.log
        self._config = config
        self._strays = strays
        self._on_prepared = on_prepared
        self._on_begun = on_begun
        self._on_over = on_over

    def configure(self, config: DomainConfig) -> None:
        """Applies changed settings to starts from now on."""
        self._config = config

    # --- orders of the controller ---------------------------------------------------------

    def begin(
        self,
        record: Record,
        nodes: Intervals,
        halves: Intervals = (),
        lender: int | None = None,
    ) -> None:
        """Starts a job on these nodes. halves: the halves of the job; (): whole nodes.
        lender: the suspended job whose nodes they are."""
        self._send_start(self._new(record, nodes, halves, lender), nodes)

    def prepare(self, record: Record, nodes: Intervals) -> None:
        """Prepares a job on these nodes; it begins only after ``go``."""
        start = self._new(record, nodes)
        start.waits_for_mates = True
        self._send_start(start, nodes)

    def go(self, number: int, mates: Addresses) -> None:
        """Sends a prepared job the order to begin, with these mates. One that ends already
        has no use for the order, and one that has begun does not need it again."""
        start = self.active.get(number)
        if start is not None and start.waits_for_mates and not start.is_given_up:
            start.waits_for_mates = False
            start.mates = mates
            self._let_go(start)

    def _new(
        self,
        record: Record,
        nodes: Intervals,
        halves: Intervals = (),
        lender: int | None = None,
    ) -> ActiveStart:
        hosts = self._members.names(nodes)
        size = None
        if record.submission.malleable and self._config.queue.size == MALLEABLE:
            size = JobSize((tuple(range(len(hosts))),))
        start = record.start + 1
        # One half of each node, or all of both.
        spread = count(halves) == len(hosts)
        parts = tuple(half % 2 for half in numbers(halves)) if spread else ()
        self._records.save(
            record,
            state=State.STARTING,
            start=start,
            hosts=hosts,
            size=size,
            parts=parts,
            suspension=None if lender is None else JobSuspension(lender=lender),
        )
        active = self.active[record.number] = ActiveStart(record)
        return active

    def _send_start(self, start: ActiveStart, nodes: Intervals) -> None:
        try:
            messages = self._object_of(start, nodes)
        except CoschedError as error:
            if not start.misfit:
                start.failure = Failure(125, str(error))
                start.ending = State.FAILED
            asyncio.get_running_loop().call_soon(self._over, start)
            return
        for message in messages:
            self._send(start.root, message)
        start.timer = asyncio.get_running_loop().call_later(
            self._config.life.prepare_ns / NS_PER_S, self._late, start
        )

    def _object_of(self, start: ActiveStart, nodes: Intervals) -> list[Chunk]:
        """Returns the messages for the root. Raises CoschedError if the job cannot run on
        these nodes."""
        record, hosts = start.record, start.record.hosts
        counts = self._members.counts(record.submission)
        if record.submission.malleable:
            counts = record.submission.counts_on(len(hosts))
        elif record.parts:
            counts = self._members.half_counts(record.submission)
        if len(counts) != len(hosts):
            # A job that starts at once, or with mates, cannot wait with another size.
            start.misfit = not start.waits_for_mates and not record.submission.at_once
            raise CoschedError(
                f"needs {len(counts)} nodes now, not {len(hosts)}: submit it again"
            )
        found = job_object(record, counts, self._config.queue)
        secrets = [self._members.by_name[host].secret for host in hosts]
        version = self._members.numbering.version
        return chunks(record, nodes, found, self._config.startup, secrets, version)

    def recover(self, start: ActiveStart) -> None:
        """Restores a start that nodes have."""
        self.active[start.record.number] = start

    def has_on(self, host: str, job: int, start: int) -> bool:
        """Returns whether a node should have tasks of a start. One that was lost after the
        start's tree broke has no order to end them any more."""
        active = self.active.get(job)
        if active is None or active.record.start != start:
            return False
        if active.waits_for is not None:
            return host in active.waits_for
        return active.record.size is None or host in active.record.admitted

    def end(self, number: int, why: Why) -> None:
        """Ends a job's tasks; its end will be reported."""
        if why is Why.NODE_LOST:
            return  # ``node_lost`` breaks its tree
        start = self.active[number]
        if why is Why.WITHDRAWN:
            start.withdrawn = True
        else:
            start.ending = start.ending or _STATE_OF[why]
        end = End(start.record.number, start.record.start, _REASON_OF[why], direct=False)
        self._send(start.root, end)

    def on(self, name: str) -> list[ActiveStart]:
        """Returns the starts that hold a node (``ActiveStart.holds``)."""
        return [each for each in self.active.values() if name in each.holds]

    def break_on(self, name: str, reason: str) -> None:
        """Ends the starts on a node; each of their nodes reports for itself."""
        for start in self.on(name):
            # The queue has not ordered this for a job that ends already.
            if name in start.record.nodes:
                self._break_tree(start, State.NODE_LOST, reason)

    def node_lost(self, name: str) -> None:
        """Ends the starts on a node that does not answer."""
        self.break_on(name, f"node {name} was lost")
        for start in self.on(name):
            self._node_is_done(start, name)

    def lose(self, start: ActiveStart, name: str) -> None:
        """Ends a start because a node of it is lost."""
        self._break_tree(start, State.NODE_LOST, f"node {name} was lost")
        self._node_is_done(start, name)

    # --- messages of agents ---------------------------------------------------------------

    def take(self, sender: str, message: OfJob) -> None:
        """Handles a message about a start. Raises CoschedError for one that the sender may
        not send, and StateLost if its effect cannot be stored or carried out."""
        if not isinstance(message, _OF_NODES):
            raise CoschedError(f"{type(message).__name__} is not for the controller")
        start = self.find(sender, message)
        if start is None:
            return
        if isinstance(message, NodeEnded):
            self._strays.ended(sender, message.job, message.start)
            with must_succeed(f"job {message.job}"):
                self._node_is_done(start, sender)
            return
        start.expect_root(sender)
        with must_succeed(f"job {message.job}"):
            self._take_of_root(start, message)

    def find(self, sender: str, message: OfJob) -> ActiveStart | None:
        """Returns the start that a message of a node is about. Answers for one that is not
        active: its end is stored, or it must end."""
        start = self.active.get(message.job)
        if start is not None and start.record.start == message.start:
            return start
        self._take_about_unknown(sender, message)
        return None

    def _take_of_root(self, start: ActiveStart, message: OfJob) -> None:
        match message:
            case SubtreePrepared():
                self._prepared(start)
            case Began():
                self._records.save(start.record, started_ns=message.since_ns)
            case StartFailed():
                start.failure = start.failure or Failure(125, message.reason)
                start.lost = start.lost or message.again
            case TaskFailed():
                start.failure = start.failure or message.failure
            case SubtreeEnded():
                start.failure = start.failure or message.failure
                start.ended_ns = message.ended_ns or None
                self._over(start)

    def _take_about_unknown(self, sender: str, message: OfJob) -> None:
        if message.job > JOB_MOST:
            raise CoschedError(f"there is no job {message.job}")
        if isinstance(message, SubtreeEnded):
            self._send(sender, EndNoted(message.job, message.start))
        if isinstance(message, SubtreeEnded | NodeEnded):
            self._strays.ended(sender, message.job, message.start)
        elif isinstance(message, Admitted):
            self._send(sender, Dismiss(message.job, message.start))
        else:
            self._strays.end(sender, message.job, message.start)

    def _prepared(self, start: ActiveStart) -> None:
        if start.timer is not None:
            start.timer.cancel()
        if start.is_given_up:
            return  # its end is on the way
        if not start.waits_for_mates:
            self._let_go(start)
        elif not start.prepared:
            start.prepared = True
            self._on_prepared(start)

    def _let_go(self, start: ActiveStart) -> None:
        if not start.went:
            self._records.save(
                start.record, state=State.RUNNING, started_ns=self._clock.now_ns()
            )
        number, which = start.record.number, start.record.start
        self._send(start.root, Order(number, which, go=True, mates=start.mates))
        self._on_begun(start)

    # --- ends -----------------------------------------------------------------------------

    def _late(self, start: ActiveStart) -> None:
        """Gives up a start whose nodes do not report."""
        reason = f"the start took more than {self._config.life.prepare_ns // NS_PER_S} s"
        start.lost = True
        self._break_tree(start, State.FAILED, reason)

    def fail(self, start: ActiveStart, reason: str) -> None:
        """Ends a job whose nodes are not as its root reports."""
        self._break_tree(start, State.FAILED, reason)

    def _break_tree(self, start: ActiveStart, state: State, reason: str) -> None:
        """Ends a job without its tree: each node reports for itself."""
        start.lost = start.lost or state is State.NODE_LOST
        start.ending = start.ending or state
        start.failure = start.failure or Failure(128 + 9, reason)
        if start.waits_for is None:
            # After a restart a node of an ended job may be away; it cannot report.
            known = self._members.by_name
            hosts = start.record.admitted
            start.waits_for = {host for host in hosts if known[host].answers}
            number, which = start.record.number, start.record.start
            for host in hosts:
                self._send(host, End(number, which, reason, direct=True))

    def _node_is_done(self, start: ActiveStart, host: str) -> None:
        if start.waits_for is not None:
            start.waits_for.discard(host)
            if not start.waits_for:
                self._over(start)

    def _over(self, start: ActiveStart) -> None:
        """Stores the end of a start, and reports it."""
        record = start.record
        if self.active.get(record.number) is not start:
            return
        del self.active[record.number]
        if start.timer is not None:
            start.timer.cancel()
        which = record.start
        again = self._starts_again(start)
        if again:
            unsent = start.misfit and start.ending is None
            self._records.save(
                record,
                state=State.QUEUED,
                started_ns=None,
                start=which - 1 if unsent else which,
                failed_starts=record.failed_starts + start.not_made,
            )
        else:
            self._record_end(start)
        self._send(start.root, EndNoted(record.number, which))
        self._on_over(start, again)

    def _record_end(self, start: ActiveStart) -> None:
        failure = start.failure
        state = start.ending or (State.DONE if failure is None else State.FAILED)
        if start.cancelled and state is not State.TIMEOUT:
            state = State.CANCELLED
        if failure is None and state is not State.DONE:
            failure = Failure(128 + 15, state.value)
        status = 0 if failure is None else failure.status
        reason = "" if failure is None else failure.reason
        tries = start.record.failed_starts + start.not_made
        if tries > 1 and state is State.FAILED:
            reason += f"; {tries} starts have failed, the job is not tried again"
        self._records.finish(start.record, state, status, reason, start.ended_ns)

    def _starts_again(self, start: ActiveStart) -> bool:
        """Returns whether the job waits again. The loss of a node does not end a job that
        has not begun and can wait."""
        if start.cancelled or start.ending in (State.CANCELLED, State.TIMEOUT):
            return False
        if start.misfit and start.ending is None:
            return True
        if start.waits_for_mates and start.withdrawn:
            return True
        if start.waits_for_mates and start.lost:
            return start.record.failed_starts + start.not_made < ATTEMPTS
        if not start.lost:
            return False
        if start.went:
            return start.record.submission.requeue
        if start.record.submission.at_once:
            return False
        return start.record.failed_starts + start.not_made < ATTEMPTS
