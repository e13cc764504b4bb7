"""Divides nodes among jobs by their preferred sizes.

A job starts with more than its preferred size, and grows beyond it, only while no job
waits. Its nodes beyond that size are its surplus, and others get these first. Zojer, Posner
and Özden (2026) keep jobs at a preferred size where that is possible. Without preferred
sizes all of this does nothing: a job then prefers its ideal.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.queue.sizes.dealing import Amounts, Bounds, divide_evenly
from cosched.core.cluster.queue.sizes.harvest_policies import Deal
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun


def take_surplus(victims: Sequence[ResizableRun], count: int) -> Amounts:
    """Takes nodes from each job in turn, down to its preferred size."""
    return divide_evenly([run.surplus for run in victims], count)


def take_surplus_first(take: Deal, victims: Sequence[ResizableRun], count: int) -> Amounts:
    """Takes the surplus; then deals with what the jobs have left."""
    amounts = take_surplus(victims, count)
    left = [
        Bounds(run.size - amount, run.minimum, run.ideal)
        for run, amount in zip(victims, amounts, strict=True)
    ]
    more = take(left, count - sum(amounts))
    return [amount + other for amount, other in zip(amounts, more, strict=True)]


def give_up_to_preferred(
    give: Deal, receivers: Sequence[ResizableRun], count: int
) -> Amounts:
    """Gives nodes to jobs as if their preferred size were their ideal."""
    rooms = [Bounds(run.size, run.minimum, run.preferred) for run in receivers]
    return give(rooms, count)
