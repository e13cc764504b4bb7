"""Calculates what no schedule of a workload can beat on its nodes. Pure.

Each program runs alone, with ranks that sleep while they wait. Two things of that run are
the same under every schedule:

    time alone    the job's computation and the waits that belong to it, one after the
                  other: no job answers sooner
    node time     the CPU time of its tasks on a node, divided by the CPUs of the node: for
                  so long all of the node's CPUs must work for the job

From them follow two bounds. Both relax the real problem, so they need not be reachable:

    makespan         A job ends at its submission and its time alone at the earliest. A
                     node ends when it has done the node time of all jobs, without a pause
                     while a job is there. The bound is the latest of these ends.
    mean response    The mean of the times alone is one bound. Each node gives another. Its
                     CPUs are taken as one that is as fast as all of them, and it serves the
                     job with the least rest (ideal.srpt): the least sum of responses of one
                     machine. A job that the node has no part in answers after its time
                     alone. The bound is the greatest of these means.

Limits. It goes by measured times, so it is as exact as they are. A program whose CPU time
falls when others run beside it, because caches serve it better, can beat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cosched.bench.measure.equal_speed import rescaled
from cosched.bench.results.results import JobResult, Run
from cosched.bench.run.arms import Arm
from cosched.bench.simulate.ideal import Work, srpt
from cosched.bench.workload.file import Workload


class BoundRun(Run):
    """The figures that no run of these jobs can beat.

    In ``jobs`` each job has all nodes to itself from its submission on, so each response is
    the job's time alone. Mean response and makespan go by the work of the nodes, too.
    """

    __slots__ = ()

    @property
    def mean_response_s(self) -> float:
        """The least mean response; the response of one job alone can be longer."""
        alone_s = sum(job.response_s for job in self.jobs)
        sums_s = [
            alone_s + sum(end_s - job.ended_s for job, end_s in self._served(node))
            for node in self._nodes
        ]
        return max([alone_s, *sums_s]) / len(self.jobs)

    @property
    def makespan_s(self) -> float:
        """The least time from the first submission to the last end."""
        first_s = min(job.submitted_s for job in self.jobs)
        ends_s = [job.ended_s for job in self.jobs]
        for node in self._nodes:
            ends_s += [end_s for _, end_s in self._served(node)]
        return max(ends_s) - first_s

    @property
    def _nodes(self) -> set[str]:
        return {node for job in self.jobs for node in job.node_s}

    def _served(self, node: str) -> Iterable[tuple[JobResult, float]]:
        """Returns the node's jobs, each with its end on a node that runs the least rest."""
        jobs = [job for job in self.jobs if node in job.node_s]
        served = srpt([Work(job.submitted_s, job.node_s[node]) for job in jobs])
        return zip(jobs, (one.ended_s for one in served), strict=True)


def bound_runs(workload: Workload, alone: Iterable[Run], batch: Sequence[Run]) -> list[Run]:
    """Returns a bound for each run of the programs alone; a failed run stays as it is.

    ``batch``: further times alone, with ranks that wait as they like. Where a job took less
    time in the same repeat, that time counts.
    """
    ended = {run.repeat: run for run in batch if run.failure is None}
    return [
        run if run.failure else bound_run(workload, run, ended.get(run.repeat))
        for run in alone
    ]


def bound_run(workload: Workload, alone: Run, batch: Run | None = None) -> BoundRun:
    """Returns the bound that follows from a run of each program alone."""
    measured = {job.name: job for job in alone.jobs}
    by_spec = {one.spec.name: measured[one.name] for one in workload.programs()}
    others_s = {} if batch is None else _lengths_s(batch, alone.probe_us)
    jobs = []
    for instance in workload.instances():
        job = by_spec[instance.spec.name]
        length_s = min(job.lasted_s, others_s.get(instance.name, job.lasted_s))
        jobs.append(
            replace(
                job,
                name=instance.name,
                submitted_s=instance.start_s,
                started_s=instance.start_s,
                ended_s=instance.start_s + length_s,
                # Alone, a job cannot use a node for longer than it lasts.
                node_s={node: min(s, length_s) for node, s in job.node_s.items()},
            )
        )
    return BoundRun(
        Arm.BOUND, alone.repeat, tuple(jobs), alone.load, probe_us=alone.probe_us
    )


def _lengths_s(batch: Run, probe_us: float | None) -> Mapping[str, float]:
    """Returns each job's time alone at the speed of that probe, if the speed is known."""
    at_speed = batch if probe_us is None else rescaled(batch, probe_us)
    return {job.name: job.lasted_s for job in at_speed.jobs}
