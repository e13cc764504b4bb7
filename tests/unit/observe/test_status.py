"""Checks the text of cosched status, and the error for a node without daemons."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.observe.status import no_daemons, nodes_of_job, render
from cosched.rundir.paths import default_run_dir
from tests.unit.observe.top_samples import job, status, task


def test_no_daemons_asks_user_for_compute_node():
    error = str(no_daemons(default_run_dir({}, 1000), 1000))
    assert error.endswith(
        "those of cosched-run end with its last job, and those of 'cosched up' stay; is "
        "this a compute node?"
    )
    assert "/run/cosched" in error
    assert str(default_run_dir({}, 1000)) in error


@pytest.mark.parametrize(
    ("run_dir", "euid", "where"),
    [
        (default_run_dir({}, 0), 0, ""),
        (Path("/tmp/lab"), 1000, " --run-dir /tmp/lab"),
    ],
)
def test_no_daemons_names_cosched_up_elsewhere(run_dir, euid, where):
    expected = f"no daemons are up in {run_dir}; start them: cosched up{where}"
    assert str(no_daemons(run_dir, euid)) == expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [("slover", "did you mean 'solver'?"), ("ring", "see: cosched status")],
)
def test_wrong_name_of_a_job_is_one_line_with_what_to_do(name, hint):
    statuses = [status("n1", [job("solver", [task(1)])]), status("n2", [])]
    assert [each["node"] for each in nodes_of_job(statuses, "solver")] == ["n1"]
    with pytest.raises(CoschedError) as raised:
        nodes_of_job(statuses, name)
    assert str(raised.value) == f"no job '{name}' on n1, n2; {hint}"


def test_render_shows_jobs_in_columns_with_refusals():
    jobs = [
        job("solver", [task(1), task(2)], state="on", scheduled_s=12.34),
        job("x" * 90, [task(3)], state="raised", refused={"gmet": 3, "stale": 0}),
    ]
    jobs[1]["share_percent"] = None
    lines = render([status("n1", jobs)]).splitlines()
    assert lines[0] == "n1: slice 2s (aligned), gmet 100ms, cgroup1 proportional"
    assert lines[2].split() == [
        *("job", "tasks", "state", "share"),
        *("scheduled", "switches", "granted"),
    ]
    assert lines[3].split() == ["solver", "2", "on", "99%", "12.3s", "0", "0"]
    assert lines[4] == "    class: moved, /sys/fs/cgroup/cpu/cosched-n/7.solver"
    assert lines[5].split()[1:4] == ["1", "boosted", "-"]
    assert lines[-1] == "    refused: gmet 3"
    assert max(map(len, lines)) <= 80


def test_long_name_of_a_node_is_no_line_over_80_columns():
    name = "node-0001.compute.cluster.example.org"
    node = status(name, [job("a", [task(1)], state="on")])
    node["priority"] = "SCHED_FIFO 1 with the memory locked in"
    lines = render([node]).splitlines()
    assert lines[0].startswith(f"{name}: slice 2s")
    assert max(map(len, lines)) <= 80


def test_render_names_way_of_each_class():
    jobs = [job(name, [task(pid)], state="on") for pid, name in enumerate("abc", start=1)]
    groups = ["/sys/fs/cgroup/s/job_1", "/sys/fs/cgroup/s/job_2"]
    place = {"groups": groups, "reason": None, "bounded": "job c is elsewhere"}
    jobs[0]["class"] = {"ways": ["in place"], **place}
    jobs[1]["class"] = {
        "ways": ["duty cycle"],
        "groups": [],
        "reason": "/ is no job's group; not moved: move = never in [limits]",
        "bounded": None,
    }
    jobs[2]["class"] = {"ways": [], "groups": [], "reason": None, "bounded": None}
    lines = render([status("n1", jobs)]).splitlines()[3:]
    texts = [line.strip() for line in lines if line.startswith("    ")]
    assert texts == [
        "class: in place, /sys/fs/cgroup/s/job_1 and 1 more",
        "a quota bounds it while it waits, since job c is elsewhere",
        "class: duty cycle",
        "since / is no job's group; not moved: move = never in [limits]",
        "class: none: its tasks run at the kernel's shares",
    ]


def test_render_without_jobs_shows_warnings_and_waiting_jobs():
    waiting = [{"reason": "big waits for 8.0 GiB", "waited_s": 75.0}]
    node = status("n1", [], waiting=waiting)
    node["settings"]["warnings"] = ["gmet is not below slice"]
    assert render([node]).splitlines()[2:] == [
        "  warning: gmet is not below slice",
        "  big waits for 8.0 GiB (since 1m15s)",
        "  no jobs",
    ]
