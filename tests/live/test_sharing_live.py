"""Jobs that share a node: they are seen alone, and the last one gives way. No process stays
stopped when daemons die."""

from __future__ import annotations

import json
import os
import signal

import pytest

from cosched.node.sockets.client import request
from cosched.shm._native import lib
from tests.live.conftest import eventually
from tests.live.test_owners_live import cosched, stands_still

CPUS = sorted(os.sched_getaffinity(0))

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(len(CPUS) < 2, reason="jobs on disjoint CPUs need two"),
]


@pytest.fixture
def slowed(node, tmp_path):
    """Two jobs: the second slows the first to an eighth, which is seen although a busy
    machine wakes both late. Looks are frequent, so that many show it."""
    node.up(options={"looks": "10%"})
    shared = tmp_path / "times"
    shared.write_bytes(bytes(16))
    jobs = []
    for place, (name, slowdown) in enumerate((("first", 8.0), ("second", 1.0))):
        limits = lib.COSCHED_LIMITED_BY_MEMORY
        task = node.task(name, place, cpu=CPUS[place], limits=limits)
        task.tell(f"work {shared} {place} {slowdown}")
        jobs.append(task)
    return jobs


def sharing(node, name):
    jobs = {job["name"]: job for job in request(node.paths, "status")["jobs"]}
    return jobs[name]["sharing"]


def test_last_job_gives_way_to_the_one_that_it_slows(node, slowed):
    first, second = slowed
    eventually(lambda: sharing(node, "second")["gives_way_to"], "the second job gives way")
    (beside,) = sharing(node, "first")["beside"]
    assert beside["measure"] == "iterations"
    assert beside["trials"] >= 5
    assert beside["slowdown"] > 1.3
    assert sharing(node, "first")["gives_way_to"] is None
    eventually(lambda: sharing(node, "second")["gave_way_s"] > 1, "it rests")
    assert "its speed alone" in cosched(node, "why", "first")
    first.kill()
    eventually(lambda: not sharing(node, "second")["gives_way_to"], "it runs again")
    eventually(lambda: not stands_still(second), "its task goes on")
    second.kill()
    eventually(lambda: not request(node.paths, "status")["jobs"], "both have ended")
    shown = cosched(node, "history", "--format", "job,label,beside,rested,gaveway")
    assert "second 0." in next(line for line in shown.splitlines() if "first" in line)
    jobs = json.loads(cosched(node, "history", "--json"))["jobs"]
    kept = {job["name"]: job["sharing"] for job in jobs}
    assert kept["first"]["limited_by"] == ["memory"]
    assert kept["second"]["gave_way_s"] > 1


def test_guardian_continues_a_resting_job(node, slowed):
    _, second = slowed
    eventually(lambda: sharing(node, "second")["gives_way_to"], "the second job gives way")
    eventually(lambda: stands_still(second), "it rests")
    os.kill(request(node.paths, "status")["pid"], signal.SIGKILL)
    eventually(lambda: not stands_still(second), "the guardian continues it")


def test_job_without_a_label_is_left_alone(node):
    node.up()
    tasks = [node.task(name, place, cpu=CPUS[place]) for place, name in enumerate("ab")]
    for task in tasks:
        task.ask("spin 1.5")
    status = request(node.paths, "status")
    assert [job["sharing"] for job in status["jobs"]] == [None, None]
    assert "rest_began" not in status["counters"]
