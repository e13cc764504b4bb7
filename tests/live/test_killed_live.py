"""Killed tasks of waiting jobs end beside a job that computes all the time."""

from __future__ import annotations

import os
import select
import signal

import pytest

from tests.live.conftest import eventually

pytestmark = pytest.mark.live

#: In their classes these tasks would take three times as long to end: each needs some 15 ms
#: of a CPU, of which they have a thousandth each.
WITHIN_S = 15.0


def test_killed_tasks_of_waiting_jobs_end_soon(node):
    node.up(slice="100s")
    if node.status()["class_scheduler"]["name"] == "dutycycle":
        pytest.skip("no cgroup with the cpu controller may be written here")
    tasks = [node.task(job) for job in "abcd"]
    for task in tasks:
        task.tell("spin 1000")
    assert node.job("a")["scheduled"]
    waiting = tasks[1:]
    ended = [os.pidfd_open(task.pid) for task in waiting]
    for task in waiting:
        os.kill(task.pid, signal.SIGKILL)
    for pidfd in ended:
        assert select.select([pidfd], [], [], WITHIN_S)[0]
        os.close(pidfd)
    eventually(lambda: len(node.status()["jobs"]) == 1, "the end of the killed jobs")
    assert node.job("a")["scheduled"]
