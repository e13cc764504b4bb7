"""Runs cosched-run across the nodes of a lab, with and without cosched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from cosched.launch.family import Family

pytestmark = [
    pytest.mark.live,
    pytest.mark.newest_mpi,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="two nodes need two CPUs of this machine"
    ),
    pytest.mark.skipif(
        not shutil.which("nsenter") or not shutil.which("taskset"),
        reason="a lab needs util-linux",
    ),
]
PATIENCE_S = 120
HOSTS = ("--hosts", "lab1,lab2")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Starts two nodes and their daemons; yields the run directory."""
    run_dir = tmp_path_factory.mktemp("lab") / "run"
    cosched(run_dir, "lab", "up", "--nodes", "2")
    yield run_dir
    cosched(run_dir, "lab", "down")


def cosched(run_dir, *words):
    script = "from cosched.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *words, "--run-dir", run_dir],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def lab_task(mpi, task):
    if mpi.family is Family.MPICH and mpi.version.startswith("4.0"):
        pytest.skip(
            "MPICH 4.0 with UCX 1.13 now and then hangs in MPI_Finalize over TCP, "
            "with cosched or without"
        )
    return task


@pytest.fixture
def run(lab):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "cosched.cli.run.main", "--run-dir", lab, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    return run


def test_no_shim_runs_ranks_on_both_nodes(run, lab_task):
    done = run("--no-shim", *HOSTS, "-n", "4", lab_task)
    assert (done.stdout, done.returncode) == ("4 ranks, sum 6\n", 0)


def test_ranks_register_with_daemon_of_their_node(run, lab_task):
    done = run("-v", "--job", "mine", *HOSTS, lab_task)
    assert (done.stdout, done.returncode) == ("2 ranks, sum 1\n", 0)
    assert "of job mine on lab1" in done.stderr
    assert "of job mine on lab2" in done.stderr


def test_exit_status_passes_through(run, lab_task, mpi):
    # Intel's launcher returns 255 for any failure on several hosts.
    expected = 255 if mpi.intel else 3
    assert run(*HOSTS, lab_task, "exit", "3").returncode == expected


def test_host_outside_lab_is_an_error(run, any_mpi):
    done = run("--hosts", "lab1,lab9", "true")
    assert done.returncode == 1
    assert done.stderr == (
        "cosched-run: host 'lab9' is not in the lab; its nodes are lab1, lab2\n"
    )


def test_node_without_daemons_is_refused_if_the_job_needs_all(run, lab, any_mpi):
    """The last test, because it stops the daemons."""
    cosched(lab, "down", "--node", "lab2")
    done = run(*HOSTS, "--require-all", "true")
    assert done.returncode == 1
    assert done.stderr == (
        "cosched-run: node lab2: no daemon answers, and the job needs all its nodes; "
        "run: cosched lab exec lab2 cosched up\n"
    )
