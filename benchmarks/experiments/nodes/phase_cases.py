"""The cases of the phases of the paper's rules (``phases``), and their simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from benchmarks.experiments.nodes.variants import VARIANTS
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Branch, Command, Event, MessageTrapped
from cosched.core.node.settings import Order, Settings
from cosched.core.node.slices.policy import ChoosePolicy
from cosched.core.units import NS_PER_MS, NS_PER_S, NS_PER_US, format_duration
from cosched.sim.nodes.driver import Coscheduled
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import NodesRun, alone_s, spinning
from cosched.sim.nodes.node_runs import carry_out as carry_out_nodes
from cosched.sim.virtual_time import Progress, no_progress

JOBS = 2
SLICE_NS = 7_500 * NS_PER_MS
#: A run ends at this multiple of the time that its jobs need.
PATIENCE = 2
#: Efficiencies at which nodes count as together, and as apart.
TOGETHER, APART = 0.8, 0.25
HOUR_NS = 3600 * NS_PER_S
KERNEL_WORK_NS = 2 * NS_PER_S
GMETS_NS = tuple(ms * NS_PER_MS for ms in (500, 1000, 2000, 2500, 3500))


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation."""

    sweep: str  #: the name of the varied value
    seed: int  #: the number of the repeat, from 1
    work_ns: int  #: CPU time of each rank
    nodes: int = 8  #: the number of nodes
    gmet_ns: int = 2 * NS_PER_S  #: guaranteed minimum execution time
    slice_ns: int = SLICE_NS  #: the time slice
    grain_ns: int = 400 * NS_PER_US  #: CPU time between two messages
    period_ns: int = 100 * NS_PER_MS  #: how often an unscheduled job gets its share
    message_ns: int = 20 * NS_PER_US  #: from sending to receiving
    timers_ns: int = HOUR_NS  #: the nodes' timers begin within this time
    pattern: str = "bulk"  #: which ranks wait for which
    change: str = "paper"  #: a key of VARIANTS

    @property
    def alike(self) -> Case:
        """The same simulation for any sweep."""
        return replace(self, sweep="")

    @property
    def name(self) -> str:
        """The name in the progress display."""
        return f"{self.nodes} nodes, {self.change} #{self.seed}"

    @property
    def place(self) -> tuple[str, ...]:
        """The values of what the sweep varies, in words."""
        if self.sweep == "nodes":
            return str(self.nodes), format_duration(self.gmet_ns)
        if self.sweep == "change":
            return self.change, str(self.nodes)
        if self.sweep == "scale":
            return (format_duration(self.slice_ns),)
        if self.sweep == "pattern":
            return (self.pattern,)
        return (format_duration(getattr(self, f"{self.sweep}_ns")),)


def _varied(sweep: str, base: Case) -> list[Case]:
    """Returns a case for each value of a sweep."""
    if sweep == "nodes":
        pairs = [*product((2, 4, 8), GMETS_NS), *product((16,), GMETS_NS[3:4])]
        return [replace(base, nodes=nodes, gmet_ns=gmet) for nodes, gmet in pairs]
    if sweep == "slice":
        return [
            replace(base, slice_ns=ms * NS_PER_MS) for ms in (4000, 7500, 15_000, 30_000)
        ]
    if sweep == "scale":
        return [
            replace(
                base,
                slice_ns=ms * NS_PER_MS,
                gmet_ns=ms * NS_PER_MS // 3,
                work_ns=base.work_ns * ms * NS_PER_MS // SLICE_NS,
            )
            for ms in (500, 1500, 3750, 7500, 15_000)
        ]
    if sweep == "grain":
        return [replace(base, grain_ns=us * NS_PER_US) for us in (40, 400, 4000, 40_000)]
    if sweep == "period":
        return [replace(base, period_ns=ms * NS_PER_MS) for ms in (10, 30, 100, 300)]
    if sweep == "message":
        return [replace(base, message_ns=us * NS_PER_US) for us in (5, 20, 1000, 10_000)]
    if sweep == "timers":
        spreads = (100, 500, 1000, 2000, HOUR_NS // NS_PER_MS)
        return [replace(base, timers_ns=ms * NS_PER_MS) for ms in spreads]
    if sweep == "pattern":
        return [replace(base, pattern=name) for name in ("bulk", "wavefront", "alltoall")]
    names = product(VARIANTS, (4, 8))
    return [replace(base, change=name, nodes=nodes) for name, nodes in names]


#: Sweeps along one line of a table.
LINES = ("slice", "scale", "grain", "period", "message", "timers", "pattern")
SWEEPS = ("nodes", *LINES, "change")


def cases_of(sweeps: Sequence[str], seeds: int, work_ns: int) -> list[Case]:
    """Returns all cases, seed after seed."""
    return [
        case
        for seed in range(1, seeds + 1)
        for sweep in sweeps
        for case in _varied(sweep, Case(sweep, seed, work_ns))
    ]


@dataclass(frozen=True, slots=True)
class Ended:
    """A case and its result."""

    run: Case  #: the case
    #: The efficiency, events a node and second, and the share of pulls to the minority.
    result: dict[str, float]


class Watched(NodeScheduler):
    """A node's scheduler that counts how widely a job runs that pulls it in."""

    def __init__(
        self, settings: Settings, choose: ChoosePolicy, runs_on: Callable[[str], float]
    ) -> None:
        super().__init__(settings, choose)
        self._runs_on = runs_on
        #: For each pull the share of the nodes that ran the job.
        self.pulls: list[float] = []

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event, as the live scheduler."""
        share = self._runs_on(event.job) if isinstance(event, MessageTrapped) else 0.0
        granted = self.counters[Branch.SCH_GRANTED]
        commands = super().handle(event)
        if self.counters[Branch.SCH_GRANTED] > granted:
            self.pulls.append(share)
        return commands


def carry_out(case: Case, _progress: Progress = no_progress) -> Ended:
    """Simulates a case until its jobs have ended, or until patience ends."""
    plain = Cluster(
        case.nodes,
        message_ns=case.message_ns,
        trap_ns=min(NS_PER_MS, case.period_ns),
        timers_ns=case.timers_ns,
        period_ns=case.period_ns,
    )
    cluster = spinning(plain, strict=True)
    settings = Settings(case.slice_ns, case.gmet_ns, order=Order.PAPER, align=False)
    programs = tuple(
        Program(f"job{number}", Pattern(case.pattern), case.grain_ns, case.work_ns)
        for number in range(JOBS)
    )
    choices, machines = VARIANTS[case.change], list[Watched]()

    def runs_on(key: str) -> float:
        (job,) = [job for job in nodes.jobs if job.key == key]
        return float(job.scheduled.mean())

    def make(number: int) -> Watched:
        machines.append(Watched(settings, choices(f"{case.seed} {number}"), runs_on))
        return machines[-1]

    nodes = Coscheduled(cluster, programs, settings, case.seed, make_scheduler=make)
    needed_s = sum(alone_s(program, cluster) for program in programs)
    until_ns = round(PATIENCE * needed_s * NS_PER_S)
    nodes.run(partial(_progress, 0.0), until_ns)
    ends_ns = [job.end_ns for job in nodes.jobs if job.end_ns is not None]
    ended = len(ends_ns) == JOBS
    took_s = (max(ends_ns) if ended else until_ns) / NS_PER_S
    efficiency = needed_s * (1.0 if ended else nodes.done_share) / took_s
    counters = nodes.counters()
    each = case.nodes * took_s
    pulls = [share for machine in machines for share in machine.pulls]
    return Ended(
        case,
        {
            "efficiency": efficiency,
            "pulled_a_second": counters["sch_granted"] / each,
            "refused_a_second": counters["sch_refused_gmet"] / each,
            "ticks_a_second": counters["csw_switched"] / each,
            "to_the_minority": sum(one < 0.5 for one in pulls) / max(1, len(pulls)),
        },
    )


def kernel_efficiencies(seeds: int) -> list[float]:
    """Returns the efficiencies of the kernel alone at 8 nodes, one a seed: it does not
    depend on slices, so little work is enough."""
    case = Case("nodes", 1, KERNEL_WORK_NS)
    cluster = Cluster(case.nodes, message_ns=case.message_ns)
    programs = tuple(
        Program(f"job{number}", Pattern.BULK, case.grain_ns, case.work_ns)
        for number in range(JOBS)
    )
    runs = (
        NodesRun("kernel", programs, cluster, Settings(), seed)
        for seed in range(1, seeds + 1)
    )
    return [carry_out_nodes(run).efficiency for run in runs]


def by_place(ended: Sequence[Ended], sweep: str) -> dict[tuple[str, ...], list[float]]:
    """Returns the efficiencies of all seeds at each place of a sweep."""
    found: dict[tuple[str, ...], list[float]] = {}
    for one in ended:
        if one.run.sweep == sweep:
            found.setdefault(one.run.place, []).append(one.result["efficiency"])
    return found
