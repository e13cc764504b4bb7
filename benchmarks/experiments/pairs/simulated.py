"""Simulates the jobs of the two clusters, with the costs of their starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from statistics import mean
from typing import Any

from benchmarks.coupling_domains import SLURM_REST_S, SLURM_TRY_S
from benchmarks.experiments.pairs.costs import Costs
from benchmarks.experiments.pairs.workload import (
    NAMES,
    SCHEMES,
    SETTINGS,
    Plan,
    PlannedJob,
    as_logs,
    plan_jobs,
    varied,
)
from cosched.config.coupling import CouplingTable
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.config.tables import read
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.coupling.coupled_runs import Coupled, Coupling, simulate

Combine = Callable[[Iterable[float]], float]

HOUR_S = 3600.0
#: Simulations of a spread.
RUNS = 15


def simulated(
    plan: Plan, engines: Sequence[str], schemes: str, costs: Sequence[Costs]
) -> dict[str, Any]:
    """Simulates the planned jobs; returns the figures of the live ones."""
    return _run(plan, plan_jobs(plan), engines, schemes, costs)


def spread(
    plan: Plan, engines: Sequence[str], schemes: str, costs: Sequence[Costs]
) -> dict[str, dict[str, Any]]:
    """Returns the least, mean and most of each figure of simulations in which the times of
    the jobs vary a little, as those of live jobs do."""
    chance = Random(plan.seed)
    runs = [
        _run(plan, varied(plan_jobs(plan), chance), engines, schemes, costs)
        for _ in range(RUNS)
    ]
    kinds: dict[str, Combine] = {"least": min, "mean": mean, "most": max}
    return {kind: _combined(runs, combine) for kind, combine in kinds.items()}


def _combined(runs: Sequence[dict[str, Any]], combine: Combine) -> dict[str, Any]:
    domains = [run["domains"] for run in runs]
    return {
        "pairs": runs[0]["pairs"],
        "together": combine(run["together"] for run in runs),
        "domains": {
            name: {key: combine(each[name][key] for each in domains) for key in figures}
            for name, figures in domains[0].items()
        },
    }


def _run(
    plan: Plan,
    planned: tuple[list[PlannedJob], ...],
    engines: Sequence[str],
    schemes: str,
    costs: Sequence[Costs],
) -> dict[str, Any]:
    lags, turns = zip(*((each.lag_s, each.turn_s) for each in costs), strict=True)
    logs, mates = as_logs(NAMES, engines, plan, planned, lags, turns)
    settings = [
        replace(_live_settings(letter), rest_ns=round(_rest_s(engine, each) * NS_PER_S))
        for engine, letter, each in zip(engines, schemes, costs, strict=True)
    ]
    search_ns = {
        name: round(SLURM_TRY_S * NS_PER_S)
        for name, engine in zip(NAMES, engines, strict=True)
        if engine == "slurm"
    }
    units = dict.fromkeys(NAMES, plan.block) if plan.block else {}
    how = Coupling(policy="easy", search_ns=search_ns, units=units)
    result = simulate(logs, NAMES, mates, settings, how)
    if result.stuck:
        raise CoschedError(f"{result.stuck} jobs never start in the simulation")
    return {
        "pairs": result.groups,
        "together": result.together,
        "domains": {
            name: _figures(result, name, jobs, each)
            for name, jobs, each in zip(NAMES, planned, costs, strict=True)
        },
    }


def _live_settings(letter: str) -> CouplingSettings:
    """Returns the settings of the domain that runs live, by the letter of its scheme."""
    addresses = {"listen": "127.0.0.1:1", "domains": {"other": "127.0.0.1:2"}}
    table = {**addresses, **SETTINGS, "scheme": SCHEMES[letter]}
    return read(CouplingTable, table).of("own", rest_ns=0).settings


def _rest_s(engine: str, costs: Costs) -> float:
    """Returns how long a job that has yielded gets no nodes: in Slurm until its wait is
    over and nodes are given out again. The simulation takes up to twice as long, and
    1.5 times on average."""
    return (SLURM_REST_S + costs.turn_s) / 1.5 if engine == "slurm" else 0.0


def _figures(
    result: Coupled, name: str, jobs: Sequence[PlannedJob], costs: Costs
) -> dict[str, float]:
    waits_s = [
        start_ns / NS_PER_S - job.at_s + (costs.go_s if job.group else 0)
        for job, start_ns in zip(jobs, result.schedules[name].start_ns, strict=True)
    ]
    slowdowns = [1 + wait_s / job.run_s for job, wait_s in zip(jobs, waits_s, strict=True)]
    paired = sum(job.nodes for job in jobs if job.group)
    figures = result.domains[name]
    return {
        "mean_wait_s": mean(waits_s),
        "mean_slowdown": mean(slowdowns),
        "mean_sync_s": figures["mean_sync_s"] + (costs.go_s if paired else 0),
        "lost_node_h": figures["lost_node_h"] + costs.go_s * paired / HOUR_S,
    }
