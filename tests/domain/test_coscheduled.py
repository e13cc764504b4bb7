"""Tests that the daemons of the nodes coschedule the jobs that the queue put together."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
WITHIN_S = 60.0

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


@pytest.fixture
def cosched(lab_command, lab_size):
    """Returns a function that runs a command of cosched in a lab whose domain lets two jobs
    share a node."""
    run = lab_command
    run("lab", "up", *lab_size.words)
    try:
        run("cluster", "up", "--lab", "--jobs-per-node", "2")
        yield run
        run("cluster", "down", "--end-jobs")
    finally:
        run("lab", "down")


def scheduled_jobs(cosched):
    """Returns the names of the jobs on each node, by the node's daemon."""
    status = json.loads(cosched("status", "--json"))
    return [{job["name"] for job in node["jobs"]} for node in status["nodes"]]


def submit(cosched, nodes):
    """Sends a job that runs until it is cancelled; returns its number."""
    words = ("submit", "--nodes", str(nodes), "--ppn", "1", "--json")
    return json.loads(cosched(*words, "./app", "--preset", "long"))["job"]


def test_two_jobs_of_the_queue_share_all_nodes_by_turns(cosched, lab_size):
    numbers = [submit(cosched, lab_size.nodes) for _ in range(3)]
    deadline = time.monotonic() + WITHIN_S
    both = []
    while time.monotonic() < deadline and not both:
        jobs = scheduled_jobs(cosched)
        if len(jobs) == lab_size.nodes and all(len(names) == 2 for names in jobs):
            both = jobs
    assert both, "the daemons never had two jobs on each node"
    assert all(names == both[0] for names in both)
    queue = json.loads(cosched("queue", "--json"))["jobs"]
    states = {job["job"]: job["state"] for job in queue}
    assert states[numbers[2]] == "queued"  # the nodes take two jobs
    for number in numbers:
        cosched("cancel", str(number))
