"""Summarises the runs of each arm of a bench, and compares the arms. Pure.

A figure of an arm is the median over its runs. Failed runs never count. Runs that outside
load disturbed count only if their arm has no other runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from cosched.bench.results.results import Run
from cosched.bench.results.slowdown import medians_s
from cosched.bench.run.arms import MEASURED, Arm


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over several runs."""

    median: float  #: the median over the runs
    low: float  #: the least value
    high: float  #: the greatest value


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job over the runs of an arm."""

    name: str  #: the instance's name, unique in the workload
    response_s: Spread  #: from submission to end
    cpu_s: Spread  #: as in JobResult


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm over its runs. The figures are None if no run ended well."""

    arm: Arm  #: the way in which the jobs ran
    runs: tuple[Run, ...]  #: all runs, failed ones included
    counted: tuple[Run, ...]  #: the runs behind the figures
    mean_response_s: Spread | None  #: a run's mean over its jobs
    mean_wait_s: Spread | None  #: a run's mean over its jobs
    makespan_s: Spread | None  #: from the first submission to the last end
    mean_slowdown: Spread | None  #: a run's mean; None also without lengths
    worst_slowdown: Spread | None  #: a run's worst job; None also without lengths
    jobs: tuple[JobSummary, ...]  #: one for each job instance; empty if no run ended well
    #: The time alone of each job, by its name; empty: unknown.
    lengths_s: Mapping[str, float]

    @property
    def failed(self) -> bool:
        """Whether any run failed."""
        return any(run.failure is not None for run in self.runs)

    @property
    def discarded(self) -> tuple[Run, ...]:
        """Runs that ended well but do not count."""
        return tuple(
            run for run in self.runs if run.failure is None and run not in self.counted
        )

    @property
    def all_disturbed(self) -> bool:
        """Whether only disturbed runs were left to count."""
        return bool(self.counted) and all(run.disturbed for run in self.counted)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One arm's medians divided by another's; below 1 the first arm is faster."""

    arm: Arm  #: the numerator
    other: Arm  #: the denominator
    mean_response: float  #: the mean responses' ratio
    makespan: float  #: the makespans' ratio
    #: A run of the slower arm was as fast as a run of the faster arm.
    responses_overlap: bool
    mean_slowdown: float | None = None  #: None: the jobs' lengths are unknown
    worst_slowdown: float | None = None  #: None: the jobs' lengths are unknown


def spread(values: Iterable[float]) -> Spread:
    """Returns median, least and greatest of one or more values."""
    ordered = sorted(values)
    return Spread(median(ordered), ordered[0], ordered[-1])


def summarise_arms(runs: Mapping[Arm, Sequence[Run]]) -> list[ArmSummary]:
    """Returns the summary of each arm; the runs of batch give the lengths of the jobs."""
    lengths_s = medians_s(
        {job.name: job.lasted_s for job in run.jobs}
        for run in _counted(runs.get(Arm.BATCH, ()))
    )
    return [summarise(arm, own, lengths_s) for arm, own in runs.items()]


def _counted(runs: Iterable[Run]) -> tuple[Run, ...]:
    ended = tuple(run for run in runs if run.failure is None)
    return tuple(run for run in ended if not run.disturbed) or ended


def summarise(
    arm: Arm, runs: Sequence[Run], lengths_s: Mapping[str, float] | None = None
) -> ArmSummary:
    """Returns the summary of the arm's runs among ``runs``.

    ``lengths_s``: the time alone of each job, by name; empty or None if unknown.
    """
    own = tuple(run for run in runs if run.arm is arm)
    counted = _counted(own)
    slowdowns = [run.slowdown(lengths_s) for run in counted] if lengths_s else []
    return ArmSummary(
        arm=arm,
        runs=own,
        counted=counted,
        mean_response_s=spread(r.mean_response_s for r in counted) if counted else None,
        mean_wait_s=spread(r.mean_wait_s for r in counted) if counted else None,
        makespan_s=spread(r.makespan_s for r in counted) if counted else None,
        mean_slowdown=spread(s.mean for s in slowdowns) if slowdowns else None,
        worst_slowdown=spread(s.worst for s in slowdowns) if slowdowns else None,
        jobs=_summarise_jobs(counted),
        lengths_s=lengths_s or {},
    )


def _summarise_jobs(runs: Sequence[Run]) -> tuple[JobSummary, ...]:
    if not runs:
        return ()
    return tuple(
        JobSummary(
            name=same[0].name,
            response_s=spread(job.response_s for job in same),
            cpu_s=spread(job.cpu_s for job in same),
        )
        for same in zip(*(run.jobs for run in runs), strict=True)
    )


def ratios(summaries: Sequence[ArmSummary]) -> tuple[Ratio, ...]:
    """Every arm against kernel and batch, and cosched against its ideals."""
    by_arm = {summary.arm: summary for summary in summaries}
    sharing = [arm for arm in reversed(MEASURED) if arm not in (Arm.KERNEL, Arm.BATCH)]
    ideals = [arm for arm in Arm if arm.calculated]
    pairs: list[tuple[Arm, Arm]]
    pairs = [(a, other) for a in (*sharing, *ideals) for other in (Arm.KERNEL, Arm.BATCH)]
    pairs += [(Arm.COSCHED, ideal) for ideal in (Arm.GANG, *ideals)]
    pairs += [(Arm.KERNEL, Arm.BATCH)]
    found = (_compare(by_arm.get(arm), by_arm.get(other)) for arm, other in pairs)
    return tuple(ratio for ratio in found if ratio is not None)


def _compare(top: ArmSummary | None, bottom: ArmSummary | None) -> Ratio | None:
    if top is None or bottom is None:
        return None
    response, other_response = top.mean_response_s, bottom.mean_response_s
    makespan, other_makespan = top.makespan_s, bottom.makespan_s
    if not (response and other_response and makespan and other_makespan):
        return None
    return Ratio(
        arm=top.arm,
        other=bottom.arm,
        mean_response=response.median / other_response.median,
        makespan=makespan.median / other_makespan.median,
        responses_overlap=(
            response.low <= other_response.high and other_response.low <= response.high
        ),
        mean_slowdown=_quotient(top.mean_slowdown, bottom.mean_slowdown),
        worst_slowdown=_quotient(top.worst_slowdown, bottom.worst_slowdown),
    )


def _quotient(top: Spread | None, bottom: Spread | None) -> float | None:
    return top.median / bottom.median if top and bottom else None
