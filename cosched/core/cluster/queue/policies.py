"""Names the policies of a queue: an order and a plan."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.queue.order import FCFS, WFP, Order
from cosched.core.cluster.queue.plans.conservative import Conservative
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.planner import InOrder, Planner


@dataclass(frozen=True, slots=True)
class Policy:
    """An order of the queue and a plan."""

    order: Order
    plan: type[Planner]


#: The policies by their names on the command line.
POLICIES = {
    "fcfs": Policy(FCFS, InOrder),
    "easy": Policy(FCFS, Easy),
    "conservative": Policy(FCFS, Conservative),
    "wfp": Policy(WFP, Easy),
}
