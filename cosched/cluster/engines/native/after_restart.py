"""Decides, after a restart of the controller, which jobs run on, wait again or have failed.

The store has the starts that were sent. The agents report the starts that they have. A job
whose root has it goes on. A start that never went waits in the queue again. All other
starts may have run, so they are started a second time only if their users allow it.
"""

from __future__ import annotations

from collections.abc import Callable

from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeEntry
from cosched.cluster.engines.native.putting_back import Restoring
from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import ENDED, Order, StartReport
from cosched.cluster.record import Record, State
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError


class Recovery:
    """The jobs that were started before the restart, until it is known what they do."""

    def __init__(
        self,
        jobs: Jobs,
        members: NodeEntries,
        send: Callable[[str, Message], None],
        records: list[Record],
    ) -> None:
        self._jobs = jobs
        self._restoring = Restoring(jobs)
        self._members = members
        self._send = send
        self._open = jobs.records.unresolved
        for record in records:
            if record.state in (State.HELD, State.QUEUED):
                self._restoring.restore(record)
            else:
                self._open[record.number] = record

    @property
    def awaited(self) -> set[str]:
        """The nodes that must report before all is known."""
        names = {
            name
            for record in self._open.values()
            if not self._members.removed(record.admitted)
            for name in record.admitted
        }
        return {name for name in names if not self._members.by_name[name].answers}

    def resolve(self) -> None:
        """Decides about all jobs by what the nodes have reported, and lets jobs start."""
        for record in sorted(self._open.values(), key=_borrows):
            self._resolve(record)
        for member in self._members.by_number:
            self._jobs.end_strays(member)
            if member.drained:  # the queue has its jobs only now
                self._jobs.node_drained(member)
        self._restoring.complete()

    def _resolve(self, record: Record) -> None:
        removed = self._members.removed(record.admitted)
        if removed:
            reason = f"node {removed[0]} is not in domain.toml any more"
            self._restoring.give_up(record, State.NODE_LOST, reason)
            return
        members = [self._members.by_name[name] for name in record.nodes]
        root = _report(members[0], record)
        gone = [member.name for member in members if not member.answers or member.restarted]
        if root is None or (gone and root.has_tasks):
            name = gone[0] if gone else record.hosts[0]
            reason = f"node {name} lost it while the controller was away"
            self._restoring.give_up(record, State.NODE_LOST, reason)
            return
        # A start that failed before its gate has ended, too.
        began = root.since_ns > 0 or record.state is State.RUNNING
        went = root.stage == Stage.GONE.value or (root.stage == ENDED and began)
        if self._restoring.waits_for_mates(record) and not root.since_ns:
            if root.stage == Stage.PREPARED.value:
                self._restoring.recover_prepared(record)
            else:  # it was not prepared in time, or was withdrawn
                self._restoring.give_up(record, State.FAILED, "the controller restarted")
            return
        if went:
            record.started_ns = root.since_ns or record.started_ns
            record.state = State.RUNNING
        if not went and record.state is State.STARTING:
            self._restoring.give_up(record, State.FAILED, "the controller restarted")
            return
        try:
            start = self._restoring.recover(record)
        except CoschedError as error:  # its tasks are ended as strays
            reason = f"the controller restarted with other settings: {error}"
            self._restoring.give_up(record, State.FAILED, reason)
            return
        if not went and not start.cancelled:  # the order to go may not have been sent
            order = Order(record.number, record.start, go=True, mates=start.mates)
            self._send(start.root, order)


def _borrows(record: Record) -> bool:
    """Returns whether a job has nodes of another one, which is restored before it."""
    return record.suspension is not None and record.suspension.lender is not None


def _report(member: NodeEntry, record: Record) -> StartReport | None:
    wanted = (record.number, record.start)
    return next((each for each in member.starts if (each.job, each.start) == wanted), None)
