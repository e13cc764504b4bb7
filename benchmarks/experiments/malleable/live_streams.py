"""Makes streams of malleable jobs that a live domain and the simulator both run.

The jobs are the users' problems of Table 1 (``cosched.sim.malleable.jobs``). Their ideals
are scaled to the nodes of the domain, and their times so that the mean job is short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.cluster.queue.sizes.execution import AdaptationCost
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.units import NS_PER_S
from cosched.sim.malleable.jobs import TEMPLATES, Instance, users_jobs
from cosched.sim.malleable.malleable_runs import USERS_NODES
from cosched.sim.malleable.policies import DISTRIBUTIONS, figures, run_stream
from cosched.sim.queue.metrics import column

#: The policies of Figs. 15 and 16 and Table 3, and two more baselines.
POLICIES = (
    "ideal-only",
    "ideal-backfill",
    "moldable",
    "even-fr",
    "even-fq",
    "low-impact-fr",
    "low-impact-fq",
)
#: The figures of both.
QUANTITIES: Mapping[str, str] = {
    "mean_wait_s": "wait",
    "mean_total_s": "total",
    "throughput_per_h": "jobs/h",
}
#: A job that takes longer is ended, in times of its run time; grace comes on top.
_GRACE_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of jobs."""

    template: str  #: a name of TEMPLATES
    count: int  #: jobs
    nodes: int  #: of the domain
    beta: float  #: time between arrivals, in times that the machine needs for the mean job
    percent: int  #: a job's minimum, of its ideal
    mean_s: float  #: the run time of the mean problem at its ideal
    seed: int  #: draws the problems

    def jobs(self) -> list[MalleableJob]:
        """Returns the jobs, numbered by their arrival from 0. Changes cost nothing yet."""
        template = [self._scaled(each) for each in TEMPLATES[self.template]]
        jobs = users_jobs(
            template, self.count, self.nodes, self.beta, self.percent, self.seed
        )
        mean_s = sum(each.run_s for each in template) / len(template)
        factor = self.mean_s / mean_s
        return [
            msgspec.structs.replace(
                job,
                walltime_ns=round(job.walltime_ns * factor),
                submit_ns=round(job.submit_ns * factor),
                cost=AdaptationCost(),
            )
            for job in jobs
        ]

    def _scaled(self, instance: Instance) -> Instance:
        ideal = max(1, round(instance.ideal * self.nodes / USERS_NODES))
        return replace(instance, ideal=ideal)


def queue_of(policy: str) -> QueueSettings:
    """Returns the settings of a domain whose queue has this policy."""
    if policy == "ideal-only":
        return QueueSettings("fcfs", grace_ns=_GRACE_NS)
    if policy == "ideal-backfill":
        return QueueSettings("conservative", grace_ns=_GRACE_NS)
    if policy == "moldable":
        return QueueSettings("fcfs", grace_ns=_GRACE_NS, size="moldable")
    harvest, _, distribution = policy.rpartition("-")
    changes = ChangeSettings(harvest, DISTRIBUTIONS[distribution].value)
    return QueueSettings("fcfs", grace_ns=_GRACE_NS, size="malleable", changes=changes)


def simulated(
    jobs: Sequence[MalleableJob],
    nodes: int,
    policy: str,
    cost: AdaptationCost,
    lasts: AdaptationCost,
    least_ns: int,
    waits_ns: Sequence[int],
) -> dict[str, float]:
    """Returns the figures of the simulator. cost: how long a job stood still for a change
    when it ran live. lasts: the time from the order of a change to its end. least_ns: no
    job is shorter, because that is what a start and an end of MPI take here. waits_ns: how
    long each job waited live. Jobs that do not wait in virtual time waited for their start
    alone: each job waits longer by their median (``start_s``)."""
    costly = [
        msgspec.structs.replace(job, cost=cost, walltime_ns=max(job.walltime_ns, least_ns))
        for job in jobs
    ]
    schedule = run_stream(costly, nodes, policy, lasts=lasts)
    virtual_ns = column(schedule.start_ns) - column(schedule.submit_ns)
    found = figures(schedule)
    at_once = np.asarray(waits_ns)[virtual_ns == 0]
    found["start_s"] = float(np.median(at_once)) / NS_PER_S if at_once.size else 0.0
    for quantity in ("mean_wait_s", "mean_total_s"):
        found[quantity] += found["start_s"]
    return found
