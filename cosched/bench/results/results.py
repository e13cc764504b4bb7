"""Holds what a bench measured in each of its runs. Pure.

A run is one arm's pass through the workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from cosched.bench.measure.load import OutsideLoad
from cosched.bench.results.slowdown import Slowdown, slowdown_of
from cosched.bench.run.arms import Arm


@dataclass(frozen=True, slots=True)
class JobResult:
    """One job of one run. The response ends with the job, the wait with its start; both
    begin with its submission."""

    name: str  #: the instance's name, unique in the workload
    submitted_s: float  #: from the begin of the run
    started_s: float  #: on the same clock
    ended_s: float  #: on the same clock
    cpu_s: float  #: CPU time of the launcher and its descendants, as wait4 reports it
    #: CPU time of its tasks on each node, by the name of the node, divided by the node's
    #: CPUs; empty: unknown.
    node_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def response_s(self) -> float:
        return self.ended_s - self.submitted_s

    @property
    def wait_s(self) -> float:
        return self.started_s - self.submitted_s

    @property
    def lasted_s(self) -> float:
        return self.ended_s - self.started_s


@dataclass(frozen=True, slots=True)
class Activity:
    """The work of the scheduler daemons, summed over all nodes."""

    tasks: int  #: tasks that registered
    timer_switches: int  #: switches at the end of a slice
    message_switches: int  #: switches that a message caused

    def since(self, before: Activity) -> Activity:
        """Returns the difference from ``before``."""
        return Activity(
            self.tasks - before.tasks,
            self.timer_switches - before.timer_switches,
            self.message_switches - before.message_switches,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason of a failure."""

    line: str  #: one line for the user
    output: tuple[str, ...] = ()  #: the last lines of the job's output; empty: none


@dataclass(frozen=True, slots=True)
class Run:
    """One arm's pass through the workload."""

    arm: Arm  #: the way in which the jobs ran
    repeat: int  #: from 1
    jobs: tuple[JobResult, ...]  #: in order of submission; empty if the run failed
    load: OutsideLoad | None = None  #: the load by other programs; None: unknown
    activity: Activity | None = None  #: the daemons' activity during the run; None: unknown
    failure: Failure | None = None  #: the reason; None: the run ended well
    probe_us: float | None = None  #: CPU time of the probe (speed.py); None: unknown

    @property
    def mean_response_s(self) -> float:
        return fmean(job.response_s for job in self.jobs)

    @property
    def mean_wait_s(self) -> float:
        return fmean(job.wait_s for job in self.jobs)

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last end."""
        first = min(job.submitted_s for job in self.jobs)
        return max(job.ended_s for job in self.jobs) - first

    def slowdown(self, lengths_s: Mapping[str, float]) -> Slowdown:
        """Returns the slowdown; ``lengths_s`` has the time alone of each job."""
        return slowdown_of({job.name: job.response_s for job in self.jobs}, lengths_s)

    @property
    def disturbed(self) -> bool:
        return self.load is not None and self.load.disturbed
