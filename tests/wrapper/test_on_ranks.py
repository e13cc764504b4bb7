"""Runs tests/wrapper/ranks under each MPI, with each carrier, with and without a daemon."""

from __future__ import annotations

import re

import pytest

from cosched.shm._native import lib
from tests.fakes import FakeNode, fake_nodes
from tests.wrapper.per_rank import NODES

pytestmark = pytest.mark.mpi_job

PYTEST = (
    *("-m", "pytest", "--with-mpi", "--color=no", "-q", "-p", "no:cacheprovider", "-x"),
    # A hang shows where.
    *("-o", "faulthandler_timeout=40"),
    # The ranks need neither other plugins nor tests/conftest.py. These take as long to
    # import as the rest.
    *("-p", "pytest_mpi", "--confcutdir=tests/wrapper/ranks"),
)
RANKS = "tests/wrapper/ranks"


def check(site, ranks, *tests, environ):
    """Runs tests on some ranks. At least one passes, and none fails."""
    environ = {**environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = site.run(ranks, *PYTEST, *tests, environ=environ)
    report = f"{result.stdout[-6000:]}\n{result.stderr[-6000:]}"
    assert result.returncode == 0, report
    assert "failed" not in result.stdout, report
    assert re.search(r"\d+ passed", result.stdout), report


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.one_mpi)])
def test_ranks_on_two_nodes_with_prefix(site, run_dir, job_environ, ranks):
    """Half of the tasks are scheduled and half are not. No message is lost."""
    environ = {**job_environ, NODES: "a,b"}
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        check(site, ranks, RANKS, environ=environ)
        jobs = [node.jobs["wrapped"] for node in (a, b)]
        counters = [job.counters(task.rank) for job in jobs for task in job.tasks]
        assert len(counters) == ranks
        for job in jobs:
            assert job.codes().count(lib.COSCHED_CMDOUT) == ranks // 2
    for counter in counters:
        assert counter["sent"] > 100
        # Two tests send without a status byte on purpose.
        assert counter["foreign"] == 2
        assert counter["waits"] > 0
    assert all(counter["trapped"] == 0 for counter in counters[: ranks // 2])
    assert all(counter["posted"] == 1 for counter in counters[ranks // 2 :])
    assert all(counter["pauses"] > 0 for counter in counters[ranks // 2 :])


@pytest.mark.parametrize(
    ("ranks", "collectives"),
    [(2, "nonblocking"), pytest.param(4, "blocking", marks=pytest.mark.one_mpi)],
)
def test_ranks_on_two_nodes_with_shadow(site, run_dir, job_environ, ranks, collectives):
    """COSCHED_STATUS=shadow: messages are not changed."""
    environ = {**job_environ, NODES: "a,b", "COSCHED_STATUS": "shadow"}
    environ["COSCHED_COLLECTIVES"] = collectives
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        check(site, ranks, RANKS, environ=environ)
        scheduled, unscheduled = (
            [
                node.jobs["wrapped"].counters(task.rank)
                for task in node.jobs["wrapped"].tasks
            ]
            for node in (a, b)
        )
        for job in (a.jobs["wrapped"], b.jobs["wrapped"]):
            assert job.codes().count(lib.COSCHED_CMDOUT) == ranks // 2
    for counters in (*scheduled, *unscheduled):
        assert counters["sent"] > 100
        assert counters["bytes_sent"] > 100_000
        assert counters["waited_ns"] > 0
        assert counters["foreign"] == 0
    for counters in scheduled:
        assert counters["told"] == counters["trapped"] == 0
    for counters in unscheduled:
        # Each peer once: no status changes.
        assert 0 < counters["told"] < ranks
        assert counters["received"] > 50
        assert counters["posted"] == 1
        assert counters["pauses"] > 0


@pytest.mark.one_mpi
def test_ranks_with_nonblocking_collectives(site, run_dir, job_environ):
    environ = {**job_environ, "COSCHED_COLLECTIVES": "nonblocking"}
    with fake_nodes(run_dir, "a", scheduled=False):
        check(site, 2, RANKS, environ=environ)


def test_ranks_without_carrier(site, run_dir, job_environ):
    """COSCHED_STATUS=none: no status travels, but waits still pause."""
    environ = {**job_environ, "COSCHED_STATUS": "none"}
    with fake_nodes(run_dir, "a", scheduled=False) as (node,):
        check(site, 2, RANKS, environ=environ)
        for task in node.jobs["wrapped"].tasks:
            counters = node.jobs["wrapped"].counters(task.rank)
            assert task.carrier == lib.COSCHED_CARRIER_NONE
            assert counters["sent"] == counters["received"] == counters["posted"] == 0
            assert counters["pauses"] > 0


@pytest.mark.one_mpi
def test_ranks_without_daemon(site, job_environ):
    """Messages are the same, and MPI waits."""
    some = (f"{RANKS}/test_objects.py", f"{RANKS}/test_requests.py")
    check(site, 2, *some, environ=job_environ)
