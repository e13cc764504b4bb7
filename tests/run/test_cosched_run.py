"""Checks that cosched-run --no-shim changes nothing for real launchers."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys

import pytest

PATIENCE_S = 240


def gone(pid):
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(pidfd):
        return bool(select.select([pidfd], [], [], PATIENCE_S)[0])


def test_program_gets_launcher_of_its_family(cosched_run, mpi, task):
    done = cosched_run("--no-shim", "-n", "2", task)
    assert (done.stdout, done.stderr, done.returncode) == ("2 ranks, sum 1\n", "", 0)
    plan = json.loads(cosched_run("--no-shim", "--dry-run", "--json", task).stdout)
    assert plan["mpi"]["family"] == mpi.family.value


def test_more_ranks_than_cores_run(cosched_run, task):
    ranks = 2 * os.cpu_count()
    done = cosched_run("--no-shim", "-n", str(ranks), task)
    assert done.stdout == f"{ranks} ranks, sum {ranks * (ranks - 1) // 2}\n"


def test_exit_status_passes_through(cosched_run, task):
    assert cosched_run("--no-shim", "-n", "2", task, "exit", "3").returncode == 3


def test_rank_death_has_status_of_plain_launcher(cosched_run, mpi, task):
    words = ("-n", "2", task, "die")
    alone = subprocess.run(
        mpi.launch(*words), capture_output=True, timeout=PATIENCE_S, check=False
    )
    ours = cosched_run("--no-shim", "--mpi", str(mpi.mpiexec), *words)
    assert ours.returncode == alone.returncode != 0


def test_input_reaches_rank_0(start_cosched_run, task):
    text = "".join(f"input {i}\n" for i in range(1000))
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = start_cosched_run("--no-shim", "-n", "2", task, "copy", **pipes)
    done = running.communicate(text + "end\n", timeout=PATIENCE_S)
    assert (*done, running.returncode) == (text, "", 0)


def test_output_is_complete(cosched_run, task):
    done = cosched_run("--no-shim", "-n", "2", task, "lines", "20000")
    assert done.stdout == "".join(f"line {i} of many\n" for i in range(20000))


def test_sigterm_ends_all_ranks(start_cosched_run, task):
    running = start_cosched_run(
        "--no-shim", "-n", "2", task, "wait", stderr=subprocess.DEVNULL
    )
    ranks = [int(running.stdout.readline()) for _ in range(2)]
    running.terminate()
    running.wait(PATIENCE_S)
    assert all(map(gone, ranks))


def test_killed_launcher_leaves_no_ranks(start_cosched_run, task):
    running = start_cosched_run(
        "--no-shim", "-n", "2", task, "wait", stderr=subprocess.DEVNULL
    )
    ranks = [int(running.stdout.readline()) for _ in range(2)]
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(running.pid)], capture_output=True, check=True
    )
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
    assert running.wait(PATIENCE_S) == -signal.SIGKILL
    assert all(map(gone, ranks))


def test_user_launcher_keeps_its_command_line(cosched_run, mpi, task):
    launch = mpi.launch("-n", "1", task, "exit", "4")
    assert cosched_run("--no-shim", "--", *launch).returncode == 4
    plan = json.loads(cosched_run("--no-shim", "--dry-run", "--json", "--", *launch).stdout)
    assert plan["command"] == launch


def test_no_shim_sets_no_variables(cosched_run, task):
    done = cosched_run("--no-shim", task, "environment", "COSCHED_JOB", "LD_PRELOAD")
    assert sorted(done.stdout.splitlines()) == ["0 COSCHED_JOB=", "0 LD_PRELOAD="]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "Missing PROGRAM."),
        (("--unknown", "x"), 2, "--unknown"),
        (("-n", "0", "x"), 2, "'0' is not a whole number of 1 or more"),
        (("-n", "two", "x"), 2, "'two' is not a whole number of 1 or more"),
        (("--hosts", "a,a", "true"), 2, "'a,a' names a twice"),
        (("--json", "true"), 2, "--json needs --dry-run"),
        (("--waits-only", "true"), 2, "--waits-only needs --wait yield, block or auto"),
        (("--waits-only", "--wait", "busy", "true"), 2, "--waits-only needs --wait yield"),
        (
            ("--no-shim", "--wait", "block", "true"),
            2,
            "--no-shim cannot be combined with --wait",
        ),
        (("--wait", "sleep", "true"), 1, "wait 'sleep': must be spin, yield, block"),
        (("no-such-program",), 1, "program 'no-such-program': not found in PATH"),
        (("--", "srun-or-not", "x"), 1, "program 'srun-or-not': not found in PATH"),
        (("--job", "a b", "true"), 1, "job name 'a b'"),
        (("--hosts", "lab1", "true"), 1, "run: cosched lab up"),
        (("--mpi", "/nonexistent", "true"), 1, "--mpi /nonexistent"),
        (("-n", "2", "--", "mpiexec", "true"), 1, "--ranks is for jobs that cosched-run"),
    ],
)
def test_bad_input_prints_one_line(cosched_run, words, status, message):
    done = cosched_run(*words)
    assert done.returncode == status
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("cosched-run: ")
    assert done.stderr.count("\n") == 1


def test_ranks_that_do_not_fit_print_one_line(cosched_run, any_mpi):
    done = cosched_run("-n", "3", "--ppn", "1", "--hosts", "127.0.0.1,127.0.0.2", "true")
    assert done.returncode == 1
    assert done.stderr.startswith("cosched-run: 3 ranks do not fit on 2 hosts")


def test_missing_mpi_prints_one_line():
    script = "import sys; sys.executable = '/nonexistent/python'\n"
    script += "from cosched.cli.run.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "/bin/true"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
    )
    assert done.returncode == 1
    assert done.stderr == (
        "cosched-run: no MPI found: no mpiexec beside /nonexistent/python nor in PATH; "
        "install one (the system's package of MPICH) or name it with --mpi\n"
    )


def test_help_fits_80_columns_and_has_examples(cosched_run):
    done = cosched_run("-h")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "cosched-run -n 4 ./app" in done.stdout
    assert "cosched-run -- srun ./app" in done.stdout


def test_options_after_program_belong_to_it(cosched_run, any_mpi):
    plan = json.loads(
        cosched_run(
            *("--no-shim", "--dry-run", "--json", "true", "-n", "5", "--", "--help")
        ).stdout
    )
    assert plan["command"][-5:] == ["true", "-n", "5", "--", "--help"]
