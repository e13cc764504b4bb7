"""Measures what the starts of jobs cost in two coupled clusters without other jobs.

In the simulation a job begins at its submission, if its nodes are free, and the next one
begins as soon as it ends. With these costs, the simulation is of the jobs as they run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.coupling_domains import Domain, Wanted, coupled_domains
from benchmarks.experiments.pairs.turns import fitted_turn_s, queued_jobs
from benchmarks.experiments.pairs.workload import PlannedJob, limit_of
from cosched.core.errors import CoschedError

#: Jobs of each kind. The first one does not count: the domains connect.
JOBS = 9
#: Slurm acts once a second, so the runs and the pauses between them differ by parts of one.
RUNS_S = [0.4 + number / (JOBS - 1) for number in range(JOBS)]
#: From the end of a job to the next submission.
PAUSE_S = 0.5
#: A job begins within this time, if its nodes are free.
WITHIN_S = 60.0
#: A line of a job that has begun.
_TIME = re.compile(r"^\d+\.\d+\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Costs:
    """Means for one domain."""

    lag_s: float = 0.0  #: from the submission of a job to its begin
    turn_s: float = 0.0  #: the time that a job keeps its nodes after its run
    #: From the moment when the last job of a pair could begin by itself to the begin of
    #: both.
    go_s: float = 0.0


def measure_costs(
    names: Mapping[str, str],
    nodes: int,
    schemes: Sequence[str],
    settings: Mapping[str, Any],
    folder: Path,
    block: int = 0,
) -> list[Costs]:
    """Starts the two clusters for this, and returns the costs of each. block: as
    ``coupled_domains``."""
    folder.mkdir()
    folder.chmod(0o1777)
    with coupled_domains(folder, names, nodes, schemes, settings, block) as domains:
        lags = [_lag_s(domain, folder) for domain in domains]
        turns = [
            _turn_s(domain, engine, nodes, lag_s, folder)
            for domain, engine, lag_s in zip(domains, names.values(), lags, strict=True)
        ]
        pair_lag_s = _pair_lag_s(domains, folder)
    go_s = max(0.0, pair_lag_s - max(lags))
    return [Costs(lag_s, turn_s, go_s) for lag_s, turn_s in zip(lags, turns, strict=True)]


def _lag_s(domain: Domain, folder: Path) -> float:
    found = []
    for number, run_s in enumerate(RUNS_S):
        output = folder / f"{domain.name}.single.{number}"
        submitted_s = submit(domain, output, PlannedJob(0.0, 1, run_s))
        found.append(_begin_s(output, 1) - submitted_s)
        time.sleep(run_s + PAUSE_S)
    return mean(found[1:])


def _turn_s(domain: Domain, engine: str, nodes: int, lag_s: float, folder: Path) -> float:
    jobs: list[PlannedJob] = []
    outputs: list[Path] = []
    began_s = time.time()
    for number, job in enumerate(queued_jobs(nodes)):
        outputs.append(folder / f"{domain.name}.queued.{number}")
        at_s = submit(domain, outputs[-1], job) - began_s
        jobs.append(replace(job, at_s=at_s))
    begins = [
        _begin_s(output, domain.scripts(job.nodes)) - began_s
        for output, job in zip(outputs, jobs, strict=True)
    ]
    ends = [begin + job.run_s for begin, job in zip(begins, jobs, strict=True)]
    time.sleep(max(0.0, began_s + max(ends) - time.time()) + PAUSE_S)
    waits_s = [begin - job.at_s for begin, job in zip(begins, jobs, strict=True)]
    return fitted_turn_s(engine, nodes, jobs, waits_s, lag_s)


def _pair_lag_s(domains: Sequence[Domain], folder: Path) -> float:
    """Returns the time from the later submission of a pair to its begin."""
    found = []
    for number, run_s in enumerate(RUNS_S):
        outputs = [folder / f"{domain.name}.pair.{number}" for domain in domains]
        submitted = [
            submit(domain, output, PlannedJob(0.0, 1, run_s, f"solo{number}"))
            for domain, output in zip(domains, outputs, strict=True)
        ]
        begins = [_begin_s(output, 1) for output in outputs]
        found.append(max(begins) - max(submitted))
        time.sleep(run_s + PAUSE_S)
    return mean(found[1:])


def submit(domain: Domain, output: Path, job: PlannedJob) -> float:
    """Submits a job, which writes when it begins; returns the time before that."""
    now_s = time.time()
    words = ("/bin/sh", "-c", f"date +%s.%N; sleep {job.run_s:.3f}")
    domain.submit(Wanted(words, job.nodes, limit_of(job.run_s), output, job.group))
    return now_s


def _begin_s(output: Path, scripts: int) -> float:
    """Waits until a job has written when it began. scripts: how many of its nodes run the
    script."""
    end = time.monotonic() + WITHIN_S
    while (began_s := first_begin(output, scripts)) is None:
        if time.monotonic() > end:
            raise CoschedError(f"{output.name} has not begun within {WITHIN_S:g} s")
        time.sleep(0.02)
    return began_s


def first_begin(path: Path, scripts: int) -> float | None:
    """Returns when a job began, by the wall clock in seconds; None: not yet.

    scripts: how many nodes of the job run the script. The first time counts. Slurm may
    have written lines of its own. Raises CoschedError if there are more times, since the
    job has begun twice.
    """
    text = path.read_text() if path.exists() else ""
    begins = [float(line) for line in _TIME.findall(text)]
    if len(begins) > scripts:
        raise CoschedError(f"{path.name} has begun twice: {begins}")
    return min(begins, default=None)
