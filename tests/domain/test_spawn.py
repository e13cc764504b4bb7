"""Tests that jobs spawn tasks, publish names and connect."""

import re
import subprocess

import pytest

from tests.domain.rig import QUICK
from tests.domain.user import User
from tests.places import ROOT
from tests.run.conftest import INSTALLED
from tests.tools.resting import resting_library

pytestmark = pytest.mark.mpi_job

HERE = ROOT / "tests/domain"
SPAWNER = str(HERE / "spawner.py")


class Spawning(User):
    """A user whose ranks leave the CPU to those that start, while they wait for them."""

    def __init__(self, rig):
        super().__init__(rig)
        self.environ["LD_PRELOAD"] = str(resting_library())


@pytest.fixture(scope="module")
def user(pair):
    return Spawning(pair)


@pytest.fixture(scope="module", params=sorted(INSTALLED) or ["none"])
def spawning(request, pair):
    """The C program for each MPI whose jobs can spawn."""
    mpi = INSTALLED.get(request.param)
    if mpi is None or mpi.intel or mpi.version.startswith("4.1"):
        pytest.skip("no MPI whose jobs can spawn in a domain")
    if mpi.version.startswith("4.0"):
        pytest.skip("cannot spawn, not with its own mpiexec either")
    path = pair.work / f"spawning-{request.param}"
    subprocess.run([mpi.mpicc, "-o", path, HERE / "spawning.c"], check=True)
    return str(path)


@pytest.fixture(scope="module", params=["", "-openmpi"], ids=["mpich", "openmpi"])
def python(request):
    """A Python with mpi4py for each MPI of this repository's environments."""
    path = ROOT / f".venv{request.param}/bin/python"
    if not path.exists():
        pytest.skip(f"no {path}")
    return str(path)


def spawner(user, python, what, *options):
    return user.run("submit", "--wait", *options, python, SPAWNER, what)


def reason(done):
    return done[2].strip().partition(": failed: ")[2]


@pytest.mark.parametrize(
    ("options", "counts", "line"),
    [
        (("-n", "1"), ["2"], "3 ranks, sum 3, programs 0\n"),
        (("--nodes", "2", "--ppn", "1"), ["3"], "5 ranks, sum 10, programs 0\n"),
        (("--nodes", "2", "--ppn", "2"), ["2", "3"], "9 ranks, sum 36, programs 3\n"),
        (("-n", "4"), ["6"], "10 ranks, sum 45, programs 0\n"),  # more than the slots
    ],
    ids=["alone", "nodes", "programs", "crowded"],
)
def test_parents_and_children_compute_together(user, spawning, options, counts, line):
    assert user.run("submit", "--wait", *options, spawning, *counts) == (0, line, "")


def test_a_child_runs_on_the_host_and_in_the_folder_that_were_asked_for(user):
    done = spawner(user, "python", "host", "--nodes", "2", "--ppn", "1")
    assert done == (0, "n2 /\n", "")


def test_children_are_spread_over_the_hosts_that_were_asked_for(user):
    done = spawner(user, "python", "hosts", "--nodes", "2", "--ppn", "1")
    places = (f"{node} {user.rig.work}" for node in ("n1", "n1", "n2", "n2"))
    assert done == (0, f"{' '.join(places)}\n", "")


def test_children_can_spawn(user, python):
    assert spawner(user, python, "nested", "-n", "1") == (0, "spawned twice\n", "")


def test_all_ranks_can_spawn_again_and_again(user, python):
    assert spawner(user, python, "many", "--nodes", "2", "--ppn", "1") == (
        0,
        "4 times\n",
        "",
    )


def test_a_job_lasts_until_its_children_have_ended(user, python):
    done = spawner(user, python, "outlived", "--nodes", "2", "--ppn", "1", "--label")
    assert (done[0], done[2]) == (0, "")
    assert sorted(done[1].splitlines()) == [
        "[1:0] rank 0 ends late",
        "[1:1] rank 1 ends late",
    ]


def test_ranks_connect_by_a_published_name(user, python):
    assert spawner(user, python, "names", "--nodes", "2", "--ppn", "1") == (
        0,
        "connected\n",
        "",
    )


# -- failures ------------------------------------------------------------------------------


def test_a_program_that_is_not_there_is_an_error_of_the_caller_and_one_line(user, python):
    status, out, err = spawner(user, python, "missing", "--nodes", "2", "--ppn", "1")
    assert (status, out) == (0, "an error\nand on\n")
    line = r"cosched: rank 0: MPI_Comm_spawn: n[12]: ./nosuch: no such program\n"
    assert re.fullmatch(line, err)


def test_a_host_that_the_job_lacks_is_an_error_of_the_caller_and_one_line(user):
    status, out, err = spawner(user, "python", "elsewhere", "-n", "1")
    assert (status, out) == (0, "an error\n")
    line = "cosched: rank 0: MPI_Comm_spawn: moon: is not a node of this job\n"
    assert err == line


@pytest.mark.parametrize(
    ("what", "status", "why"),
    [
        ("failing", 3, "rank 1 ended with status 3 in spawned world 1 on"),
        ("aborting", 6, "rank 1 called MPI_Abort (6) in spawned world 1 on"),
    ],
)
def test_a_child_that_fails_ends_the_job_with_its_status(user, python, what, status, why):
    done = spawner(user, python, what, "--nodes", "2", "--ppn", "1")
    assert done[0] == status
    assert why in reason(done)
    assert not user.rig.strays("spawne")


def test_a_job_that_is_cancelled_ends_its_children(user, python):
    number = user.submit("--nodes", "2", "--ppn", "1", python, SPAWNER, "sleeping")
    job = {"output": f"cosched-{number}.out"}
    user.rig.until(lambda: user.rig.output(job).count("asleep") == 1, "has not spawned")
    assert user.run("cancel", str(number)) == (0, f"job {number}: cancelled\n", "")
    assert user.rig.wait(number)["state"] == "cancelled"
    assert not user.rig.strays("spawned.py")


def test_a_job_whose_time_is_over_ends_its_children(user):
    number = user.submit("--time", "3s", "-n", "1", "python", SPAWNER, "sleeping")
    assert user.rig.wait(number)["state"] == "timeout"
    assert not user.rig.strays("spawned.py")


@pytest.mark.parametrize("member", ["n1", "n2"])
def test_an_agent_that_dies_ends_all_worlds(make_rig, member):
    rig = make_rig(2, life=QUICK)
    rig.start()
    rig.until_up()
    user = Spawning(rig)
    number = user.submit("--nodes", "2", "--ppn", "1", "python", SPAWNER, "sleeping")
    job = {"output": f"cosched-{number}.out"}
    rig.until(lambda: rig.output(job).count("asleep") == 1, "has not spawned")
    rig.kill(member)
    assert rig.wait(number)["state"] == "node lost"
    rig.until(lambda: not rig.strays(SPAWNER), "tasks are left")
    rig.until(lambda: not rig.strays("spawned.py"), "children are left")
    rig.start(member)
    rig.until_up()
    assert user.run("submit", "--wait", "--nodes", "2", "echo", "on") == (0, "on\non\n", "")


def test_a_controller_that_restarts_finds_the_job_with_its_children(make_rig):
    rig = make_rig(2)
    rig.start()
    rig.until_up()
    user = Spawning(rig)
    number = user.submit("--nodes", "2", "--ppn", "1", "python", SPAWNER, "outlived")
    rig.until_state(number, "running")
    rig.kill("controller")
    rig.start("controller")
    job = rig.wait(number)
    assert (job["state"], job["status"]) == ("done", 0)
    assert rig.output(job).count("ends late") == 2
