"""Where messages alone bring nodes together: phases of the paper's rules (Yoo and Jette).

Two equal jobs have a rank on every node. Each node has the paper's rules, strict shares,
and a timer that begins at any time. Each sweep varies one thing. The others are 8 nodes, a
grain of 0.4 ms, a slice of 7.5 s, GMET 2 s, shares once in 100 ms, messages of 20 us:

nodes    2 to 16, at each GMET from 0.5 to 3 s
grain    0.04 to 40 ms
period   of the share of an unscheduled job, 10 to 300 ms
message  5 us to 10 ms
timers   all nodes' timers begin within this time
pattern  which ranks wait for which
change   one change of the rules each (``variants``), at 4 and 8 nodes

The efficiency is the time of one job after the other divided by the time of both. A run
ends at three times the time that the jobs need. The spread over the seeds is the result:
the mean says little of a system with two states. A pull is to the minority if fewer than
half of the nodes run the job that asks.

The folder keeps each finished run; the same command continues. --docs writes the tables
into a page, between the lines <!-- phases: begin --> and <!-- phases: end -->.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.experiment import Bench, above_zero, in_one_line, simulate, write_figure
from benchmarks.experiments.nodes.variants import VARIANTS
from benchmarks.experiments.section import rewrite
from benchmarks.pictures import picture
from benchmarks.results import Results
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Branch, Command, Event, MessageTrapped
from cosched.core.node.settings import Order, Settings
from cosched.core.node.slices.policy import ChoosePolicy
from cosched.core.units import NS_PER_MS, NS_PER_S, NS_PER_US, format_duration
from cosched.sim.nodes.driver import Coscheduled
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import alone_s, spinning
from cosched.sim.virtual_time import Progress, no_progress
from cosched.tables import markdown
from cosched.tables import table as text_table

PART = "phases"
JOBS = 2
SLICE_NS = 7_500 * NS_PER_MS
#: A run ends at so many times the time that its jobs need.
PATIENCE = 3
#: Efficiencies at which nodes count as together, and as apart.
TOGETHER, APART = 0.8, 0.25
HOUR_NS = 3600 * NS_PER_S
GMETS_NS = tuple(share * NS_PER_MS for share in (500, 1000, 2000, 3000))


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation."""

    sweep: str  #: what is varied
    seed: int  #: the number of the repeat, from 1
    work_ns: int  #: CPU time of each rank
    nodes: int = 8  #: the number of nodes
    gmet_ns: int = 2 * NS_PER_S  #: guaranteed minimum execution time
    grain_ns: int = 400 * NS_PER_US  #: CPU time between two messages
    period_ns: int = 100 * NS_PER_MS  #: of the share of an unscheduled job
    message_ns: int = 20 * NS_PER_US  #: from sending to receiving
    timers_ns: int = HOUR_NS  #: the nodes' timers begin within this time
    pattern: str = "bulk"  #: which ranks wait for which
    change: str = "paper"  #: a key of VARIANTS

    @property
    def name(self) -> str:
        """The name in the progress display."""
        return f"{self.sweep} {self.place} #{self.seed}"

    @property
    def place(self) -> tuple[str, ...]:
        """The values of what the sweep varies, in words."""
        if self.sweep == "nodes":
            return str(self.nodes), format_duration(self.gmet_ns)
        if self.sweep == "change":
            return self.change, str(self.nodes)
        if self.sweep == "pattern":
            return (self.pattern,)
        return (format_duration(getattr(self, f"{self.sweep}_ns")),)


def _varied(sweep: str, base: Case) -> list[Case]:
    """Returns a case for each value of a sweep."""
    if sweep == "nodes":
        pairs = product((2, 4, 8, 16), GMETS_NS)
        return [replace(base, nodes=nodes, gmet_ns=gmet) for nodes, gmet in pairs]
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


SWEEPS = ("nodes", "grain", "period", "message", "timers", "pattern", "change")


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
    settings = Settings(SLICE_NS, case.gmet_ns, order=Order.PAPER, align=False)
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


# -- tables -------------------------------------------------------------------------------


def by_place(ended: Sequence[Ended], sweep: str) -> dict[tuple[str, ...], list[float]]:
    """Returns the efficiencies of all seeds at each place of a sweep."""
    found: dict[tuple[str, ...], list[float]] = {}
    for one in ended:
        if one.run.sweep == sweep:
            found.setdefault(one.run.place, []).append(one.result["efficiency"])
    return found


def spread(values: Sequence[float]) -> str:
    """Returns the least, the median and the greatest in percent, and the numbers of runs
    together and apart."""
    low, middle, high = (
        f"{100 * one:.0f}" for one in (min(values), statistics.median(values), max(values))
    )
    together = sum(one >= TOGETHER for one in values)
    apart = sum(one <= APART for one in values)
    return f"{low}, {middle}, {high}: {together} / {apart}"


def tables(ended: Sequence[Ended]) -> str:
    """Returns a table for each sweep in Markdown."""
    blocks = []
    grid = by_place(ended, "nodes")
    if grid:
        gmets = list(dict.fromkeys(gmet for _, gmet in grid))
        rows = [
            (nodes, *(spread(grid[nodes, gmet]) for gmet in gmets))
            for nodes in dict.fromkeys(nodes for nodes, _ in grid)
        ]
        blocks += ["By nodes and GMET:", "", *markdown(("nodes", *gmets), rows), ""]
    for sweep in ("grain", "period", "message", "timers", "pattern"):
        found = by_place(ended, sweep)
        if found:
            head = (sweep, *(place for (place,) in found))
            row = ("8 nodes", *(spread(values) for values in found.values()))
            blocks += [*markdown(head, [row]), ""]
    changes = by_place(ended, "change")
    if changes:
        counts = list(dict.fromkeys(nodes for _, nodes in changes))
        rows = [
            (name, *(spread(changes[name, nodes]) for nodes in counts))
            for name in dict.fromkeys(name for name, _ in changes)
        ]
        head = ("rules", *(f"{nodes} nodes" for nodes in counts))
        blocks += ["By rules:", "", *markdown(head, rows), ""]
    return "\n".join(blocks)


def text_of(ended: Sequence[Ended]) -> str:
    """Returns the spreads of all places as plain text."""
    rows = [
        (sweep, " ".join(place), spread(values))
        for sweep in SWEEPS
        for place, values in by_place(ended, sweep).items()
    ]
    head = ("", "", "least, median, greatest %: runs together / apart")
    return "\n".join(text_table(head, rows, "<<<")) + "\n"


def draw(document: Mapping[str, Any], path: Path) -> None:
    """Draws the distribution over the seeds at each place, a panel a sweep."""
    by_sweep = document["efficiencies"]
    shown = [sweep for sweep in SWEEPS if by_sweep.get(sweep)]
    with picture(path, size=(7, 2.4 * len(shown)), rows=len(shown)) as (figure, axes):
        for sweep, (panel,) in zip(shown, axes, strict=True):
            places = by_sweep[sweep]
            for at, (_place, values) in enumerate(places):
                beside = [at + 0.3 * (n / len(values) - 0.5) for n in range(len(values))]
                panel.plot(beside, values, "o", color="#2166ac", markersize=2.5, alpha=0.6)
            names = ["\n".join(place) for place, _ in places]
            panel.set_xticks(range(len(places)), names, fontsize=6)
            panel.set_ylim(0, 1.05)
            panel.set_ylabel("efficiency", fontsize=8)
            panel.set_title(f"by {sweep}", fontsize=9)
        figure.suptitle("Two jobs under the paper's rules, a point a seed", fontsize=10)


def parse(words: Sequence[str] | None) -> Any:
    bench = Bench("phases", __doc__, "--sweeps timers change --out FOLDER")
    add = bench.add_argument
    add("--sweeps", choices=SWEEPS, nargs="+", default=list(SWEEPS))
    add("--work", type=above_zero, default=60.0, help="CPU seconds of a rank (default 60)")
    bench.add_repeat(20, "seeds of each point")
    bench.add_parallel()
    bench.add_folder()
    add("--so-far", action="store_true", help="simulate nothing more")
    bench.add_page()
    return bench.parse(words)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("phases"):
        options.out.mkdir(parents=True, exist_ok=True)
        cases = cases_of(options.sweeps, options.repeat, round(options.work * NS_PER_S))
        results = Results(options.out / "phases.jsonl")
        if not options.so_far:
            left = results.left(cases)
            simulate(
                carry_out, left, options.jobs, lambda one: results.add(one.run, one.result)
            )
        ended = [Ended(case, results.last(case)) for case in results.done(cases)]
        document = {
            "command": options.command,
            "efficiencies": {
                sweep: list(by_place(ended, sweep).items()) for sweep in options.sweeps
            },
            "runs": [{"case": one.run, **one.result} for one in ended],
        }
        write_figure(options.out / "phases", document, text_of(ended), draw, ["svg"])
        if options.docs is not None:
            rewrite(options.docs, PART, tables(ended))


if __name__ == "__main__":
    main()
