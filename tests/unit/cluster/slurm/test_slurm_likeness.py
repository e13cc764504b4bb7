"""The options of sbatch for a job like one that squeue shows."""

from __future__ import annotations

import pytest

from cosched.cluster.engines.slurm.jobs import SlurmJob, read_jobs
from cosched.cluster.engines.slurm.try_options import (
    can_be_described,
    options,
    waits_for_nodes,
)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"partition": "main", "node_count": 2}, ["--partition=main", "--nodes=2"]),
        ({"tasks": 8, "time_limit": 5}, ["--ntasks=8", "--time=5"]),
        ({"tasks_per_node": 4}, ["--ntasks-per-node=4"]),
        ({"cpus_per_task": 6, "tasks": 2}, ["--cpus-per-task=6"]),
        ({"cpus": 12, "tasks": 2}, ["--cpus-per-task=6"]),
        ({"memory_per_node": 2048}, ["--mem=2048M"]),
        ({"memory_per_cpu": 512}, ["--mem-per-cpu=512M"]),
        ({"shared": "none"}, ["--exclusive"]),
        ({"shared": ["user"]}, ["--exclusive=user"]),
        ({"shared": "shared"}, ["--oversubscribe"]),
        ({"shared": ["oversubscribe"]}, ["--oversubscribe"]),
        ({"tres_per_node": "gres:gpu:2", "licenses": "x:1"}, ["--gres=gpu:2"]),
        ({"tres_per_node": "gres/gpu:2,gres/x:1"}, ["--gres=gpu:2,x:1"]),
    ],
)
def test_what_the_job_needs_is_an_option(fields, words):
    assert set(words) <= set(options(SlurmJob(7, **fields)))


def test_what_the_job_does_not_need_is_none():
    text = (
        b'{"jobs": [{"job_id": 7, "shared": null, "tasks": 1, "cpus": 1, "account": null,'
        b'"memory_per_node": null, "cpus_per_task": null, "tasks_per_node": 0}]}'
    )
    (job,) = read_jobs(text)
    assert options(job) == ["--nodes=1", "--ntasks=1"]


@pytest.mark.parametrize("reason", ["Dependency", "BeginTime", "QOSMaxJobsLimit", "", None])
def test_job_that_waits_for_something_else_has_no_likeness(reason):
    assert not waits_for_nodes(SlurmJob(7, state_reason=reason))
    assert waits_for_nodes(SlurmJob(7, state_reason="Resources"))
    assert waits_for_nodes(SlurmJob(7, state_reason="Priority"))


def test_devices_of_the_job_as_a_whole_cannot_be_described():
    assert not can_be_described(SlurmJob(7, tres_per_job="gres:gpu:4"))
    assert can_be_described(SlurmJob(7, tres_per_task="cpu=4", tres_per_node="gres:gpu:1"))
