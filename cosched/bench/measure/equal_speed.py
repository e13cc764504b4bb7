"""Runs as they would have been at the machine's usual speed. Pure.

What a run took goes with the CPU time of the probe beside it (``speed``): on a machine
whose speed differed by a half between runs, makespans of the same jobs in the same order
came within 1% once they were divided by it, and differed by 4% before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from cosched.bench.results.results import ArmSummary, JobResult, Run, summarise

#: Runs between which the machine's speed differs by less compare as they are.
WITHIN = 0.03


def usual_probe_us(runs: Iterable[Run]) -> float | None:
    """The probe's CPU time at the usual speed: the median over the runs.

    None if the runs compare as they are: the speed of one that ended well is unknown, or
    it was the same in all of them.
    """
    probes = [run.probe_us for run in runs if run.failure is None]
    known = [us for us in probes if us is not None]
    if len(known) < len(probes) or not known or max(known) <= min(known) * (1 + WITHIN):
        return None
    return median(known)


def rescaled(run: Run, usual_us: float) -> Run:
    """The run at that speed: what each of its jobs took, from its submission on, by what
    the probe took longer. Jobs come when the workload says, however fast the machine is."""
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
        )
        for job in run.jobs
    )
    return replace(run, jobs=jobs, probe_us=usual_us)


def at_usual_speed(summaries: Sequence[ArmSummary]) -> list[ArmSummary] | None:
    """The arms of one bench, from rescaled runs; None if they compare as they are."""
    usual_us = usual_probe_us(run for summary in summaries for run in summary.counted)
    if usual_us is None:
        return None
    return [
        summarise(summary.arm, [rescaled(run, usual_us) for run in summary.runs])
        for summary in summaries
    ]


def speeds(runs: Iterable[Run]) -> tuple[float, float] | None:
    """The least and the greatest speed of the machine in these runs, by the usual one."""
    ended = [run for run in runs if run.failure is None]
    usual_us = usual_probe_us(ended)
    if usual_us is None:
        return None
    probes = [run.probe_us for run in ended if run.probe_us is not None]
    return usual_us / max(probes), usual_us / min(probes)
