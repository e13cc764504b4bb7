"""The policies against a naive implementation of each, on random workloads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cosched.core.cluster.queue.policies import POLICIES
from tests.unit.cluster.queue.queue_reference import (
    ConservativeReference,
    EasyReference,
    InOrderReference,
    WfpReference,
)
from tests.unit.cluster.queue.queue_workloads import OVERRUN, jobs_and_machine, simulated

REFERENCES = {
    "fcfs": InOrderReference,
    "easy": EasyReference,
    "conservative": ConservativeReference,
    "wfp": WfpReference,
}


@pytest.mark.parametrize("name", REFERENCES)
@given(case=jobs_and_machine())
@settings(max_examples=100, deadline=None)
def test_the_same_starts_as_the_reference(name, case):
    jobs, machine = case
    domain, _ = simulated(jobs, machine, POLICIES[name])
    assert list(domain.start_ns) == REFERENCES[name](jobs, machine, OVERRUN).run()


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
@given(case=jobs_and_machine(overruns=False))
@settings(max_examples=100, deadline=None)
def test_no_moment_is_missed(name, case):
    """A reference that decides at every moment finds nothing to start in between.

    (Under WFP it may: the order changes with time alone.)
    """
    jobs, machine = case
    domain, _ = simulated(jobs, machine, POLICIES[name])
    reference = REFERENCES[name](jobs, machine, OVERRUN, always=True)
    assert list(domain.start_ns) == reference.run()


def test_late_job_beside_reservations_moves_none():
    """The third job is late on a node that no job needs. A new plan in queue order would
    start the fourth job before the fifth, which has a reservation at 8."""
    jobs = [(0, 5, 2, 20), (0, 8, 3, 8), (0, 20, 1, 6)]
    jobs += [(1, 10, 5, 10), (2, 11, 4, 11), (7, 1, 1, 1)]
    domain, scheduler = simulated(jobs, 6, POLICIES["conservative"])
    assert list(domain.start_ns) == [0, 0, 0, 19, 8, 7]
    assert list(domain.start_ns) == ConservativeReference(jobs, 6, OVERRUN).run()
    assert scheduler.planner.counts.overruns == 2
    assert scheduler.planner.counts.plans_made_again == 0
