"""The mpi4py wrapper reports the nodes that are not coscheduled as the interposer does,
also in a job of both forms."""

from __future__ import annotations

import os

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.shim import make_shim, plan_build
from tests.fakes import FakeNode
from tests.wrapper.per_rank import INTERPOSED, NODES

#: Longer than a heartbeat counts.
STALE_S = "1.5"

pytestmark = [pytest.mark.mpi_job, pytest.mark.one_mpi]

PROGRAM = """
import sys
from tests.wrapper.per_rank import choose_node, preload_interposer
choose_node(); preload_interposer()
from mpi_shim import MPI
began = MPI.Wtime()
while MPI.COMM_WORLD.bcast(MPI.Wtime() - began < float(sys.argv[1])):
    pass
sys.stdout.write("ran\\n")
"""


@pytest.fixture(params=["wrapper", "first", "second"])
def environ(request, site, job_environ):
    """Gives a job whose ranks have one form, or whose first or second rank has the C
    interposer."""
    base = {**job_environ, NODES: "a,b", "COSCHED_STATUS": "shadow"}
    if request.param == "wrapper":
        return base
    try:
        shim = make_shim(plan_build(site.mpiexec.parent / "mpicc", os.environ))
    except CoschedError as error:
        pytest.skip(str(error))
    return {**base, INTERPOSED: f"{('first', 'second').index(request.param)}:{shim}"}


def lines(done):
    return [line for line in done.stderr.splitlines() if line.startswith("cosched:")]


def test_absent_node_is_named(site, run_dir, environ):
    with FakeNode(run_dir, "a"):
        done = site.run(2, "-c", PROGRAM, "0", environ=environ)
    assert (done.returncode, done.stdout) == (0, "ran\nran\n"), done.stderr
    assert lines(done) == ["cosched: coscheduled on 1 of 2 nodes; no daemon on b"]


def test_node_that_ends_is_named(site, run_dir, environ):
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b"):
        a.beating = False
        done = site.run(2, "-c", PROGRAM, STALE_S, environ=environ)
    assert (done.returncode, done.stdout) == (0, "ran\nran\n"), done.stderr
    assert lines(done) == [
        "cosched: coscheduled on 1 of 2 nodes to the end; the daemon ended on a"
    ]


def test_job_that_needs_all_nodes_ends(site, run_dir, environ):
    with FakeNode(run_dir, "a"):
        done = site.run(
            2, "-c", PROGRAM, "0", environ={**environ, "COSCHED_REQUIRE": "all"}
        )
    assert done.returncode != 0
    assert "ran" not in done.stdout
    first, second = lines(done)
    assert first == "cosched: coscheduled on 1 of 2 nodes; no daemon on b"
    assert second.endswith("each of its nodes (COSCHED_REQUIRE=all)")


def test_job_that_needs_no_node_reports_none(site, environ):
    done = site.run(2, "-c", PROGRAM, "0", environ={**environ, "COSCHED_REQUIRE": "none"})
    assert (done.returncode, done.stdout, lines(done)) == (0, "ran\nran\n", [])
