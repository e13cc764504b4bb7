"""Makes the workloads of the two machines, and simulates a case.

The compute machine runs a month of a log, its arrivals stretched or squeezed to a load.
Each repeat moves its arrivals by up to a minute, since a small change can change the mean
wait of a month by minutes. The log of the analysis machine (Eureka, 100 nodes) is
generated; each repeat has another one.

by load (Figs. 3 to 6): jobs submitted within two minutes of each other are pairs, but no
more than a tenth of the compute machine's jobs. The analysis machine's jobs have the same
run times at each load, so a higher load means more jobs.

by share (Figs. 7 to 10): the analysis machine has as many jobs as the compute machine, each
submitted up to two minutes after one of its; every k-th is paired; load 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme
from cosched.core.units import NS_PER_S
from cosched.sim.coupling.coupled_runs import Coupling, simulate
from cosched.sim.coupling.pairs import VICINITY_NS, Mates, by_share, by_vicinity
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import read_swf
from cosched.sim.logs.workload import Workload
from cosched.sim.virtual_time import Progress, no_progress

DAY_NS = 86400 * NS_PER_S
MONTH_NS = 30 * DAY_NS
NAMES = ("compute", "analysis")
LOADS = (0.25, 0.5, 0.75)
SHARES = (0.025, 0.05, 0.1, 0.2, 0.33)
COMBINATIONS = ("HH", "HY", "YH", "YY")
BASE = "none"
#: Hold-hold without the release, which the paper expects to deadlock, at a load of 0.5.
NO_RELEASE, NO_RELEASE_AT = "HH, no release", 0.5
ANALYSIS_NODES = 100
#: Jobs of the analysis machine at load 0.5 for each job of the compute machine. With fewer,
#: less than 5% of the compute machine's jobs are paired at load 0.25.
ANALYSIS_JOBS = 0.8
MOST_PAIRED = 0.1
SHIFT_S = 60
SCHEMES = {"H": Scheme.HOLD, "Y": Scheme.YIELD}


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation."""

    sweep: str  #: load or share
    x: float  #: its value in the sweep, 0 to 1
    schemes: str  #: one of COMBINATIONS, or NO_RELEASE, or BASE: no coscheduling
    repeat: int  #: the seed of the arrivals and of the analysis machine's log
    trace: Path | None  #: the compute machine's log; None: a generated one
    compute_load: float  #: node-seconds asked for / there, on the compute machine
    generated_jobs: int  #: the size of a generated log, in jobs
    #: The nodes of the least block of the compute machine; None: its nodes are all alike.
    unit: int | None

    @property
    def name(self) -> str:
        """For the progress display."""
        return f"{self.sweep} {self.x:g} {self.schemes} #{self.repeat}"


@dataclass(frozen=True, slots=True)
class Ended:
    """A case and its result."""

    run: Case  #: the case
    result: dict[str, Any]  #: as Coupled.document


def load_of(log: Workload) -> float:
    """Node-seconds asked for / node-seconds there while jobs are submitted."""
    asked = sum(size * run for size, run in zip(log.size, log.run_ns, strict=True))
    return asked / (log.machine * (log.submit_ns[-1] - log.submit_ns[0]))


def stretched(log: Workload, load: float) -> Workload:
    """The log with all arrival intervals multiplied so that it offers this load."""
    factor = load_of(log) / load
    begin_ns = log.submit_ns[0]
    return _submitted(log, [round((at_ns - begin_ns) * factor) for at_ns in log.submit_ns])


def shifted(log: Workload, seed: int) -> Workload:
    """The log with each arrival up to ``SHIFT_S`` later; the order of jobs stays."""
    late_ns = Random(seed)
    times = [at_ns + late_ns.randrange(SHIFT_S) * NS_PER_S for at_ns in log.submit_ns]
    return _submitted(log, sorted(times))


def _submitted(log: Workload, submit_ns: Sequence[int]) -> Workload:
    copy = replace(log)
    copy.submit_ns = type(log.submit_ns)("q", submit_ns)
    return copy


def compute_workload(case: Case) -> Workload:
    """A month of the compute machine."""
    if case.trace is None:
        recipe = Recipe(case.generated_jobs, 2048, case.compute_load, seed=99)
        return shifted(generate(recipe), case.repeat)
    whole = stretched(read_swf(case.trace).workload, case.compute_load)
    # Load differs from month to month; the one that is nearest to the whole is typical.
    months = [
        whole.moved(-begin_ns, begin_ns, begin_ns + MONTH_NS)
        for begin_ns in range(0, whole.submit_ns[-1] - MONTH_NS + 1, MONTH_NS)
    ]
    typical = min(months, key=lambda log: abs(load_of(log) - case.compute_load))
    return shifted(stretched(typical, case.compute_load), case.repeat)


def analysis_workload(case: Case, compute: Workload) -> Workload:
    """A month of the analysis machine."""
    span_s = compute.submit_ns[-1] // NS_PER_S
    by_share = case.sweep == "share"
    medium = len(compute) if by_share else round(ANALYSIS_JOBS * len(compute))
    # Run times such that so many jobs make a load of 0.5; more jobs make more load.
    plain = Recipe(2000, ANALYSIS_NODES, seed=1)
    pilot = generate(plain)
    work_s = sum(
        size * run / NS_PER_S for size, run in zip(pilot.size, pilot.run_ns, strict=True)
    ) / len(pilot)
    scale = 0.5 * ANALYSIS_NODES * span_s / (medium * work_s)
    recipe = replace(
        plain,
        seed=1000 + case.repeat,
        load=0.5 if by_share else case.x,
        jobs=medium if by_share else max(1, round(medium * case.x / 0.5)),
        run_scale_s=plain.run_scale_s * scale,
    )
    log = generate(recipe)
    if not by_share:
        return log
    chance = Random(case.repeat)
    late = range(VICINITY_NS // NS_PER_S)
    submits = [at_ns + chance.choice(late) * NS_PER_S for at_ns in compute.submit_ns]
    return _submitted(log, sorted(submits))


def pairs_of(case: Case, logs: Sequence[Workload]) -> list[Mates]:
    """The pairs of a case."""
    if case.sweep == "share":
        every = round(1 / case.x)  # 0.33 stands for a third
        return by_share(logs, 1 / every)
    near = by_vicinity(logs)
    most = round(MOST_PAIRED * len(logs[0]))
    if len(near) <= most:
        return near
    chosen = Random(case.repeat).sample(range(len(near)), most)
    return [near[place] for place in sorted(chosen)]


def settings_of(schemes: str) -> list[CouplingSettings]:
    """For each machine; without schemes, coscheduling is off."""
    if schemes == BASE:
        return [CouplingSettings(enabled=False)] * 2
    if schemes == NO_RELEASE:
        return [CouplingSettings(scheme=Scheme.HOLD, release_ns=None)] * 2
    return [CouplingSettings(scheme=SCHEMES[letter]) for letter in schemes]


def carry_out(case: Case, progress: Progress = no_progress) -> Ended:
    """Makes the workloads of a case and simulates."""
    compute = compute_workload(case)
    logs = [compute, analysis_workload(case, compute)]
    how = Coupling(units={} if case.unit is None else {NAMES[0]: case.unit})
    result = simulate(
        logs, NAMES, pairs_of(case, logs), settings_of(case.schemes), how, progress
    )
    return Ended(case, result.document())
