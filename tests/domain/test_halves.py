"""Jobs on the two halves of one node: disjoint CPUs, and no turns."""

import json
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.node.division import format_cpus
from tests.domain.user import User

BIN = Path(sys.executable).parent
WITHIN_S = 60.0
CPUS = os.sched_getaffinity(0)
#: A job that prints the CPUs of its tasks, also of a child, and stays.
SHOW = ("sh", "-c", "grep Cpus_allowed_list /proc/self/status; exec sleep 100")
#: The program of a job that lasts until it is ended.
ENDLESS = ("-g", "16", "-i", "1000000")
HALVES = SymbiosisSettings(parts=2)

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="a node of one CPU has no halves")


@pytest.fixture
def user(make_rig):
    rig = make_rig(1, slots=2 * len(CPUS), symbiosis=HALVES)
    rig.start()
    rig.until_up()
    return User(rig)


def cpus_of(user, number):
    """Returns the CPUs of each task of a job, once all have printed them."""
    path = user.rig.work / f"cosched-{number}.out"

    def printed():
        text = path.read_text() if path.exists() else ""
        return re.findall(r"Cpus_allowed_list:\s*(\S+)\n", text)

    return user.rig.until(printed, f"job {number} prints no CPUs")


def test_two_jobs_run_on_the_halves_of_a_node(user):
    rig = user.rig
    first = user.submit("--limited-by", "memory", "-n", "1", *SHOW)
    second = user.submit("--limited-by", "cpu,network", "-n", "1", *SHOW)
    for number in (first, second):
        rig.until_state(number, "running")
    ordered = sorted(CPUS)
    halves = [
        format_cpus(ordered[: len(ordered) // 2]),
        format_cpus(ordered[len(ordered) // 2 :]),
    ]
    assert [*cpus_of(user, first), *cpus_of(user, second)] == halves
    alone = user.submit("-n", "1", *SHOW)
    third = user.submit("--limited-by", "io", "--time", "60", "true")
    lines = user.run("queue")[1].splitlines()
    assert lines[1].endswith(" beside 2: top n1")
    assert lines[2].endswith(" beside 1: bottom n1")
    why = user.run("why", str(third))[1]
    assert "halves of 0 nodes free, needs 1, or 1 whole node, 0 free" in why
    rig.kill("controller")
    rig.start("controller")
    rig.until_up()
    user.run("cancel", str(first))
    assert rig.wait(third)["state"] == "done"
    found = {job["job"]: job for job in json.loads(user.run("queue", "--json")[1])["jobs"]}
    assert found[second]["halves"] == ["bottom"]
    assert found[alone]["state"] == "queued"
    user.run("cancel", str(second))
    rig.until_state(alone, "running")
    assert cpus_of(user, alone) == [format_cpus(CPUS)]
    user.run("cancel", str(alone))
    rig.wait(alone)


def test_job_that_is_large_for_its_domain_has_whole_nodes(make_rig):
    rig = make_rig(2, slots=2 * len(CPUS), symbiosis=HALVES)
    rig.start()
    rig.until_up()
    user = User(rig)

    def run(*jobs):
        """Returns the halves of jobs that each fill a node, once all run; ends them."""
        numbers = [user.submit("--limited-by", "cpu", *words) for words in jobs]
        for number in numbers:
            rig.until_state(number, "running")
        listed = json.loads(user.run("queue", "--json")[1])["jobs"]
        why = user.run("why", str(numbers[0]))[1]
        for number in numbers:
            user.run("cancel", str(number))
            rig.wait(number)
        found = {job["job"]: (job["halves"], len(job["hosts"])) for job in listed}
        return [found[number] for number in numbers], why

    fills = ("-n", str(2 * len(CPUS)), "sleep", "100")
    found, why = run(fills, fills)
    assert found == [([], 1), ([], 1)]
    assert "takes whole nodes: it is larger than 1/16 of the nodes" in " ".join(why.split())
    sharing = replace(HALVES, share_up_to=1.0)
    rig.write_config(replace(rig.config, symbiosis=sharing))
    assert user.run("cluster", "reload")[1] == "changed: symbiosis.share_up_to\n"
    found, why = run(fills, fills)
    assert found == [(["top", "top"], 2), (["bottom", "bottom"], 2)]
    assert "whole nodes" not in why


def test_node_that_cannot_be_divided_ends_with_one_line(make_rig):
    rig = make_rig(1, slots=1, symbiosis=HALVES)
    rig.start("controller")
    agent = rig.launch("n1")
    assert agent.wait(timeout=WITHIN_S) != 0
    assert (
        rig.log("n1")
        .strip()
        .splitlines()[-1]
        .endswith(
            "too few slots (1) for 2 parts; raise slots in domain.toml, or write parts = 1 "
            "into [symbiosis]"
        )
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")
def test_daemon_of_a_node_lets_jobs_on_its_halves_run_all_the_time(lab_command):
    cosched = lab_command
    cosched("lab", "up", "--nodes", "1", "--cores-per-node", "2")
    try:
        cosched("cluster", "up", "--lab", "--parts", "2")
        for limit in ("memory", "cpu"):
            cosched("submit", "--limited-by", limit, "-n", "1", "./app", *ENDLESS)
        deadline, jobs = time.monotonic() + WITHIN_S, []
        # A job is in the status from its launcher on, before it has tasks and CPUs.
        while len(jobs) < 2 or not all(job["cpus"] and job["scheduled"] for job in jobs):
            assert time.monotonic() < deadline, f"both jobs never ran at once: {jobs}"
            (node,) = json.loads(cosched("status", "--json"))["nodes"]
            jobs = node["jobs"]
        first, second = (set(job["cpus"]) for job in jobs)
        assert first.isdisjoint(second)
        cosched("cluster", "down", "--end-jobs")
    finally:
        cosched("lab", "down")
