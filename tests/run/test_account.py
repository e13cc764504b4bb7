"""cosched-run --account: some lines on stderr at the end, nothing on stdout, and the exit
status is the program's."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from cosched.cli.jobs.history import command as history
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
    response, scheduled, unscheduled, counts = run.stderr.splitlines()[-4:]
    assert response.startswith("cosched-run: job app: response ")
    assert "(shared, no run time), CPU " in response
    assert "cosched-run:   scheduled " in scheduled
    assert "on all nodes" not in scheduled
    assert "alone it might have taken " in unscheduled
    assert counts.startswith("cosched-run:   1 switch; messages trapped ")
    words = ["--run-dir", str(tmp_path / "run"), "--json"]
    (job,) = json.loads(CliRunner().invoke(history, words).output)["jobs"]
    assert (job["name"], job["tasks"], job["partial"]) == ("app", 1, False)
    assert job["scheduled_s"] == job["response_s"] > 0


def test_a_program_that_never_comes_to_mpi_has_one(cosched_run, any_mpi):
    run = cosched_run("--account", "--job", "app", "-n", "1", "/bin/true")
    assert run.returncode == 0
    assert "cosched-run: job app: response 0." in run.stderr


def test_a_launcher_that_starts_no_rank_has_none(cosched_run, tmp_path):
    launcher = tmp_path / "prun"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    run = cosched_run("--account", "--job", "app", str(launcher))
    assert run.returncode == 0
    assert "no account: job app was not coscheduled" in run.stderr


def test_nothing_is_said_unless_it_is_asked_for(cosched_run, program):
    run = cosched_run("--job", "app", "-n", "1", *program)
    assert "response" not in run.stderr
