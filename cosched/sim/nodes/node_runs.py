"""Runs jobs on a simulated cluster under one of several ways to share it ("arms").


cosched  ``core.node`` on every node
gang     the same nodes under one driver that switches them all at the same moment
batch    one job after the other, as nodes are free (computed, not simulated)
messages the paper's decisions on every node (``order=paper``), and ranks that spin in all
         waits
paper    the same with the paper's strict shares
kernel   the kernel alone, waiting ranks spin (Open MPI, MPICH 4); also called spin
yield    the kernel alone, waiting ranks leave the CPU to others at once
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cosched.core.errors import CoschedError
from cosched.core.node.groups import UNSCHEDULED_PERCENT
from cosched.core.node.knowledge import Expectation
from cosched.core.node.settings import Order, Settings
from cosched.core.units import NS_PER_S
from cosched.sim.nodes.driver import Coscheduled
from cosched.sim.nodes.kernel import Uncoordinated
from cosched.sim.nodes.model import Cluster, Program
from cosched.sim.nodes.ranks import make_ranks
from cosched.sim.virtual_time import Progress, no_progress

ARMS = ("batch", "gang", "cosched", "messages", "paper", "kernel", "spin", "yield")
#: Arms in which the settings decide.
SHARING = ("cosched", "messages", "paper")
#: No timer of a node and no message decides under a central driver.
NEVER_NS = 10**6 * NS_PER_S


@dataclass(frozen=True, slots=True)
class NodesRun:
    """The jobs, the cluster and the arm."""

    arm: str  #: one of ARMS
    programs: tuple[Program, ...]  #: the jobs; results have their order
    cluster: Cluster  #: the nodes and their times
    #: The settings of each node's scheduler; batch and the arms of the kernel ignore them.
    settings: Settings
    seed: int  #: another seed draws other clocks, delays and imbalances
    #: The number of jobs that run at a time; the others wait, first come, first served.
    #: None: all run.
    at_a_time: int | None = None
    #: The lengths that the nodes expect, by the program's name; a program that is not in it
    #: has none.
    expectations: Mapping[str, Expectation] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The arm, the nodes and the settings that matter."""
        settings = self.settings
        align = "align" if settings.align and self.arm == "cosched" else "free"
        said = settings.texts()
        rest = f" {said['slice']} {said['gmet']} {align}" if self.arm in SHARING else ""
        return f"{self.arm} {self.cluster.nodes}{rest}"


@dataclass(frozen=True, slots=True)
class NodesOutcome:
    """The result of a run. Tables have the order of the jobs."""

    run: NodesRun  #: the input
    responses_s: tuple[float, ...]  #: from each job's submission to its end
    alone_s: tuple[float, ...]  #: how long each job takes alone on its nodes
    makespan_s: float  #: from the first submission to the last end
    #: How often the schedulers of all nodes took each branch; empty if the arm has none.
    counters: Mapping[str, int]
    cpu_s: float  #: CPU time of the simulator
    waits_s: tuple[float, ...]  #: until each job was launched

    @property
    def mean_response_s(self) -> float:
        return sum(self.responses_s) / len(self.responses_s)

    @property
    def efficiency(self) -> float:
        """The time of the jobs one after the other, each alone / the makespan, on the nodes
        with most to do.

        It is above 1 where one job computes while messages of another are under way: a job
        alone waits for these.
        """
        cluster = self.run.cluster
        work = np.zeros(cluster.nodes)
        for program, alone_s in zip(self.run.programs, self.alone_s, strict=True):
            nodes = cluster.nodes_of(program)
            work[nodes.start : nodes.stop] += alone_s
        return float(work.max()) / self.makespan_s

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""
        run = self.run
        return {
            "arm": run.arm,
            "seed": run.seed,
            "cluster": asdict(run.cluster),
            "settings": asdict(run.settings),
            "mean_response_s": self.mean_response_s,
            "makespan_s": self.makespan_s,
            "efficiency": self.efficiency,
            "counters": dict(self.counters),
            "jobs": [
                {
                    **asdict(program),
                    "pattern": program.pattern.value,
                    "response_s": response_s,
                    "alone_s": alone_s,
                }
                for program, response_s, alone_s in zip(
                    run.programs, self.responses_s, self.alone_s, strict=True
                )
            ],
        }


def alone_s(program: Program, cluster: Cluster) -> float:
    """Returns how long the job takes alone on its nodes, in seconds."""
    count = len(cluster.nodes_of(program))
    chance = np.random.default_rng(0)
    ranks = make_ranks(program, count, cluster, chance, float(program.launch_ns))
    return ranks.resume(np.ones(count), np.ones(count, dtype=np.bool_)) / NS_PER_S


def carry_out(run: NodesRun, progress: Progress = no_progress) -> NodesOutcome:
    """Simulates one run."""
    begun_s = time.process_time()
    alone = tuple(alone_s(program, run.cluster) for program in run.programs)
    (starts_s, ends_s), counters = _times(run, alone, progress)
    submits_s = [program.submit_ns / NS_PER_S for program in run.programs]
    return NodesOutcome(
        run,
        tuple(end - submit for end, submit in zip(ends_s, submits_s, strict=True)),
        alone,
        max(ends_s) - min(submits_s),
        counters,
        time.process_time() - begun_s,
        tuple(start - submit for start, submit in zip(starts_s, submits_s, strict=True)),
    )


#: When each job was launched and when it ended, in seconds.
Times = tuple[list[float], list[float]]


def _times(
    run: NodesRun, alone: Sequence[float], progress: Progress
) -> tuple[Times, Mapping[str, int]]:
    if run.arm == "batch":
        return _one_after_the_other(run, alone), {}
    if run.arm in ("kernel", "spin", "yield"):
        if run.at_a_time is not None:
            raise CoschedError(f"arm {run.arm}: cannot be simulated with a limit of jobs")
        kernel = Uncoordinated(run.cluster, run.programs, run.arm != "yield", run.seed)
        ends_ns = kernel.run(lambda: progress(kernel.done_share))
        submits_s = [program.submit_ns / NS_PER_S for program in run.programs]
        return (submits_s, [end_ns / NS_PER_S for end_ns in ends_ns]), {}
    cluster, settings, slice_ns = run.cluster, run.settings, None
    if run.arm == "gang":
        slice_ns = settings.fixed_slice_ns
        settings = Settings(slice_ns=NEVER_NS, gmet_ns=NEVER_NS, align=False)
    elif run.arm in ("messages", "paper"):
        settings = replace(settings, order=Order.PAPER, align=False)
        cluster = spinning(cluster, strict=run.arm == "paper")
    nodes = Coscheduled(
        cluster,
        run.programs,
        settings,
        run.seed,
        slice_ns,
        run.at_a_time,
        run.expectations,
    )
    nodes.run(lambda: progress(nodes.done_share))
    ended = [job.end_ns for job in nodes.jobs if job.end_ns is not None]
    assert len(ended) == len(nodes.jobs)
    starts_s = [job.launched_ns / NS_PER_S for job in nodes.jobs]
    return (starts_s, [end_ns / NS_PER_S for end_ns in ended]), nodes.counters()


def spinning(cluster: Cluster, *, strict: bool) -> Cluster:
    """Returns the cluster with ranks that spin in all waits.

    No rank leaves CPU time to another one. An unscheduled rank looks for messages when its
    class gets its share. Strict shares come once in each period of the quota. Otherwise the
    share is a whole tick, out of a hundred at 1%.
    """
    tick_ns = cluster.quantum_ns * 100 // UNSCHEDULED_PERCENT
    looks_ns = cluster.period_ns if strict else tick_ns
    return replace(cluster, fills=False, trap_ns=max(cluster.trap_ns, looks_ns))


def _one_after_the_other(run: NodesRun, alone: Sequence[float]) -> Times:
    """Returns the times of jobs that begin as their nodes are free, in order of submission;
    with a limit of one job as all nodes are free."""
    free_s = np.zeros(run.cluster.nodes)
    starts_s: dict[int, float] = {}
    ends_s: dict[int, float] = {}
    order = sorted(range(len(alone)), key=lambda place: run.programs[place].submit_ns)
    for place in order:
        program = run.programs[place]
        nodes = run.cluster.nodes_of(program)
        here = slice(nodes.start, nodes.stop) if run.at_a_time != 1 else slice(None)
        starts_s[place] = max(float(free_s[here].max()), program.submit_ns / NS_PER_S)
        ends_s[place] = starts_s[place] + alone[place]
        free_s[here] = ends_s[place]
    places = range(len(alone))
    return [starts_s[place] for place in places], [ends_s[place] for place in places]
