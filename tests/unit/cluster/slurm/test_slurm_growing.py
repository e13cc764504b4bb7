"""A domain in Slurm gives nodes back that it cannot use, and asks for others."""

import pytest

from cosched.cluster.slurm.growing import Growing
from cosched.cluster.slurm.node_jobs import NodeJob
from cosched.core.cluster.growth import LEAST_OUT_NS, Bounds
from cosched.core.errors import CoschedError


class Site:
    """Stands for Slurm and for the domain's controller."""

    def __init__(self):
        self.jobs = [NodeJob(7, "far")]
        self.states = {"own": "up", "far": "up"}
        self.asked, self.cancelled, self.removed, self.refuses = 0, [], [], False

    def listed(self):
        return self.jobs

    def ask(self, _without):
        self.asked += 1

    def cancel(self, numbers):
        self.cancelled += numbers

    def nodes(self):
        return [
            {"node": name, "state": state, "reason": "", "slots": 1, "jobs": []}
            for name, state in self.states.items()
        ]

    def queue(self):
        return [{"nodes": 2, "state": "queued"}]

    def remove(self, names, *, now=False):
        if self.refuses:
            raise CoschedError("the controller asks its nodes; try again")
        self.removed += [(name, now) for name in names]
        for name in names:
            del self.states[name]


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def growing(site):
    return Growing(Bounds(1, 2, 0), ["own"], 1, site, lambda _line: None)


@pytest.mark.parametrize("state", ["lost", "drained", "down"])
def test_node_out_of_service_is_given_back_and_replaced(site, growing, state):
    site.states["far"] = state
    growing.step(site, 0)
    growing.step(site, LEAST_OUT_NS - 1)
    assert (site.removed, site.asked) == ([], 0)
    growing.step(site, LEAST_OUT_NS)
    assert (site.removed, site.cancelled, site.asked) == ([("far", False)], [7], 0)
    growing.step(site, LEAST_OUT_NS + 1)
    assert site.asked == 1


def test_node_that_comes_back_in_time_stays(site, growing):
    site.states["far"] = "lost"
    growing.step(site, 0)
    site.states["far"] = "up"
    growing.step(site, LEAST_OUT_NS - 1)
    site.states["far"] = "lost"
    growing.step(site, LEAST_OUT_NS)
    assert (site.removed, site.asked) == ([], 0)


def test_lost_node_is_removed_at_the_next_step_if_the_controller_refuses_it(site, growing):
    growing.step(site, 0)
    site.jobs, site.refuses = [], True
    with pytest.raises(CoschedError):
        growing.step(site, 1)
    site.refuses = False
    growing.step(site, 2)
    assert site.removed == [("far", True)]
