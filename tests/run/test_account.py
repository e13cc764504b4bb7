"""cosched-run --account: one line on stderr at the end, nothing on stdout, and the exit
status is the program's."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from cosched.cli.history import command as history
from tests.run.conftest import INSTALLED

PROGRAM = (
    "import sys; from mpi4py import MPI; import mpi_shim; "
    "MPI.COMM_WORLD.barrier(); print('out'); sys.exit(3)"
)


@pytest.fixture
def program(any_mpi):
    if not any(
        mpi.mpiexec.parent.parent.name.startswith(".venv") for mpi in INSTALLED.values()
    ):
        pytest.skip("no MPI in the environment of these tests")
    return [sys.executable, "-c", PROGRAM]


def test_the_account_is_told_and_kept(cosched_run, program, tmp_path):
    run = cosched_run("--account", "--job", "app", "-n", "1", *program)
    assert run.returncode == 3
    assert run.stdout == "out\n"
    (line,) = [line for line in run.stderr.splitlines() if "job app: response" in line]
    assert "(shared, no run time)" in line
    assert "1 switches" in line
    words = ["--run-dir", str(tmp_path / "run"), "--json"]
    (job,) = json.loads(CliRunner().invoke(history, words).output)["jobs"]
    assert (job["name"], job["tasks"], job["partial"]) == ("app", 1, False)
    assert job["scheduled_s"] == job["response_s"] > 0


def test_a_program_without_mpi_has_none(cosched_run):
    run = cosched_run("--account", "--job", "app", "-n", "1", "/bin/true")
    assert run.returncode == 0
    assert "no account: job app was not coscheduled" in run.stderr


def test_nothing_is_said_unless_it_is_asked_for(cosched_run, program):
    run = cosched_run("--job", "app", "-n", "1", *program)
    assert "response" not in run.stderr
