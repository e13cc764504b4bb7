"""The library for C: arrays survive changes, a failed change leaves the job as it was, and
misuse is one line and an error."""

import re
import time
from pathlib import Path

import pytest

from benchmarks.mpi import build_malleable
from cosched.core.cluster.resizing.agreement import ReportDone, ReportRefused

SOURCE = Path(__file__).with_name("arrays.c")
MEMORY = Path(__file__).with_name("memory.c")
SAME = (0, "arrays are as they were\n")

pytestmark = pytest.mark.mpi_job


@pytest.fixture
def arrays(mpi):
    return build_malleable(SOURCE, mpi / "mpicc")


@pytest.fixture
def begin(agents, mpi, arrays):
    """Returns a function that starts the program on some nodes; returns the agents."""

    def start(count, *nodes):
        played = agents(count, seed=3)
        played.start(mpi, nodes, arrays, played.folder / "stop")
        return played

    return start


def end(played):
    (played.folder / "stop").touch()
    return played.finish()


def test_arrays_survive_changes(begin):
    played = begin(5, 0, 1, 1)
    assert isinstance(played.resize([1], [2, 3]), ReportDone)  # a part of a world leaves
    assert isinstance(played.resize([2, 3]), ReportDone)  # a whole world leaves
    assert isinstance(played.resize([], [1, 4, 4]), ReportDone)
    assert isinstance(played.resize([0, 1, 4], [2]), ReportDone)  # all migrate
    result = played.results[-1]
    assert (result.ranks, result.refused) == (1, "")
    assert result.moved_bytes > 3 * (9 << 20)
    assert result.times.spawn_ns > 0 < result.times.move_ns
    assert end(played) == SAME


def test_rank_that_keeps_its_first_row_needs_no_second_block(agents, mpi):
    """A second block would be 48 MiB; the rest is what MPI allocates for messages."""
    played = agents(2)
    program = build_malleable(MEMORY, mpi / "mpicc")
    played.start(mpi, [0], program, played.folder / "stop")
    assert isinstance(played.resize([], [1]), ReportDone)
    assert isinstance(played.resize([1]), ReportDone)
    status, output = end(played)
    assert status == 0, output
    extras = [int(found) for found in re.findall(r"extra (-?\d+) MiB", output)]
    assert len(extras) == 2
    assert max(extras) < 32, extras


@pytest.mark.one_mpi
def test_impossible_change_leaves_the_job_as_it_was(begin):
    played = begin(2, 0)
    refused = ReportRefused(1, "no rank of the job would stay")
    assert played.resize([0]) == refused
    assert isinstance(played.resize([], [1]), ReportDone)
    assert end(played) == SAME


def test_job_goes_on_after_a_rank_that_cannot_join(begin):
    """One of two new ranks has no page. Node 1 leaves, so a rank is in its last change."""
    played = begin(4, 0, 1)
    page = played.folder / "page-2"
    page.rename(played.folder / "away")
    report = played.resize([1], [2, 3])
    assert report == ReportRefused(1, f"page {page}: No such file or directory")
    (played.folder / "away").rename(page)
    assert isinstance(played.resize([1], [2, 3]), ReportDone)
    assert end(played) == SAME


def test_job_goes_on_after_a_spawn_that_failed(begin, mpi):
    if not (mpi / "ompi_info").exists():
        pytest.skip("the mpiexec of MPICH ends the job for a host that does not exist")
    played = begin(3, 0)
    played.hosts[1] = "no-such-host.invalid"
    assert played.resize([], [1]).reason.startswith("MPI_ERR_")
    assert isinstance(played.resize([], [2]), ReportDone)
    assert SAME[1] in end(played)[1]  # prterun has a status of its own after a failed spawn


@pytest.mark.one_mpi
def test_page_of_another_version_leaves_the_size_fixed(begin, agents, mpi, arrays):
    played = agents(1)
    played.pages[0].data.header.version += 1
    (played.folder / "stop").touch()
    played.start(mpi, [0], arrays, played.folder / "stop")
    status, output = played.finish()
    assert status == 0
    line = (
        f"page {played.folder}/page-0: made by another version of cosched; use that of the "
        "node's agent (cosched --version)"
    )
    assert output == f"cosched: the job keeps its size: {line}\n{SAME[1]}"


MISUSES = {
    "zero": "cosched_job_begin: minimum 0: is not a number of nodes from 1 to 1048576",
    "minimum-above-ideal": "cosched_job_begin: minimum 4 is more than ideal 2",
    "before-init": "cosched_job_begin: MPI is not initialized: call MPI_Init before",
    "after-finalize": "cosched_job_begin: MPI has been finalized: begin the job before"
    " that",
    "negative-rows": "cosched_job_scatter: an array has 0 rows or more, of 0 bytes or more",
    "late-scatter": "cosched_job_scatter: call it before the loop: ranks that join need it",
    "no-value": "cosched_job_bcast: there is no value",
    "ask-none": "cosched_job_ask: 0 is not a number of nodes from 1 to 1048576",
    "disagree-in-row": "cosched_job_redistribute: array 0: a row has 9 bytes in rank 1,"
    " but 8 in rank 0",
    "disagree-in-number": "cosched_job_redistribute: 1 arrays in a rank, but 2 in another"
    " one",
    "no-data": "cosched_job_redistribute: array 0: the block of rank 1 is not valid",
    "too-many-rows": "cosched_job_redistribute: array 0: all ranks together have too many"
    " rows",
}


@pytest.mark.one_mpi
def test_second_job_of_a_program_is_one_line_and_the_first_goes_on(rigid, arrays):
    done = rigid(2, arrays, "misuse", "twice")
    assert done.stderr == (
        "cosched: cosched_job_begin: this program has begun its job already: use that one\n"
    )
    assert done.returncode == 0


@pytest.mark.one_mpi
@pytest.mark.parametrize("how", MISUSES)
def test_misuse_is_one_line(rigid, arrays, how):
    done = rigid(2, arrays, "misuse", how)
    line = f"cosched: {MISUSES[how]}\n"
    # Before MPI_Init and after its end a rank does not have its number.
    lines = (1, 2) if how in ("before-init", "after-finalize") else (1,)
    assert done.stderr.count(line) in lines, done.stderr
    assert "cosched" not in done.stderr.replace(line, "")
    assert done.returncode == 3


@pytest.mark.one_mpi
def test_job_without_agents_has_a_fixed_size(rigid, arrays):
    done = rigid(2, arrays, "misuse", "nothing")
    assert done.stdout == "iterations of 1 ms: 1, waits: 0\n" * 2, done.stderr
    assert done.returncode == 0


@pytest.mark.one_mpi
def test_ranks_learn_the_time_of_iterations_and_ask_for_nodes(begin):
    played = begin(1, 0)
    deadline = time.monotonic() + 60
    while played.pages[0].look().largest < 5:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert played.pages[0].paces()[0].steps >= 4
    assert played.pages[0].wants().minimum == 1
    assert end(played) == SAME
