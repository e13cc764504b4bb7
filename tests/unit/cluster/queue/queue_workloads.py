"""Random small workloads, and what drives a queue machine with them.

Times are small whole numbers: nanoseconds to the machine, moments to the reference.
"""

from __future__ import annotations

from hypothesis import strategies as st

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.order import FCFS, WFP
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.plans.conservative import Conservative
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import Policy
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.driver import Domain
from cosched.sim.virtual_time import VirtualTime

OVERRUN = 7

ALL = {
    f"{order.name}-{backfill.__name__}": Policy(order, backfill)
    for order in (FCFS, WFP)
    for backfill in (InOrder, Easy, Conservative)
}


@st.composite
def jobs_and_machine(draw, overruns: bool = True, most: int = 14):
    """(submission, run time, size, walltime) of some jobs, and the machine's size."""
    machine = draw(st.integers(1, 8))
    gaps = draw(st.lists(st.integers(0, 6), min_size=1, max_size=most))
    jobs, submit = [], 0
    for gap in gaps:
        submit += gap
        run = draw(st.integers(0, 12))
        walltime = draw(st.integers(1 if overruns else max(1, run), 16))
        jobs.append((submit, run, draw(st.integers(1, machine)), walltime))
    return jobs, machine


def workload_of(jobs, machine) -> Workload:
    workload = Workload("small", machine)
    for number, (submit, run, size, walltime) in enumerate(jobs):
        workload.append(number, submit, run, size, walltime)
    return workload


def simulated(jobs, machine, policy, keep_nodes=False) -> tuple[Domain, QueueMachine]:
    """The jobs after they went through the simulator."""
    engine = VirtualTime()
    queue = QueueMachine(Ledger(((0, machine - 1),), OVERRUN), policy)
    domain = Domain(engine, workload_of(jobs, machine), queue, Estimates.LOG, keep_nodes)
    engine.run(lambda: None)
    return domain, queue
