"""Names the policies of a queue: an order, a plan, and sizes that may change."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.queue.order import FCFS, LARGEST, WFP, Order
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.plans.conservative import Conservative
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.plans.malleable_easy import MalleableEasy
from cosched.core.cluster.queue.plans.planner import InOrder, Planner
from cosched.core.cluster.queue.sizes.settings import SizePolicy
from cosched.core.errors import CoschedError


@dataclass(frozen=True, slots=True)
class Policy:
    """An order of the queue, a plan, and how the sizes of running jobs change; None: jobs
    are rigid."""

    order: Order  #: which waiting job comes first
    plan: type[Planner]  #: which waiting jobs start now
    sizes: SizePolicy | None = None  #: how running jobs change; None: jobs are rigid

    @property
    def takes_sizes(self) -> bool:
        """Returns whether it combines with sizes that change."""
        return self.order is FCFS and self.plan in (InOrder, Easy)

    def planner(self, place: Place) -> Planner:
        """Returns a plan for a place. Raises CoschedError if they do not combine."""
        if self.sizes is None:
            if isinstance(place, Elastic):
                raise CoschedError("jobs that change their size need a policy of sizes")
            return self.plan(place, self.order)
        if self.plan not in (InOrder, Easy):
            raise CoschedError("sizes that change combine with fcfs and easy only")
        plan = Malleable if self.plan is InOrder else MalleableEasy
        return plan(place, self.order, self.sizes)


#: The policies by their names on the command line.
POLICIES = {
    "fcfs": Policy(FCFS, InOrder),
    "easy": Policy(FCFS, Easy),
    "conservative": Policy(FCFS, Conservative),
    "wfp": Policy(WFP, Easy),
    "largest": Policy(LARGEST, Easy),
}
