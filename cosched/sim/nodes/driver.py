"""Drives the node's scheduler (``core.node``) on many nodes, in virtual time.

Each node has the live scheduler, a timer and its own clock. Nodes affect each other only
through the ranks of the jobs (``sim.nodes.ranks``).

Speed of a rank: an unscheduled one has the share of its class while the scheduled job keeps
the CPU busy: 1% by the paper's order and by strict shares, otherwise nearly nothing. The
scheduled one has the rest. While the scheduled job waits for its peers, the jobs of the
node share the CPU equally, if the cluster gives unused time to other jobs.

The launch of a job is work of its ranks. It begins when all have registered, needs no
messages, and ends when all ranks have done it.

Decisions take effect on a grid of half the time of a switch, so nodes that switch together
are computed together. The rank that leaves stops at once. The rank that comes begins when
the switch is over.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

import numpy as np

from cosched.core.node.groups import UNSCHEDULED_PERCENT
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AlarmRang,
    Cause,
    Command,
    Event,
    MessageTrapped,
    OrderTimer,
    PublishStatus,
    SetAlarm,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    TurnGiven,
)
from cosched.core.node.settings import Order, Settings
from cosched.sim.nodes.jobs import SimulatedJob, SimulatedNode
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.ranks import Floats, make_ranks
from cosched.sim.virtual_time import DECIDE, END, SUBMIT, VirtualTime

ONE_CPU = frozenset({0})
#: Far enough in the past that every clock is positive, and no boundary falls on the start.
EPOCH_NS = 1_000_000_007
#: The part of a CPU that an unscheduled rank without a share gets.
TRICKLE = 1e-3
#: Parts of a switch at which decisions take effect.
GRID = 2


class Coscheduled:
    """A cluster under cosched or, with ``gang_slice_ns``, under one central driver.

    make_scheduler: returns the scheduler of a node, by its number; by default all have the
    settings.
    """

    def __init__(
        self,
        cluster: Cluster,
        programs: Sequence[Program],
        settings: Settings,
        seed: int,
        gang_slice_ns: int | None = None,
        at_a_time: int | None = None,
        expectations: Mapping[str, Expectation] | None = None,
        make_scheduler: Callable[[int], NodeScheduler] | None = None,
    ) -> None:
        def usual(_number: int) -> NodeScheduler:
            return NodeScheduler(settings)

        make = make_scheduler or usual
        self._cluster = cluster
        self._expectations = expectations or {}
        self._chance = Random(seed)
        self._engine = VirtualTime()
        self._gang_slice_ns = gang_slice_ns
        self._row: list[int] = []  # the places of the jobs that the central driver runs
        self._turn_version = 0
        self._free = len(programs) if at_a_time is None else at_a_time
        self._queue: deque[SimulatedJob] = deque()  # jobs that may not run yet
        starts = Random(f"timers {seed}")
        self._nodes = [
            SimulatedNode(
                make(number),
                round(self._chance.gauss(0.0, 1.0) * cluster.clock_ns),
                -starts.randrange(cluster.timers_ns),
            )
            for number in range(cluster.nodes)
        ]
        self.jobs = [
            SimulatedJob(program, cluster.nodes_of(program), seed * 1000 + number)
            for number, program in enumerate(programs)
        ]
        self._by_key = {job.key: job for job in self.jobs}
        self._grid_ns = max(1, cluster.switch_ns // GRID)
        self._changes: dict[int, list[tuple[SimulatedJob, int]]] = {}
        self._sharing = np.zeros(cluster.nodes)  # jobs a node
        by_paper = settings.order is Order.PAPER or not cluster.fills
        self._trickle = UNSCHEDULED_PERCENT / 100 if by_paper else TRICKLE
        for job in self.jobs:
            self._engine.at(job.program.submit_ns, SUBMIT, self._submit, job)

    def run(self, progress: Callable[[], None], until_ns: int | None = None) -> None:
        """Simulates until all jobs have ended, or until a time."""
        self._engine.run(progress, until_ns)

    @property
    def done_share(self) -> float:
        """The share of all steps that is over."""
        whole = sum(job.program.steps for job in self.jobs)
        ended = sum(job.program.steps for job in self.jobs if job.end_ns is not None)
        under_way = sum(
            job.ranks.step for job in self.jobs if job.ranks is not None and job.running
        )
        return min(1.0, (ended + under_way) / whole)

    def counters(self) -> Counter[str]:
        """Returns how often the schedulers of all nodes took each branch."""
        total: Counter[str] = Counter()
        for node in self._nodes:
            for branch, count in node.machine.counters.items():
                total[branch.value] += count
        return total

    # -- a job's life ---------------------------------------------------------------

    def _submit(self, job: SimulatedJob) -> None:
        """Launches the job, or lets it wait until another one ends."""
        if not self._free:
            self._queue.append(job)
            return
        self._free -= 1
        self._launch(job)

    def _launch(self, job: SimulatedJob) -> None:
        """Lets the ranks register one after the other."""
        job.launched_ns = self._engine.now_ns
        for rank in range(len(job.nodes)):
            later_ns = self._chance.randrange(self._cluster.spread_ns + 1)
            self._engine.at(
                self._engine.now_ns + later_ns, SUBMIT, self._register, (job, rank)
            )

    def _register(self, what: tuple[SimulatedJob, int]) -> None:
        job, rank = what
        number = job.nodes[rank]
        self._sharing[number] += 1
        now_ns, wall_ns = self._clocks(number)
        self._handle(
            number,
            TaskRegistered(
                now_ns=now_ns,
                wall_ns=wall_ns,
                job=job.key,
                task=rank,
                cpus=ONE_CPU,
                # By the clock of the node that it was submitted on.
                submitted_ns=EPOCH_NS
                + job.launched_ns
                + self._nodes[job.nodes.start].clock_ns,
                expectation=self._expectations.get(job.program.name, UNKNOWN),
            ),
        )
        job.registered += 1
        if job.registered == len(job.nodes):
            self._begin(job)
            if self._gang_slice_ns is not None:
                if self._row:
                    self._fill_row()
                else:
                    self._next_turn(None)

    def _begin(self, job: SimulatedJob) -> None:
        """Starts the ranks on the present part of the job."""
        now_ns = self._engine.now_ns
        if job.part is job.program:
            job.start_ns = now_ns
        job.ranks = make_ranks(job.part, len(job.nodes), self._cluster, job.chance, now_ns)
        self._apply_at(now_ns)

    def _ended(self, what: tuple[SimulatedJob, int]) -> None:
        job, version = what
        if version != job.version:
            return
        if job.part is not job.program:
            job.part = job.program
            self._begin(job)
            return
        job.end_ns = self._engine.now_ns
        for rank, number in enumerate(job.nodes):
            self._sharing[number] -= 1
            now_ns, wall_ns = self._clocks(number)
            self._handle(
                number, TaskExited(now_ns=now_ns, wall_ns=wall_ns, job=job.key, task=rank)
            )
        self._apply_at(job.end_ns)
        self._free += 1
        if self._queue:
            self._submit(self._queue.popleft())
        self._leave_row(job)

    # -- events in, commands out ----------------------------------------------------

    def _clocks(self, number: int) -> tuple[int, int]:
        now_ns = EPOCH_NS + self._engine.now_ns
        return now_ns, now_ns + self._nodes[number].clock_ns

    def _handle(self, number: int, event: Event) -> None:
        for command in self._nodes[number].machine.handle(event):
            self._carry_out(number, command)

    def _carry_out(self, number: int, command: Command) -> None:
        node = self._nodes[number]
        match command:
            case PublishStatus():
                job = self._by_key[command.job]
                rank = number - job.nodes.start
                job.publish(rank, command)
                later_ns = self._cluster.switch_ns if command.scheduled else 0
                if command.cause is Cause.FIRST:
                    later_ns = 0  # no other job has to stop first
                self._apply_at(self._engine.now_ns + later_ns, (job, rank))
            case OrderTimer():
                node.orders = command
                self._arm(number)
            case SetAlarm(at_ns):
                node.alarm += 1
                at_ns = max(self._engine.now_ns, at_ns - EPOCH_NS)
                self._engine.at(at_ns, DECIDE, self._ring, (number, node.alarm))

    def _ring(self, what: tuple[int, int]) -> None:
        number, version = what
        if version == self._nodes[number].alarm:
            now_ns, wall_ns = self._clocks(number)
            self._handle(number, AlarmRang(now_ns=now_ns, wall_ns=wall_ns))

    # -- timers, as in cosched.node.timer -------------------------------------------

    def _arm(self, number: int) -> None:
        node = self._nodes[number]
        node.timer += 1
        now_ns, wall_ns = self._clocks(number)
        tick_ns = node.orders.next_tick_ns(now_ns, wall_ns, node.fired_ns, node.began_ns)
        if tick_ns is None or self._gang_slice_ns is not None:
            return
        left_ns = tick_ns - (wall_ns if node.orders.align else now_ns)
        late_ns = 0
        if self._cluster.late_ns:
            late_ns = round(self._chance.expovariate(1.0 / self._cluster.late_ns))
        at_ns = self._engine.now_ns + max(0, left_ns) + late_ns
        self._engine.at(at_ns, DECIDE, self._fire, (number, node.timer))

    def _fire(self, what: tuple[int, int]) -> None:
        number, version = what
        node = self._nodes[number]
        if version != node.timer:
            return
        now_ns, wall_ns = self._clocks(number)
        node.fired_ns = now_ns
        self._handle(number, SliceEnded(now_ns=now_ns, wall_ns=wall_ns))
        if version == node.timer:
            self._arm(number)

    # -- the central driver ---------------------------------------------------------

    def _next_turn(self, version: int | None) -> None:
        """Gives the next row of jobs its turn, unless ``version`` is out of date."""
        if version is not None and version != self._turn_version:
            return
        self._turn_version += 1
        last = self._row
        first = last[0] + 1 if last else 0
        order = [(first + place) % len(self.jobs) for place in range(len(self.jobs))]
        self._row = []
        self._fill_row(sorted(order, key=lambda place: place in last))
        if self._row:
            assert self._gang_slice_ns is not None
            at_ns = self._engine.now_ns + self._gang_slice_ns
            self._engine.at(at_ns, DECIDE, self._next_turn, self._turn_version)

    def _fill_row(self, order: Iterable[int] | None = None) -> None:
        """Gives turns, in this order, to jobs whose nodes are free in the row."""
        for place in range(len(self.jobs)) if order is None else order:
            job = self.jobs[place]
            used = {number for other in self._row for number in self.jobs[other].nodes}
            if not job.running or not used.isdisjoint(job.nodes):
                continue
            self._row.append(place)
            for number in job.nodes:
                now_ns, wall_ns = self._clocks(number)
                self._handle(number, TurnGiven(now_ns=now_ns, wall_ns=wall_ns, job=job.key))

    def _leave_row(self, job: SimulatedJob) -> None:
        """Gives the nodes of a job that has ended to other jobs until the slice ends."""
        left = [place for place in self._row if self.jobs[place] is not job]
        if len(left) == len(self._row):
            return
        if left:
            self._row = left
            self._fill_row()
        else:
            self._next_turn(None)

    # -- effects on the ranks --------------------------------------------------------

    def _apply_at(self, at_ns: int, change: tuple[SimulatedJob, int] | None = None) -> None:
        at_ns += -at_ns % self._grid_ns
        if at_ns not in self._changes:
            self._changes[at_ns] = []
            self._engine.at(at_ns, END, self._apply, at_ns)
        if change is not None:
            self._changes[at_ns].append(change)

    def _apply(self, at_ns: int) -> None:
        """Advances all ranks until now and gives them their new speeds."""
        jobs = [job for job in self.jobs if job.running]
        for job in jobs:
            assert job.ranks is not None
            job.ranks.advance(at_ns)
        for job, rank in self._changes.pop(at_ns):
            job.on[rank] = job.scheduled[rank]
        busy = np.zeros(self._cluster.nodes, dtype=np.bool_)
        for job in jobs:
            if job.part.pattern is Pattern.NONE or not self._cluster.fills:
                busy[job.nodes.start : job.nodes.stop] |= job.on
            elif job.on.all():
                busy[job.nodes.start : job.nodes.stop] = True
        for job in jobs:
            assert job.ranks is not None
            job.version += 1
            end_ns = job.ranks.resume(self._speed(job, busy), job.on)
            # Rounded up: at that time the last step must be over.
            whole_ns = max(at_ns, int(end_ns) + 1)
            self._engine.at(whole_ns, END, self._ended, (job, job.version))
            self._plan_traps(job)

    def _speed(self, job: SimulatedJob, busy: np.ndarray) -> Floats:
        here = slice(job.nodes.start, job.nodes.stop)
        sharing = self._sharing[here]
        unscheduled = np.where(busy[here], self._trickle, 1.0 / sharing)
        if not self._cluster.fills:
            unscheduled[:] = self._trickle
        scheduled = np.maximum(0.5, 1.0 - self._trickle * (sharing - 1.0))
        return np.where(job.on, scheduled, unscheduled)

    def _plan_traps(self, job: SimulatedJob) -> None:
        """Plans the request of an unscheduled rank: once an epoch, at a scheduled peer's
        message."""
        may = ~job.on & ~job.scheduled & (job.asked != job.epoch)
        if not job.on.any() or not may.any():
            return
        assert job.ranks is not None
        finds = job.ranks.receives_ns(job.on) + job.glance * self._cluster.trap_ns
        for rank in np.flatnonzero(may & (finds < job.trap_ns - 1.0)).tolist():
            at_ns = max(self._engine.now_ns, int(finds[rank]))
            job.trap_ns[rank] = at_ns
            self._engine.at(at_ns, DECIDE, self._trap, (job, rank, at_ns))

    def _trap(self, what: tuple[SimulatedJob, int, int]) -> None:
        job, rank, at_ns = what
        if not job.running or job.scheduled[rank] or job.trap_ns[rank] != at_ns:
            return
        assert job.ranks is not None
        job.asked[rank] = epoch = int(job.epoch[rank])
        job.trap_ns[rank] = np.inf
        job.ranks.note_received(rank)
        number = job.nodes[rank]
        now_ns, wall_ns = self._clocks(number)
        self._handle(
            number,
            MessageTrapped(
                now_ns=now_ns, wall_ns=wall_ns, job=job.key, task=rank, epoch=epoch
            ),
        )
