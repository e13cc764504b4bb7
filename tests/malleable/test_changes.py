"""Programs whose size changes at random end with the answer of a rigid run. The agents are
played, under each MPI's own mpiexec."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from mpi4py import MPI

from cosched.core.cluster.resizing.agreement import ReportDone, ReportRefused
from tests.places import ROOT
from tests.tools.malleable_agents import mpi_environment, run_without_agents

STEN = ROOT / "benchmarks" / "programs" / "sten.py"
MEMORY = Path(__file__).with_name("memory_program.py")
ARRAYS = Path(__file__).with_name("arrays_program.py")

pytestmark = pytest.mark.mpi_job


def test_arrays_of_all_kinds_survive_changes(agents, mpi):
    played = agents(5, seed=3)
    stop = played.folder / "stop"
    played.start(mpi, [0, 1, 1], ARRAYS, stop)
    assert isinstance(played.resize([1], [2, 3]), ReportDone)  # a part of a world leaves
    assert isinstance(played.resize([2, 3]), ReportDone)  # a whole world leaves
    assert isinstance(played.resize([], [1, 4, 4]), ReportDone)
    assert isinstance(played.resize([0, 1, 4], [2]), ReportDone)  # all migrate
    stop.touch()
    assert played.finish() == (0, "arrays are as they were\n")


def test_change_needs_little_memory_beside_the_blocks(agents, mpi):
    """The bound is several pieces a peer, and what MPI allocates for a first message."""
    played = agents(3)
    stop = played.folder / "stop"
    played.start(mpi, [0], MEMORY, stop)
    assert isinstance(played.resize([], [1, 2]), ReportDone)
    stop.touch()
    status, output = played.finish()
    assert status == 0, output
    (extra,) = re.findall(r"extra (-?\d+) MiB", output)
    assert int(extra) < 48


@pytest.mark.one_mpi
def test_shrinking_by_a_whole_world_starts_no_process(agents, mpi):
    played = agents(3)
    stop = played.folder / "stop"
    played.start(mpi, [0], ARRAYS, stop)
    played.resize([], [1, 2])
    assert isinstance(played.resize([1, 2]), ReportDone)
    assert {rank.world for rank in played.ranks} == {0}
    stop.touch()
    assert played.finish() == (0, "arrays are as they were\n")


def test_ranks_that_leave_write_no_warnings_of_ucx(agents, mpi, monkeypatch):
    """MPICH leaves connections to other worlds open, which UCX reports in MPI_Finalize."""
    if (mpi / "ompi_info").exists():
        pytest.skip("Open MPI has no such connections")
    monkeypatch.setenv("UCX_TLS", "tcp")
    played = agents(3)
    stop = played.folder / "stop"
    played.start(mpi, [0], ARRAYS, stop)
    played.resize([], [1, 2])
    assert isinstance(played.resize([0, 1]), ReportDone)
    stop.touch()
    assert played.finish() == (0, "arrays are as they were\n")


@pytest.mark.one_mpi
def test_impossible_change_leaves_the_job_as_it_was(agents, mpi):
    played = agents(2)
    stop = played.folder / "stop"
    played.start(mpi, [0], ARRAYS, stop)
    report = played.resize([0])
    assert report == ReportRefused(1, "no rank of the job would stay")
    assert isinstance(played.resize([], [1]), ReportDone)
    stop.touch()
    assert played.finish() == (0, "arrays are as they were\n")


def test_job_goes_on_after_a_spawn_that_failed(agents, mpi):
    if not (mpi / "ompi_info").exists():
        pytest.skip("the mpiexec of MPICH ends the job for a host that does not exist")
    played = agents(3)
    played.hosts[1] = "no-such-host.invalid"
    stop = played.folder / "stop"
    played.start(mpi, [0], ARRAYS, stop)
    report = played.resize([], [1])
    assert report.reason.startswith("MPI_ERR_")
    assert isinstance(played.resize([], [2]), ReportDone)
    stop.touch()
    _, output = played.finish()  # prterun has a status of its own after a failed spawn
    assert "arrays are as they were\n" in output


def test_job_goes_on_after_a_rank_that_cannot_join(agents, mpi):
    """One of two new ranks has no page. Node 1 leaves, so a rank is in its last change."""
    played = agents(4)
    stop, page = played.folder / "stop", played.folder / "page-2"
    played.start(mpi, [0, 1], ARRAYS, stop)
    page.rename(played.folder / "away")
    report = played.resize([1], [2, 3])
    assert report == ReportRefused(1, f"page {page}: No such file or directory")
    (played.folder / "away").rename(page)
    assert isinstance(played.resize([1], [2, 3]), ReportDone)
    stop.touch()
    assert played.finish() == (0, "arrays are as they were\n")


@pytest.mark.one_mpi
def test_order_to_a_job_that_ends_is_refused(agents, mpi):
    played = agents(2)
    played.start(mpi, [0], STEN, "--iterations", "3", "--size", "8")
    report = played.resize([], [1])
    assert report == ReportRefused(1, "the job's loop has ended") or isinstance(
        report, ReportDone
    )
    status, output = played.finish()
    assert status == 0
    assert "iterations 3 " in output


MISUSES = {
    "zero": "Misuse: minimum 0: is not a number of nodes from 1 to 1048576",
    "fraction": "Misuse: minimum 1.5: is not a number of nodes from 1 to 1048576",
    "minimum-above-ideal": "Misuse: minimum 4 is more than ideal 2",
    "before-init": "Misuse: MPI is not initialized: call MPI.Init() before malleable.Job",
    "after-finalize": "Misuse: MPI has been finalized: make the malleable.Job before that",
    "twice": "Misuse: this program has made its malleable.Job already: use that one",
    "two-loops": "Misuse: a malleable job has one loop: call steps() once",
    "no-array": "BlocksDisagree: scatter: rank 0: a block is a NumPy array, not list",
    "objects": "BlocksDisagree: scatter: rank 0: a block of Python objects (object)"
    " cannot be moved",
    "late-scatter": "Misuse: call scatter before steps(): ranks that join later need it",
    "disagree-in-dtype": "BlocksDisagree: redistribute: array 0: dtype float32 in rank 1,"
    " but float64 in rank 0",
    "disagree-in-axis": "BlocksDisagree: redistribute: array 0: shape (2, 'any') in rank 1,"
    " but ('any', 2) in rank 0",
    "disagree-in-shape": "BlocksDisagree: gather: shape ('any', 3) in rank 1,"
    " but ('any', 2) in rank 0",
    "disagree-in-number": "BlocksDisagree: redistribute: 2 arrays in rank 1,"
    " but 1 in rank 0",
    "wrong-axis": "BlocksDisagree: redistribute: array 0: rank 0: axis 1 does not exist in"
    " an array of 1 dimensions",
    "wrong-split": "BlocksDisagree: redistribute: array 0: the split of 4 rows among 2"
    " ranks is [0, 0]",
    "masked": "BlocksDisagree: scatter: rank 0: a masked array cannot be moved: give its"
    " data and its mask",
    "ask-none": "Misuse: nodes 0: is not a number of nodes from 1 to 1048576",
    "ask-too-many": "Misuse: nodes 1099511627776: is not a number of nodes from 1 to"
    " 1048576",
    "ask-fraction": "Misuse: nodes 1.5: is not a number of nodes from 1 to 1048576",
}
PROGRAM = Path(__file__).with_name("misuse_program.py")
#: One of each way through MPI. The others take one of these ways, or call no MPI.
UNDER_EACH_MPI = ("before-init", "after-finalize", "disagree-in-dtype", "disagree-in-shape")


@pytest.mark.parametrize("how", UNDER_EACH_MPI)
def test_misuse_is_one_line_in_each_rank(mpi, how):
    check_misuse(mpi, how)


@pytest.mark.parametrize("how", sorted(MISUSES.keys() - set(UNDER_EACH_MPI)))
def test_misuse_is_one_line_in_each_rank_of_one_mpi(any_mpi, how):
    check_misuse(any_mpi, how)


def check_misuse(mpi, how):
    done = run_without_agents(mpi, 2, mpi / "python", PROGRAM, how)
    # Before MPI_Init and after its end the ranks do not wait for each other, and mpiexec
    # ends the slow ones.
    lines = (1, 2) if how in ("before-init", "after-finalize") else (2,)
    assert done.stdout.count(MISUSES[how]) in lines, done.stdout + done.stderr
    assert not done.stdout.replace(MISUSES[how], "").strip()
    assert done.returncode == 3


@pytest.mark.one_mpi
@pytest.mark.parametrize("how", ["minimum-above-ideal", "two-loops", "disagree-in-axis"])
def test_misuse_that_is_not_caught_is_one_line_without_a_traceback(rigid, how):
    done = rigid(2, PROGRAM, how, "uncaught")
    line = "cosched: " + MISUSES[how].partition(": ")[2]
    assert done.stderr.count(line + "\n") == 2
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


@pytest.mark.one_mpi
def test_program_beside_sources_that_are_not_built_is_one_line(mpi, tmp_path):
    beside = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "cosched", tmp_path / "cosched", ignore=beside)
    program = tmp_path / "program.py"
    program.write_text("from cosched import malleable\n")
    environ = {k: v for k, v in mpi_environment().items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [mpi / "python", program], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"cosched: {tmp_path}/cosched is not built: keep the program in another folder "
        f"than {tmp_path}, or build it there: pip install -e {tmp_path}\n"
    )


@pytest.mark.one_mpi
def test_job_without_agents_has_a_fixed_size(rigid):
    done = rigid(3, PROGRAM, "nothing")
    assert done.stdout == f"ran with 3 ranks, thread level {MPI.THREAD_SINGLE}\n", (
        done.stderr
    )
    assert done.returncode == 0
