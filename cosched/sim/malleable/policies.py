"""Names the policies of malleable jobs and runs a stream of jobs through any of them.

The name of a policy joins its harvest and its distribution: ``low-impact-fr``. ``fq`` holds
the nodes that the queue does not want, as the paper's figures have it. ``qr`` gives them to
running jobs, as its Figure 3 says. ``low-impact-easy`` is ours: EASY backfill of malleable
and rigid jobs. Baselines (section 2.2 of Weissman et al.):
``moldable`` never resizes running jobs. In ``ideal-only`` and ``ideal-backfill`` each job
waits for its ideal size, first come first served without and with conservative backfill
and exact run times; ``ideal-easy`` has EASY backfill.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.exchange import SizeCounts
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.sizes.execution import FREE, AdaptationCost
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, HARVESTS, LOW_IMPACT
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import (
    MOLDABLE,
    Control,
    Distribution,
    SizePolicy,
)
from cosched.core.cluster.queue.sizes.suspension import Suspension
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.malleable.driver import MalleableSchedule, simulate
from cosched.sim.malleable.true_times import KNOWN, Knowledge
from cosched.sim.queue.metrics import column
from cosched.sim.queue.queue_runs import simulate as simulate_queue
from cosched.sim.virtual_time import Progress, no_progress

DISTRIBUTIONS = MappingProxyType(
    {
        "fr": Distribution.FAVOUR_RUNNING,
        "fq": Distribution.QUEUED_ONLY,
        "qr": Distribution.FAVOUR_QUEUED,
    }
)
QUEUES = MappingProxyType(
    {"ideal-only": "fcfs", "ideal-backfill": "conservative", "ideal-easy": "easy"}
)
BASELINES = (*QUEUES, "moldable")
HARVESTING = tuple(
    f"{harvest}-{distribution}" for harvest in HARVESTS for distribution in DISTRIBUTIONS
)
#: Combine EASY with a harvest; they have no degree of multiprogramming.
BACKFILLING = MappingProxyType(
    {f"{harvest.name}-easy": harvest for harvest in (EVEN, LOW_IMPACT)}
)


def policy_of(
    name: str,
    degree: int | None,
    control: Control,
    suspension: Suspension | None = None,
) -> SizePolicy:
    """Returns the policy of a name; ``moldable`` ignores the degree and the control. Those
    with EASY ignore the suspension."""
    if name == "moldable":
        return replace(MOLDABLE, suspension=suspension)
    if name in BACKFILLING:
        queued = Distribution.FAVOUR_QUEUED
        return SizePolicy(BACKFILLING[name], queued, degree, control)
    harvest, _, distribution = name.rpartition("-")
    if harvest not in HARVESTS or distribution not in DISTRIBUTIONS:
        known = ", ".join((*BASELINES, *HARVESTING, *BACKFILLING))
        raise CoschedError(f"policy '{name}' is none of {known}")
    return SizePolicy(
        HARVESTS[harvest],
        DISTRIBUTIONS[distribution],
        degree,
        control,
        suspension=suspension,
    )


def run_stream(
    jobs: Sequence[MalleableJob],
    nodes: int,
    name: str,
    degree: int | None = None,
    control: Control = Control(),  # noqa: B008  (frozen)
    suspension: Suspension | None = None,
    knowledge: Knowledge = KNOWN,
    seed: int = 0,
    lasts: AdaptationCost = FREE,
    progress: Progress = no_progress,
) -> MalleableSchedule:
    """Runs jobs, sorted by submission and numbered by place, under a policy. knowledge:
    the policy's, about their run times. seed: draws the errors of predictions. lasts: the
    time from the order of a change until its nodes are free or in use."""
    if name not in QUEUES:
        plan = Easy if name in BACKFILLING else InOrder
        sizes = policy_of(name, degree, control, suspension)
        return simulate(jobs, nodes, sizes, plan, knowledge, seed, lasts, progress)
    stream = Workload("stream", nodes)
    for job in jobs:
        run_ns = job.walltime_ns
        stream.append(job.number, job.submit_ns, run_ns, job.size, run_ns)
    schedule, _ = simulate_queue(stream, QUEUES[name], Estimates.EXACT, progress=progress)
    starts, runs = column(schedule.start_ns), column(stream.run_ns)
    return MalleableSchedule(
        submit_ns=stream.submit_ns,
        start_ns=schedule.start_ns,
        end_ns=array("q", (starts + runs).tobytes()),
        harvests=array("q", [0]) * len(jobs),
        counts=SizeCounts(),
    )


def no_worse(schedule: MalleableSchedule, reference: MalleableSchedule) -> float:
    """Returns the share of jobs that end no later than in the reference."""
    return float((column(schedule.end_ns) <= column(reference.end_ns)).mean())


def figures(schedule: MalleableSchedule) -> dict[str, float]:
    """Returns means over the jobs, times in seconds.

    wait: from submission to start; execution: from start to end; total: their sum.
    throughput: jobs an hour, from the first submission to the last end. success: the share
    of requested harvests that found enough nodes, 1 without requests. harvests: how often
    a job gave up nodes; of_harvested: the same over the jobs that did at least once.
    suspensions: how often a job was suspended.
    """
    submit, start = column(schedule.submit_ns), column(schedule.start_ns)
    end, harvests = column(schedule.end_ns), column(schedule.harvests)
    counts = schedule.counts
    harvested = harvests > 0
    hours = (int(end.max()) - int(submit.min())) / (3600 * NS_PER_S)
    return {
        "jobs": len(submit),
        "mean_wait_s": float((start - submit).mean()) / NS_PER_S,
        "mean_execution_s": float((end - start).mean()) / NS_PER_S,
        "mean_total_s": float((end - submit).mean()) / NS_PER_S,
        "throughput_per_h": len(submit) / hours if hours else 0.0,
        "requests": counts.requests,
        "success": counts.harvests / counts.requests if counts.requests else 1.0,
        "harvests": float(harvests.mean()),
        "harvested": float(harvested.mean()),
        "of_harvested": float(harvests[harvested].mean()) if harvested.any() else 0.0,
        "gifts": counts.gifts / len(submit),
        "suspensions": counts.suspensions / len(submit),
    }
