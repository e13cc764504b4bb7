"""Lets several jobs share each node: rows of places (Ousterhout, 1982).

Each row is the whole domain with a queue of its own, and a job runs within one row. So the
jobs of a row never share a node, and a node has as many places as there are rows.

A job joins the row in which it probably starts soonest. A prediction can be wrong, so a job
that waits moves to a row that can start it at once and in which no job waits. An exclusive
job runs in all rows at once (``exclusive``).

The number of rows can change (``SharingChanged``), and after a restart the jobs that run
join the rows again. Jobs that fit in no row then run on in closed rows, which take no job.
Until they end, no job starts on their nodes.

A gated job (``Job.gated``) cannot be exclusive where nodes take several jobs. If it was
submitted before they did, it shares its nodes from then on.

Invariants, after every tick: those of ``DomainQueue`` in each row. A job is in one row, or
exclusive and in all. No job waits while an empty row has enough unreserved nodes.
"""

from __future__ import annotations

from msgspec.structs import replace

from cosched.core.cluster.queue.domain import (
    Command,
    DomainQueue,
    Event,
    JobCancelled,
    JobFailedToStart,
    JobRecovered,
    NodesDrained,
    NodesJoined,
    NodesLost,
    RulesChanged,
    Running,
    SettingsChanged,
    SharingChanged,
)
from cosched.core.cluster.queue.exclusive import ExclusiveJobs, soonest_free
from cosched.core.cluster.queue.ledger import Allocation
from cosched.core.cluster.queue.messages import (
    Job,
    JobEnded,
    JobId,
    JobSubmitted,
    ReservedJobBegan,
    ReservedJobReleased,
    ReserveJob,
    StartJob,
    Ticked,
    WakeAt,
)
from cosched.core.cluster.queue.nodes import (
    FreeNodes,
    Intervals,
    common,
    count,
    union,
)
from cosched.core.cluster.queue.planner import arrival
from cosched.core.cluster.queue.rowset import RowSet
from cosched.core.cluster.queue.scheduler import Policy
from cosched.core.errors import CoschedError

_AboutJob = (
    JobCancelled | JobFailedToStart | JobEnded | ReservedJobBegan | ReservedJobReleased
)


class SharedQueue:
    """Decides when the jobs of a live domain start whose nodes take ``rows`` jobs each."""

    def __init__(
        self,
        nodes: Intervals,
        policy: Policy,
        grace_ns: int | None,
        rows: int,
        allocation: Allocation = FreeNodes,
    ) -> None:
        self._allocation = allocation
        self._all = nodes
        self._policy = policy
        self._grace_ns = grace_ns
        self._rows = RowSet(nodes, rows, self._new_row)
        self._row: dict[JobId, DomainQueue] = {}
        self._exclusive = ExclusiveJobs()
        self._nodes: dict[JobId, Intervals] = {}  # those of each running job
        self._wake_ns: int | None = None

    @property
    def rows(self) -> tuple[DomainQueue, ...]:
        """Returns the rows, for reading."""
        return tuple(self._rows.all)

    @property
    def waiting(self) -> list[Job]:
        """Returns all waiting jobs by arrival."""
        return sorted([*self._rows.waiting, *self._exclusive.waiting], key=arrival)

    def __contains__(self, number: JobId) -> bool:
        return number in self._row or number in self._exclusive

    @property
    def capacity(self) -> int:
        """Returns the number of nodes in service."""
        return self._rows.capacity

    @property
    def takes_rules(self) -> bool:
        """Returns whether passes can have exceptions from the order."""
        return all(row.takes_rules for row in self._rows.all)

    def waits(self, number: JobId) -> bool:
        """Returns whether a job waits in the queue."""
        if self._exclusive.find(number) is not None:
            return True
        return number in self._row and self._row[number].waits(number)

    def is_reserved(self, number: JobId) -> bool:
        """Returns whether a gated job has nodes and has not begun."""
        return number in self._row and self._row[number].is_reserved(number)

    def expected_ns(self, size: int, now_ns: int) -> int:
        """Returns when ``size`` nodes of a row are expected to be free if no job starts."""
        return min(row.expected_ns(size, now_ns) for row in self._rows.all)

    def free_for(self, *, exclusive: bool) -> int:
        """Returns the number of nodes that a job could have now: those of the row that has
        most, or those without any job."""
        if not self._runs_alone(exclusive):
            return max(row.scheduler.free for row in self._rows.open)
        service = self._rows.service
        return count(service) - len(
            [node for node in self._node_ends(0) if common(service, ((node, node),))]
        )

    def handle(self, event: Event | SharingChanged) -> tuple[Command, ...]:
        """Takes one event and returns the commands. Raises CoschedError for a job that does
        not exist; nothing has changed then."""
        match event:
            case Ticked():
                return self._tick(event.now_ns)
            case JobSubmitted():
                self._refuse_gated_exclusive(event.job)
                return self._submit(event)
            case JobRecovered():
                return self._recover(event)
            case (
                JobCancelled()
                | JobFailedToStart()
                | JobEnded()
                | ReservedJobBegan()
                | ReservedJobReleased()
            ):
                if event.number in self._exclusive:
                    return self._handle_exclusive(event)
                return self._handle_sharing(event)
            case NodesLost() | NodesDrained() | NodesJoined():
                return self._exclusive.once(self._rows.take_nodes(event))
            case SettingsChanged():
                self._policy, self._grace_ns = event.policy, event.grace_ns
                return self._in_all_rows(event)
            case RulesChanged():
                return self._in_all_rows(event)
            case SharingChanged():
                self._change_sharing(event)
                return ()

    def _refuse_gated_exclusive(self, job: Job) -> None:
        if job.gated and self._runs_alone(job.exclusive):
            raise CoschedError(
                f"job {job.number}: an exclusive job cannot wait for jobs of other "
                "domains where nodes take several jobs"
            )

    # --- jobs -----------------------------------------------------------------------------

    def _submit(self, event: JobSubmitted) -> tuple[Command, ...]:
        job = event.job
        if job.number in self:
            raise CoschedError(f"job {job.number} was submitted before and has not ended")
        if self._runs_alone(job.exclusive) and not job.gated:
            self._rows.open[0].scheduler.check(job)
            self._exclusive.add(job)
            return ()
        return self._join_row(job, event.now_ns)

    def _join_row(self, job: Job, now_ns: int) -> tuple[Command, ...]:
        row = self._rows.soonest(job, now_ns)
        commands = row.handle(JobSubmitted(now_ns, job))
        self._row[job.number] = row
        return commands

    def _handle_sharing(self, event: _AboutJob) -> tuple[Command, ...]:
        number = event.number
        if number not in self._row:
            raise CoschedError(f"job {number}: neither waits nor runs")
        row = self._row[number]
        runs = row.scheduler.job(number) is None and number not in row.scheduler.reserved
        commands = row.handle(event)
        if isinstance(event, ReservedJobBegan) or (
            isinstance(event, JobCancelled) and runs
        ):
            return commands
        self._nodes.pop(number, None)
        again = row.scheduler.job(number)
        if again is None:
            del self._row[number]
        elif row in self._rows.closed:
            row.handle(JobCancelled(event.now_ns, number))
            self._join_row(again, event.now_ns)
        return commands

    def _handle_exclusive(self, event: _AboutJob) -> tuple[Command, ...]:
        waiting = self._exclusive.find(event.number)
        if waiting is not None:
            if not isinstance(event, JobCancelled):
                raise CoschedError(f"job {event.number}: does not run")
            self._exclusive.waiting.remove(waiting)
            return ()
        if isinstance(event, JobCancelled):
            return self._in_all_rows(event)
        again = isinstance(event, JobFailedToStart) and event.requeue
        again = again and event.number not in self._exclusive.ending
        self._in_all_rows(JobEnded(event.now_ns, event.number))
        job = self._exclusive.end(event.number)
        del self._nodes[event.number]
        if again:
            self._exclusive.add(job)
        return ()

    def _recover(self, event: JobRecovered) -> tuple[Command, ...]:
        """Takes a job that runs. Its nodes may be out of service, or have too many jobs."""
        job, now_ns = event.job, event.now_ns
        if job.number in self:
            raise CoschedError(f"job {job.number} was reported before and has not ended")
        if common(self._all, event.nodes) != event.nodes:
            raise CoschedError(f"job {job.number}: has nodes that are not in this domain")
        self._rows.open[0].scheduler.check(job)
        running = self._rows.open[0].found(event)
        self._rows.admit_all(now_ns)
        self._place(running, event.nodes, now_ns)
        self._nodes[job.number] = event.nodes
        return self._exclusive.once(self._rows.drain_out_of_service(now_ns))

    def _runs_alone(self, exclusive: bool) -> bool:
        """Returns whether a job must run in all rows: one row never shares a node."""
        return exclusive and len(self._rows.open) > 1

    # --- rows -----------------------------------------------------------------------------

    def _new_row(self) -> DomainQueue:
        return DomainQueue(
            self._all, self._policy, self._grace_ns, allocation=self._allocation
        )

    def _change_sharing(self, event: SharingChanged) -> None:
        """Makes all rows again: puts the running jobs and then the waiting ones into them.
        So exclusive jobs find that they run in all rows, or that there is only one."""
        walltimes = event.walltimes_ns
        running = [
            (self._row.get(number, self._rows.open[0]).running(number), nodes)
            for number, nodes in self._nodes.items()
        ]
        waiting = self.waiting
        self._rows.make_again(event.rows, self._new_row)
        self._row.clear()
        self._exclusive = ExclusiveJobs()
        for each, nodes in sorted(running, key=lambda pair: not pair[0].job.exclusive):
            longer = each.at_least(walltimes.get(each.job.number, 0))
            self._place(longer, nodes, event.now_ns)
        self._exclusive.once(self._rows.drain_out_of_service(event.now_ns))
        for job in waiting:
            walltime_ns = walltimes.get(job.number, job.walltime_ns)
            self._submit(JobSubmitted(event.now_ns, replace(job, walltime_ns=walltime_ns)))

    def _place(self, running: Running, nodes: Intervals, now_ns: int) -> None:
        """Puts a running job into the first row that has its nodes free, otherwise into a
        closed one. An exclusive job shares its nodes if other jobs run there."""
        job = running.job
        self._share(nodes, now_ns)
        free = [row for row in self._rows.all if row.scheduler.are_free(nodes)]
        alone = self._runs_alone(job.exclusive and not job.gated)
        if alone and len(free) == len(self._rows.all):
            for row in free:
                row.adopt(running, nodes)
            self._exclusive.running[job.number] = job
            if running.ending:
                self._exclusive.ending.add(job.number)
            return
        row = self._row[job.number] = free[0] if free else self._close_row()
        row.adopt(running, nodes)

    def _share(self, nodes: Intervals, now_ns: int) -> None:
        """Lets exclusive jobs share these nodes, because another job runs there."""
        for number in list(self._exclusive.running):
            if common(self._nodes[number], nodes):
                row = self._row[number] = self._rows.open[0]
                running = row.running(number)
                self._in_all_rows(JobEnded(now_ns, number))
                self._exclusive.end(number)
                row.adopt(running, self._nodes[number])

    def _close_row(self) -> DomainQueue:
        """Adds a closed row; like all others it has the exclusive jobs."""
        row = self._new_row()
        for number in self._exclusive.running:
            row.adopt(self._rows.open[0].running(number), self._nodes[number])
        self._rows.add_closed(row)
        return row

    def _crowded(self) -> Intervals:
        """Returns the nodes of the jobs in closed rows."""
        closed = self._rows.closed
        found: Intervals = ()
        for number, row in self._row.items():
            if row in closed:
                found = union(found, self._nodes[number])
        return found

    def _in_all_rows(self, event: Event) -> tuple[Command, ...]:
        return self._exclusive.once(self._rows.handle(event))

    def _reserve(self, nodes: Intervals, now_ns: int) -> None:
        """Keeps these nodes from the jobs of the rows, and those of closed rows."""
        if self._rows.closed:
            nodes = union(nodes, self._crowded())
        self._rows.withhold(nodes, now_ns)

    def _node_ends(self, now_ns: int) -> dict[int, int]:
        """Returns when each node that has jobs is expected to be free."""
        ends = {number: end_ns for row in self._rows.all for number, end_ns in row.ends()}
        found: dict[int, int] = {}
        for number, nodes in self._nodes.items():
            end_ns = max(now_ns, ends[number])
            for first, last in nodes:
                for node in range(first, last + 1):
                    found[node] = max(end_ns, found.get(node, 0))
        return found

    # --- decisions ------------------------------------------------------------------------

    def _tick(self, now_ns: int) -> tuple[Command, ...]:
        self._rows.drop_closed(set(self._row.values()))
        commands = self._serve_exclusive(now_ns)
        for row in self._rows.all:
            commands += self._tick_row(row, now_ns)
        commands += self._move(now_ns)
        commands += self._serve_exclusive(now_ns)  # it may be their turn now
        wake_ns = self._rows.wake_ns
        if wake_ns != self._wake_ns:
            self._wake_ns = wake_ns
            commands.append(WakeAt(wake_ns))
        return tuple(commands)

    def _serve_exclusive(self, now_ns: int) -> list[Command]:
        """Starts exclusive jobs in their order, and reserves nodes for the next."""
        commands: list[Command] = []
        while self._exclusive.waiting:
            job = self._exclusive.next(self._rows.waiting, self._rows.capacity)
            if job is None:
                break
            nodes, free = soonest_free(
                job.size, self._rows.service, self._node_ends(now_ns)
            )
            if not free:
                self._reserve(nodes, now_ns)
                return commands
            self._reserve((), now_ns)
            self._exclusive.start(job)
            self._nodes[job.number] = nodes
            self._in_all_rows(JobRecovered(now_ns, job, nodes, now_ns))
            commands.append(StartJob(job, nodes))
        self._reserve((), now_ns)
        return commands

    def _tick_row(self, row: DomainQueue, now_ns: int) -> list[Command]:
        commands: list[Command] = []
        for command in self._exclusive.once(row.handle(Ticked(now_ns))):
            if isinstance(command, WakeAt):
                self._rows.set_wake(row, command.at_ns)
                continue
            if isinstance(command, StartJob | ReserveJob):
                self._nodes[command.job.number] = command.nodes
            commands.append(command)
        return commands

    def _move(self, now_ns: int) -> list[Command]:
        """Moves waiting jobs to rows without waiting jobs that start them now."""
        commands: list[Command] = []
        idle = self._rows.idle
        for job in sorted(self._rows.waiting, key=arrival) if idle else []:
            old = self._row[job.number]
            if old.scheduler.job(job.number) is None:
                continue  # it started in its row when a job before it moved
            for row in idle:
                if row is not old and job.size <= row.scheduler.free:
                    old.handle(JobCancelled(now_ns, job.number))
                    row.handle(JobSubmitted(now_ns, job))
                    self._row[job.number] = row
                    commands += self._tick_row(row, now_ns)
                    commands += self._tick_row(old, now_ns)
                    idle = self._rows.idle
                    break
        return commands
