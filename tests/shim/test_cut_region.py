"""A job goes on if its region is truncated under it: the task lets go of it."""

from __future__ import annotations

import os

import pytest

from cosched.shm.region import survive_torn_regions
from tests.fakes import FakeNode
from tests.shim.jobs import CROWDED, launch_on_nodes, run_job

pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]

CUT_ON_B = (
    "cosched: coscheduled on 1 of 2 nodes to the end; the job's shared memory was cut on b"
)


@pytest.fixture(autouse=True)
def guarded():
    """The fake daemons read the region, too."""
    survive_torn_regions()


@pytest.mark.parametrize("carrier", ["shadow", "prefix"])
@pytest.mark.parametrize("mode", ["recv", "allreduce"])
def test_job_goes_on_after_its_region_is_cut(
    mpi, build, shim_for, job_environ, run_dir, carrier, mode
):
    shim = str(shim_for(mpi.mpicc))
    environ = {**job_environ, **CROWDED, "SHIM": shim, "COSCHED_STATUS": carrier}
    cut = []

    def cut_region(job, _):
        if not cut:
            os.ftruncate(job.region.fd, 0)
        cut.append(job.name)

    with (
        FakeNode(run_dir, "a"),
        FakeNode(run_dir, "b", scheduled=False, on_request=cut_region),
    ):
        run = run_job(launch_on_nodes(mpi, 2, build("meet"), mode, "20"), environ)
    assert (run.returncode, run.stdout) == (0, "met\n"), run.stderr
    lines = [line for line in run.stderr.splitlines() if line.startswith("cosched:")]
    if cut:  # the message was trapped
        assert lines == ([CUT_ON_B] if carrier == "shadow" else [])
    else:
        assert mode == "allreduce"
