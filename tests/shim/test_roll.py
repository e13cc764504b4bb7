"""Rank 0 reports the nodes of its job that are not coscheduled, in one line."""

from __future__ import annotations

import threading

import pytest

from cosched.shm._native import lib
from tests.fakes import FakeNode
from tests.shim.jobs import CROWDED, launch_on_nodes, run_job

pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]


@pytest.fixture
def environ(mpi, shim_for, job_environ):
    shim = str(shim_for(mpi.mpicc))
    return {**job_environ, **CROWDED, "SHIM": shim, "COSCHED_STATUS": "shadow"}


def lines(run):
    return [line for line in run.stderr.splitlines() if line.startswith("cosched:")]


@pytest.mark.one_mpi
@pytest.mark.parametrize(
    ("others", "text"),
    [
        (None, "coscheduled on 1 of 2 nodes; no daemon on b"),
        (
            {"abi": lib.COSCHED_ABI + 1},
            "coscheduled on 1 of 2 nodes; a daemon of another version on b",
        ),
        ({"refuse": 1}, "coscheduled on 1 of 2 nodes; refused by the daemon on b"),
        ({}, None),
    ],
)
def test_node_that_is_absent_at_the_start_is_named(
    mpi, build, environ, run_dir, others, text
):
    with FakeNode(run_dir, "a"):
        if others is None:
            run = run_job(launch_on_nodes(mpi, 4, build("life")), environ)
        else:
            with FakeNode(run_dir, "b", **others):
                run = run_job(launch_on_nodes(mpi, 4, build("life")), environ)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 4
    assert lines(run) == ([] if text is None else [f"cosched: {text}"])


@pytest.mark.one_mpi
def test_refusal_of_rank_0_has_its_reason(mpi, build, environ, run_dir):
    with FakeNode(run_dir, "a", refuse=1), FakeNode(run_dir, "b"):
        run = run_job(launch_on_nodes(mpi, 4, build("life")), environ)
    assert lines(run) == [
        "cosched: coscheduled on 1 of 2 nodes; refused by the daemon on a "
        "(refused by a fake)"
    ]


def test_node_whose_daemon_ends_is_named_at_the_end(mpi, build, environ, run_dir):
    """The daemon of b is dead from the first message on."""
    reached = threading.Event()

    def die(_, request):
        b.beating = False
        reached.set()

    with (
        FakeNode(run_dir, "a"),
        FakeNode(run_dir, "b", scheduled=False, on_request=die) as b,
    ):
        run = run_job(launch_on_nodes(mpi, 2, build("meet"), "recv", "20"), environ)
    assert reached.is_set()
    assert (run.returncode, run.stdout) == (0, "met\n"), run.stderr
    assert lines(run) == [
        "cosched: coscheduled on 1 of 2 nodes to the end; the daemon ended on b"
    ]


@pytest.mark.parametrize("carrier", ["shadow", "none"])
def test_job_that_needs_all_nodes_ends(mpi, build, environ, run_dir, carrier):
    environ |= {"COSCHED_REQUIRE": "all", "COSCHED_STATUS": carrier}
    with FakeNode(run_dir, "a"):
        run = run_job(launch_on_nodes(mpi, 2, build("life")), environ)
    assert run.returncode != 0
    assert "all around" not in run.stdout
    found = lines(run)
    assert "needs a daemon on each of its nodes (COSCHED_REQUIRE=all)" in found[-1]
    if carrier == "shadow":
        assert found[0] == "cosched: coscheduled on 1 of 2 nodes; no daemon on b"
        assert len(found) == 2


@pytest.mark.one_mpi
def test_job_that_needs_all_nodes_runs_where_it_has_them(mpi, build, environ, run_dir):
    environ |= {"COSCHED_REQUIRE": "all"}
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b"):
        run = run_job(launch_on_nodes(mpi, 2, build("life")), environ)
    assert run.returncode == 0, run.stderr
    assert lines(run) == []


@pytest.mark.one_mpi
def test_job_that_needs_no_node_reports_none(mpi, build, environ):
    environ |= {"COSCHED_REQUIRE": "none"}
    run = run_job(launch_on_nodes(mpi, 2, build("life")), environ)
    assert run.returncode == 0, run.stderr
    assert lines(run) == []
