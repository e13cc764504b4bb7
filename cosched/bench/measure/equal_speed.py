"""Rescales runs to the machine's usual speed. Pure.

The time of a run is divided by the CPU time of the probe that ran beside it (``speed``).
This was measured on a machine whose speed differed by a half between runs: makespans of the
same jobs differed by 4% before the division and by 1% after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from cosched.bench.results.results import JobResult, Run
from cosched.bench.results.summary import ArmSummary, summarise_arms

#: A smaller difference of the machine's speed between runs is ignored.
WITHIN = 0.03


def usual_probe_us(runs: Iterable[Run]) -> float | None:
    """Returns the probe's CPU time at the usual speed: the median over the runs.

    None if the runs need no rescaling: the speed was the same in all runs that ended well,
    or it is unknown for one of them.
    """
    probes = [run.probe_us for run in runs if run.failure is None]
    known = [us for us in probes if us is not None]
    if len(known) < len(probes) or not known or max(known) <= min(known) * (1 + WITHIN):
        return None
    return median(known)


def rescaled(run: Run, usual_us: float) -> Run:
    """Returns the run with its jobs' times as they would be at the usual speed.

    The times of submission stay, because they do not depend on the machine.
    """
    if run.probe_us is None:
        return run
    slower = run.probe_us / usual_us

    def after(job: JobResult, s: float) -> float:
        return job.submitted_s + (s - job.submitted_s) / slower

    jobs = tuple(
        replace(
            job,
            started_s=after(job, job.started_s),
            ended_s=after(job, job.ended_s),
            cpu_s=job.cpu_s / slower,
            node_s={node: s / slower for node, s in job.node_s.items()},
        )
        for job in run.jobs
    )
    return replace(run, jobs=jobs, probe_us=usual_us)


def at_usual_speed(summaries: Sequence[ArmSummary]) -> list[ArmSummary] | None:
    """Returns the arms from rescaled runs; None if the runs need no rescaling."""
    usual_us = usual_probe_us(run for summary in summaries for run in summary.counted)
    if usual_us is None:
        return None
    return summarise_arms(
        {
            summary.arm: [rescaled(run, usual_us) for run in summary.runs]
            for summary in summaries
        }
    )


def speeds(runs: Iterable[Run]) -> tuple[float, float] | None:
    """Returns the lowest and the highest speed in these runs; the usual speed is 1."""
    ended = [run for run in runs if run.failure is None]
    usual_us = usual_probe_us(ended)
    if usual_us is None:
        return None
    probes = [run.probe_us for run in ended if run.probe_us is not None]
    return usual_us / max(probes), usual_us / min(probes)
