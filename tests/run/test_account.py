"""Checks cosched-run --account: lines on stderr at the end, nothing more on stdout, and the
program's exit status."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from cosched.cli.jobs.history import History
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


def test_account_is_printed_and_in_history(cosched_run, program, tmp_path):
    run = cosched_run("--account", "--job", "app", "-n", "1", *program)
    assert run.returncode == 3
    assert run.stdout == "out\n"
    response, scheduled, unscheduled, counts, begin = run.stderr.splitlines()[-5:]
    assert response.startswith("cosched-run: job app: response ")
    assert "(shared, no run time), CPU " in response
    assert "cosched-run:   scheduled " in scheduled
    assert "on all nodes" not in scheduled
    assert "alone it might have taken " in unscheduled
    assert counts.startswith("cosched-run:   1 switch; messages trapped ")
    assert begin.endswith(" s after its command")
    words = ["--run-dir", str(tmp_path / "run"), "--json"]
    (job,) = json.loads(CliRunner().invoke(History.click_command, words).output)["jobs"]
    assert (job["name"], job["tasks"], job["partial"]) == ("app", 1, False)
    assert job["scheduled_s"] == job["response_s"] > 0


def test_program_without_mpi_has_account(cosched_run, any_mpi):
    run = cosched_run("--account", "--job", "app", "-n", "1", "/bin/true")
    assert run.returncode == 0
    assert "cosched-run: job app: response 0." in run.stderr


def test_job_without_the_shim_has_no_account(cosched_run, any_mpi):
    run = cosched_run("--account", "--no-shim", "--job", "app", "-n", "1", "/bin/true")
    assert run.returncode == 0
    assert run.stderr == "cosched-run: no account: job app was not coscheduled\n"


def test_launcher_without_ranks_has_no_account(cosched_run, tmp_path):
    launcher = tmp_path / "prun"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    run = cosched_run("--account", "--job", "app", str(launcher))
    assert run.returncode == 0
    assert "no account: job app was not coscheduled" in run.stderr


def test_no_account_without_option(cosched_run, program):
    run = cosched_run("--job", "app", "-n", "1", *program)
    assert "response" not in run.stderr
