"""The gang driver chooses the next job and the time of its next call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cosched.bench.run import gang
from cosched.bench.run.gang import RETRY_S, Gang
from cosched.bench.run.site import Site


class Nodes:
    """Daemons that give a turn to any job they know; ``now_s`` is the driver's clock."""

    def __init__(self, monkeypatch):
        self.known = {"n1": {"a", "b", "c"}, "n2": {"a", "b", "c"}}
        self.has = {}
        self.now_s = 100.0
        monkeypatch.setattr(gang, "request", self.request)
        monkeypatch.setattr(gang.time, "monotonic", lambda: self.now_s)

    def request(self, paths, operation, job):
        assert operation == "turn"
        uid, _, name = job.partition(".")
        assert uid == str(os.getuid())
        given = name in self.known[paths.node]
        if given:
            self.has[paths.node] = name
        return {"given": given}


@pytest.fixture
def nodes(monkeypatch):
    return Nodes(monkeypatch)


@pytest.fixture
def driver(nodes):
    return driver_of({})


def driver_of(hosts):
    """A driver of jobs that have both nodes unless ``hosts`` names others."""
    return Gang(driver_site(), 2.0, lambda job: hosts.get(job, ("n1", "n2")))


def test_all_nodes_switch_together_slice_by_slice(nodes, driver):
    seen = []
    for _ in range(5):
        nodes.now_s += driver.attend(("a", "b", "c"))
        assert nodes.has["n1"] == nodes.has["n2"]
        seen.append(nodes.has["n1"])
    assert seen == ["a", "b", "c", "a", "b"]
    assert nodes.now_s == 110.0


def test_no_switch_within_a_slice(nodes, driver):
    driver.attend(("a", "b"))
    nodes.has.clear()
    nodes.now_s += 0.5
    assert driver.attend(("a", "b")) == 1.5
    assert nodes.has == {}


def test_next_job_follows_an_ended_job_at_once(nodes, driver):
    driver.attend(("a", "b"))
    nodes.now_s += 0.5
    assert driver.attend(("b",)) == 2.0
    assert nodes.has == {"n1": "b", "n2": "b"}


def test_registering_job_is_tried_again(nodes, driver):
    nodes.known = {"n1": {"a", "b"}, "n2": {"b"}}
    assert driver.attend(("a", "b")) == pytest.approx(RETRY_S)
    nodes.now_s += RETRY_S
    nodes.known["n2"].add("a")
    assert driver.attend(("a", "b")) == 2.0
    assert nodes.has == {"n1": "a", "n2": "a"}, "its turn goes on"
    nodes.known = {"n1": set(), "n2": set()}
    assert driver_of({}).attend(("a",)) == RETRY_S
    assert driver_of({}).attend(()) is None


def test_jobs_on_different_nodes_share_a_turn(nodes):
    driver = driver_of({"b": ("n1",), "c": ("n2",)})
    seen = []
    for _ in range(4):
        assert driver.attend(("a", "b", "c")) == 2.0
        nodes.now_s += 2.0
        seen.append(dict(nodes.has))
    whole, halves = {"n1": "a", "n2": "a"}, {"n1": "b", "n2": "c"}
    assert seen == [whole, halves, whole, halves]


def test_nodes_of_an_ended_job_go_to_another_job_until_the_slice_ends(nodes):
    driver = driver_of({"a": ("n1",), "b": ("n1",), "c": ("n2",)})
    driver.attend(("b", "c", "a"))
    nodes.now_s += 0.5
    assert driver.attend(("c", "a")) == 1.5
    assert nodes.has == {"n1": "a", "n2": "c"}


def test_this_machine_is_switched_by_its_own_name(nodes, monkeypatch):
    monkeypatch.delenv("COSCHED_NODE", raising=False)
    nodes.known = {os.uname().nodename: {"a"}}
    site = Site(Path("/run/x"), ("localhost",), None, lab=False)
    assert Gang(site, 2.0, lambda _job: site.hosts).attend(("a",)) == 2.0


def driver_site():
    return Site(Path("/run/x"), ("n1", "n2"), None, lab=False)
