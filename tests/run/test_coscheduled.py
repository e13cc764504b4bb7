"""Runs cosched-run with daemons that are found, started or missing."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

from tests.tools.commands import run_command

PATIENCE_S = 240
NODE = os.uname().nodename


@contextlib.contextmanager
def connected(paths):
    with socket.socket(socket.AF_UNIX) as control, control.makefile("rw") as stream:
        control.settimeout(PATIENCE_S)
        control.connect(str(paths.control_socket))
        yield stream


def ask(stream, op):
    stream.write(json.dumps({"op": op}) + "\n")
    stream.flush()
    return json.loads(stream.readline())


def variables(done):
    """Returns the variables that the task printed, without its rank."""
    return dict(line.partition(" ")[2].split("=", 1) for line in done.stdout.splitlines())


NAMES = (
    "COSCHED_JOB",
    "COSCHED_RUN_DIR",
    "COSCHED_STATUS",
    "LD_PRELOAD",
    "COSCHED_VERBOSE",
)


def test_job_without_daemons_gets_private_daemons(cosched_run, here, task):
    done = cosched_run("-v", "--job", "mine", "-n", "2", task)
    assert (done.stdout, done.returncode) == ("2 ranks, sum 1\n", 0)
    assert "job mine on" in done.stderr, "the tasks registered"
    assert "status by shadow" in done.stderr
    assert "warning" not in done.stderr
    pid = int(here.scheduler_lock.read_text() or 0)
    assert ended(pid), "private daemons end with the job"


def ended(pid):
    try:
        pidfd = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return True
    with os.fdopen(pidfd):
        return bool(select.select([pidfd], [], [], PATIENCE_S)[0])


@pytest.fixture
def served_run(served):
    """Runs cosched-run on a node with daemons."""
    return lambda *words: run_command(
        *("--run-dir", served.run_dir, *words), module="cosched.cli.run.main"
    )


def test_tasks_get_variables_of_their_job(served_run, served, task, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent/own.so")
    done = served_run("--job", "mine", "--carrier", "none", task, "environment", *NAMES)
    found = variables(done)
    preload = found.pop("LD_PRELOAD").split(":")
    assert preload[0] == "/nonexistent/own.so"
    assert os.path.isfile(preload[1])
    assert found == {
        "COSCHED_JOB": "mine",
        "COSCHED_RUN_DIR": str(served.run_dir),
        "COSCHED_STATUS": "none",
        "COSCHED_VERBOSE": "",
    }


def test_user_launcher_needs_all_ranks_known(served_run, mpi, task):
    launch = mpi.launch("-n", "1", task, "environment", *NAMES)
    found = variables(served_run("--", *launch))
    assert found["COSCHED_JOB"].startswith("task-")
    assert found["COSCHED_STATUS"] == "shadow"
    assert found["LD_PRELOAD"]
    found = variables(served_run("--carrier", "prefix", "--", *launch))
    assert found["COSCHED_STATUS"] == "prefix"
    in_a_shell = mpi.launch(
        "-n", "1", "sh", "-c", f"exec {task} environment COSCHED_STATUS"
    )
    assert variables(served_run("--", *in_a_shell))["COSCHED_STATUS"] == "shadow"
    names = "COSCHED_STATUS COSCHED_JOIN"
    uneven = f"[ 0 = 1 ] || export LD_PRELOAD; exec {task} environment {names}"
    launch = mpi.launch("-n", "1", "sh", "-c", uneven)
    found = variables(served_run("--", *launch))
    assert found == {"COSCHED_STATUS": "shadow", "COSCHED_JOIN": "perhaps"}


def test_exit_status_passes_through_shim(served_run, task):
    assert served_run("-n", "2", task, "exit", "3").returncode == 3


def test_name_of_running_job_is_refused(cosched_run, start_cosched_run, here, task):
    running = start_cosched_run("--job", "mine", task, "wait", stderr=subprocess.DEVNULL)
    running.stdout.readline()
    with connected(here) as daemon:
        assert [job["name"] for job in ask(daemon, "status")["jobs"]] == ["mine"]
    second = cosched_run("--job", "mine", task)
    assert second.returncode == 1
    assert second.stderr == (
        f"cosched-run: job name 'mine' is taken on node {NODE}; choose another with --job\n"
    )
    assert cosched_run("--job", "other", task).returncode == 0
    running.send_signal(signal.SIGTERM)
    running.wait(PATIENCE_S)
    assert cosched_run("--job", "mine", task).returncode == 0


@pytest.fixture
def program(tmp_path):
    """A launcher that starts no rank and prints a line."""
    path = tmp_path / "prun"
    path.write_text('#!/bin/sh\necho "ran $COSCHED_JOB"\n')
    path.chmod(0o755)
    return str(path)


def test_program_runs_without_access_to_daemons(program, tmp_path):
    """There is a file in place of the run directory."""
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "cosched.cli.run.main",
            "--run-dir",
            tmp_path / "file",
            program,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.stdout, done.returncode) == ("ran \n", 0)
    warnings = done.stderr.splitlines()
    assert all(line.startswith("cosched-run: warning: ") for line in warnings)
    assert "not coscheduled" in warnings[-1]


def test_named_host_that_is_this_one_gets_private_daemons(cosched_run, here, task):
    done = cosched_run("--hosts", "localhost", "-v", "-n", "1", task)
    assert (done.stdout, done.returncode) == ("1 ranks, sum 0\n", 0)
    assert "registered as task 0" in done.stderr


def test_dry_run_starts_nothing(cosched_run, here, task):
    plan = json.loads(cosched_run("--dry-run", "--json", "--job", "mine", task).stdout)
    assert plan["environment"]["COSCHED_JOB"] == "mine"
    assert task in plan["command"]
    text = cosched_run("--dry-run", "--job", "mine", task).stdout.splitlines()
    assert [line.partition(": ")[0] for line in text] == ["command", "environment"]
    assert not here.run_dir.exists()
