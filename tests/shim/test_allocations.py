"""Small blocking messages allocate no memory, with each carrier."""

from __future__ import annotations

import subprocess

import pytest

from tests.fakes import fake_nodes
from tests.shim.jobs import CROWDED, PROGRAMS, launch_on_nodes, outcome

pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]

MESSAGES = "10000"


@pytest.fixture(scope="session")
def counting(tmp_path_factory):
    library = tmp_path_factory.mktemp("counting") / "libcounting.so"
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-shared", "-fPIC")
    subprocess.run(["gcc", *flags, PROGRAMS / "counting.c", "-o", library], check=True)
    return library


def contend(job):
    """Marks the CPUs as wanted by another job."""
    job.region.publish_contention(True)


def counts(lines):
    """Returns the ranks' allocations, by kind of message."""
    words = [line.split(": ") for line in lines]
    return {what: [int(w[2]) for w in words if w[1] == what] for _, what, _ in words}


@pytest.mark.parametrize("daemons", ["none", "contended"])
@pytest.mark.parametrize("carrier", ["prefix", "shadow"])
def test_small_message_allocates_no_memory(
    mpi, build, shim_for, counting, run_dir, job_environ, carrier, daemons
):
    environ = {**job_environ, **CROWDED, "COSCHED_STATUS": carrier}
    environ["SHIM"] = f"{counting} {shim_for(mpi.mpicc)}"
    nodes = () if daemons == "none" else ("a", "b")
    with fake_nodes(run_dir, *nodes, prepare=contend) as fakes:
        found = counts(outcome(launch_on_nodes(mpi, 2, build("small"), MESSAGES), environ))
        tasks = [task for node in fakes for task in node.jobs["wrapped"].tasks]
    assert len(tasks) == len(nodes)
    assert found["8 bytes"] == found["1024 bytes"] == [0, 0]
    assert min(found["others"]) > 0  # it is the interposer's calls that are counted
