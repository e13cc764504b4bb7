"""Compares the benefit of a change with its cost.

The paper has such a control policy but gives no formula. A harvest saves the arriving job
the wait until enough nodes become free without it. Its cost is the delay of its victims. A
gift saves the time by which the job ends earlier, the cost of the change included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cosched.core.cluster.queue.sizes.dealing import Amounts
from cosched.core.cluster.queue.sizes.harvest_policies import Deal
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun


def wait_saved_ns(running: Iterable[ResizableRun], missing: int, now_ns: int) -> int:
    """Returns the time until running jobs have released ``missing`` nodes."""
    ends = sorted((job.left_ns(now_ns), job.size) for job in running)
    for left_ns, size in ends:
        missing -= size
        if missing <= 0:
            return left_ns
    raise ValueError(f"all jobs together have {missing} nodes too few")


def harvest_benefit(
    running: Iterable[ResizableRun],
    victims: Sequence[ResizableRun],
    amounts: Amounts,
    now_ns: int,
) -> float:
    """Returns the saved wait divided by the caused delays."""
    delay_ns = sum(
        job.end_with_ns(job.size - amount, now_ns) - job.end_with_ns(job.size, now_ns)
        for job, amount in zip(victims, amounts, strict=True)
        if amount
    )
    saved_ns = wait_saved_ns(running, sum(amounts), now_ns)
    return saved_ns / delay_ns if delay_ns > 0 else float("inf")


def gift_benefit(job: ResizableRun, amount: int, now_ns: int) -> float:
    """Returns the saved time divided by the cost of the change."""
    now_end_ns = job.end_with_ns(job.size, now_ns)
    saved_ns = now_end_ns - job.end_with_ns(job.size + amount, now_ns)
    cost_ns = job.cost.ns(job.size, job.size + amount)
    if cost_ns > 0:
        return saved_ns / cost_ns
    return float("inf") if saved_ns > 0 else 0.0


def worthy_gifts(
    give: Deal, receivers: Iterable[ResizableRun], nodes: int, least: float, now_ns: int
) -> Iterable[tuple[ResizableRun, int]]:
    """Divides nodes; returns each job that may get some with the number that it gets.

    give: how they are divided. least: the benefit that a gift must have; 0: any. The least
    worthy job is removed first, and its nodes go to the others."""
    jobs = list(receivers)
    amounts = give(jobs, nodes)
    while least:
        worths = [
            gift_benefit(job, amount, now_ns) if amount else least
            for job, amount in zip(jobs, amounts, strict=True)
        ]
        lowest = min(worths, default=least)
        if lowest >= least:
            break
        del jobs[worths.index(lowest)]
        amounts = give(jobs, nodes)
    return zip(jobs, amounts, strict=True)
