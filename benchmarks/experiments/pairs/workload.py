"""Makes the jobs of two coupled clusters, and their settings. Pure, but for the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from benchmarks.coupling_domains import granted_limit_s
from cosched.core.units import NS_PER_S
from cosched.sim.coupling.pairs import Mates
from cosched.sim.logs.workload import Workload

#: The two clusters, and the settings of their coupling.
NAMES = ("intrepid", "eureka")
SCHEMES = {"H": "hold", "Y": "yield"}
SETTINGS = {
    "release": "20s",
    "release_wait": "2s",
    "again": "2s",
    "answer": "30s",
    "unknown": "1h",
    "when_down": "yield",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs to make."""

    pairs: int  #: the number of pairs, one job in each domain
    unpaired: int  #: jobs without a mate, in both domains together
    nodes: int = 4  #: nodes of each domain
    load: float = 0.6  #: the share of the nodes that the jobs want
    run_s: float = 2.0  #: the mean run time
    seed: int = 1  #: another seed draws other jobs
    block: int = 0  #: the nodes of the least aligned block of a job; 0: any nodes


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job."""

    at_s: float  #: its submission, from the begin
    nodes: int  #: the number of its nodes
    run_s: float  #: how long its script runs
    group: str = ""  #: the name of its pair; empty: no mate


def plan_jobs(plan: Plan) -> tuple[list[PlannedJob], list[PlannedJob]]:
    """Returns the jobs of both domains, by submission. The jobs of a pair are submitted
    within a second of each other, in either order."""
    chance = Random(plan.seed)
    kinds = ["pair"] * plan.pairs + [0, 1] * (plan.unpaired // 2)
    chance.shuffle(kinds)
    domains: tuple[list[PlannedJob], list[PlannedJob]] = ([], [])
    wanted_s = 0.0  # node-seconds of both domains so far
    for number, kind in enumerate(kinds):
        at_s = wanted_s / (2 * plan.nodes * plan.load)
        for place in (0, 1) if kind == "pair" else (int(kind),):
            nodes = min(plan.nodes, chance.choice((1, 1, 1, 2, 2, 4)))
            run_s = plan.run_s * chance.uniform(0.3, 1.7)
            late_s = chance.uniform(0, 1) if kind == "pair" else 0.0
            group = f"g{number}" if kind == "pair" else ""
            domains[place].append(PlannedJob(at_s + late_s, nodes, run_s, group))
            wanted_s += nodes * run_s
    for jobs in domains:
        jobs.sort(key=lambda job: job.at_s)
    return domains


def varied(
    domains: tuple[list[PlannedJob], ...], chance: Random
) -> tuple[list[PlannedJob], ...]:
    """Returns the jobs with submissions that differ by up to 0.15 s, and runs by up to 0.1
    s. The times of live jobs vary as much."""
    return tuple(
        sorted(
            (
                replace(
                    job,
                    at_s=max(0.0, job.at_s + chance.uniform(-0.15, 0.15)),
                    run_s=max(0.1, job.run_s + chance.uniform(-0.1, 0.1)),
                )
                for job in jobs
            ),
            key=lambda job: job.at_s,
        )
        for jobs in domains
    )


def as_logs(
    names: tuple[str, ...],
    engines: Sequence[str],
    plan: Plan,
    domains: tuple[list[PlannedJob], ...],
    lags_s: Sequence[float],
    turns_s: Sequence[float],
) -> tuple[list[Workload], list[Mates]]:
    """Returns the same jobs for the simulator, and which are mates. lags_s: how much
    later than planned jobs are submitted in each. turns_s: how much longer than it runs a
    job keeps its nodes."""
    logs: list[Workload] = []
    mates: dict[str, Mates] = {}
    for place, (name, engine, jobs, lag_s, turn_s) in enumerate(
        zip(names, engines, domains, lags_s, turns_s, strict=True)
    ):
        logs.append(as_log(name, engine, plan.nodes, jobs, lag_s, turn_s))
        for index, job in enumerate(jobs):
            if job.group:
                mates.setdefault(job.group, {})[place] = index
    return logs, list(mates.values())


def as_log(
    name: str,
    engine: str,
    nodes: int,
    jobs: Sequence[PlannedJob],
    lag_s: float,
    turn_s: float,
) -> Workload:
    """Returns the jobs of one cluster for the simulator; see ``as_logs``."""
    log = Workload(name, nodes)
    for number, job in enumerate(jobs, 1):
        log.append(
            number,
            round((job.at_s + lag_s) * NS_PER_S),
            round((job.run_s + turn_s) * NS_PER_S),
            job.nodes,
            round(granted_limit_s(engine, limit_of(job.run_s)) * NS_PER_S),
        )
    return log


def limit_of(run_s: float) -> float:
    """Returns the time that the user of a job asks for, in seconds."""
    return 2 * run_s + 1
