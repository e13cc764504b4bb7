"""Runs the recipes of docs/recipes.md: GNU parallel and ReFrame start jobs, and benchmarks
run under cosched. Reads the workloads of the recipes that cannot run here."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from cosched.bench.workload.file import parse_workload
from tests.domain.rig import WITHIN_S, Rig
from tests.domain.user import User
from tests.foreign.programs import HPCC as PROGRAM
from tests.places import ROOT
from tests.run.conftest import INSTALLED

PAGE = (ROOT / "docs/recipes.md").read_text()
BLOCKS = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
JOBS, AGAIN, HALT = BLOCKS[0][1].splitlines()
SETTINGS, CHECK, REFRAME = (block for _, block in BLOCKS[1:4])
WRAPPED, REFRAME_WRAPPED, GENERIC = (block for _, block in BLOCKS[4:7])
WORKLOADS = [block for language, block in BLOCKS if language == "toml"]
HPCC = BLOCKS[7][1]
RING = ROOT / "tests/domain/ring.c"
REFRAME_HOME = ROOT / ".cache/reframe"
SLEEP_S = "611.7"  # no other process has this in its command line
#: Each fifth job fails unless there is a file ``mended``. If there is a file ``endless``,
#: only the first one that begins ends: more jobs wait than the nodes take.
WORK = f"""#!/bin/sh
echo "begins $1" >> begun
if [ -e endless ]; then
    if mkdir first 2> /dev/null; then sleep 1; exit 3; fi
    exec sleep {SLEEP_S}
fi
echo "output $1"
echo "error $1" >&2
[ $(($1 % 5)) != 0 ] || [ -e mended ] || exit 7
"""


@pytest.fixture
def user(tmp_path):
    rig = Rig(tmp_path, 2)
    rig.start()
    rig.until_up()
    work = rig.work / "work"
    work.write_text(WORK)
    work.chmod(0o755)
    yield User(rig)
    rig.close()


@pytest.fixture
def parallel():
    if shutil.which("parallel") is None:
        pytest.skip("no parallel: apt-get install parallel")


def start(user, line, **environ):
    """Starts a command as if a terminal had it in its foreground."""
    return subprocess.Popen(
        line,
        shell=True,
        cwd=user.rig.work,
        env={**user.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def run(user, line, **environ):
    with start(user, line, **environ) as process:
        out, err = process.communicate(timeout=4 * WITHIN_S)
    return process.returncode, out, err


def statuses(user):
    """Returns the status of each input in parallel's log; the latest, if it ran twice."""
    with (user.rig.work / "log").open() as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {int(row["Command"].split()[-1]): int(row["Exitval"]) for row in rows}


def begun(user):
    return (user.rig.work / "begun").read_text().count("begins")


def all_jobs(user):
    with user.rig.client() as client:
        return client.queue(ended=1000)


def test_parallel_gets_outputs_and_statuses(user, parallel):
    status, out, err = run(user, JOBS)
    assert status == 8, err  # as many as failed
    assert sorted(out.split("\n")[:-1]) == sorted(f"output {i}" for i in range(1, 41))
    assert {f"error {i}" for i in range(1, 41)} <= set(err.splitlines())
    assert statuses(user) == {i: 0 if i % 5 else 7 for i in range(1, 41)}
    assert [job["starts"] for job in all_jobs(user)] == [1] * 40
    (user.rig.work / "mended").touch()
    status, out, err = run(user, AGAIN)
    assert status == 0, err
    assert sorted(out.split("\n")[:-1]) == sorted(f"output {i}" for i in range(5, 41, 5))
    assert set(statuses(user).values()) == {0}
    assert begun(user) == 48


def expect_no_job_left(user):
    user.rig.until(lambda: all(job["ended_ns"] for job in all_jobs(user)), "a job is left")
    user.rig.until(lambda: not user.rig.strays(f"sleep\0{SLEEP_S}"), "a task is left")


def test_parallel_halts_and_cancels_the_jobs(user, parallel):
    (user.rig.work / "endless").touch()
    status, _, err = run(user, HALT)
    assert status == 3, err
    expect_no_job_left(user)
    ends = [job["state"] for job in all_jobs(user)]
    assert ends.count("failed") == 1
    assert ends.count("cancelled") == len(ends) - 1 > 0


def test_interrupt_of_parallel_cancels_the_jobs(user, parallel):
    (user.rig.work / "endless").touch()
    with start(user, JOBS) as process:
        # Two nodes take a job each; six more wait.
        user.rig.until(lambda: len(all_jobs(user)) >= 8, "no jobs")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=WITHIN_S)
    assert process.returncode != 0
    expect_no_job_left(user)


@pytest.fixture
def mpich():
    """The newest MPICH, with ReFrame beside it."""
    if not REFRAME_HOME.exists():
        pytest.skip("no ReFrame: scripts/dev foreign installs it")
    mpi = next((mpi for name, mpi in INSTALLED.items() if name.startswith("mpich-5")), None)
    if mpi is None:
        pytest.skip("no MPICH 5")
    return mpi


def reframe(line):
    """The recipe's command, with the ReFrame that is installed here."""
    words = f"{sys.executable} {REFRAME_HOME}/bin/reframe"
    return line.strip().replace("reframe", words, 1)


@pytest.mark.mpi_job
def test_reframe_runs_a_test_on_two_nodes(user, mpich):
    work = user.rig.work
    subprocess.run([mpich.mpicc, "-o", work / "ring", RING], check=True)
    (work / "src").mkdir()
    (work / "ring").rename(work / "src/ring")  # ReFrame copies this folder
    (work / "settings.py").write_text(SETTINGS)
    (work / "check.py").write_text(CHECK)
    status, out, err = run(
        user,
        reframe(REFRAME),
        PYTHONPATH=str(REFRAME_HOME),
        HOME=str(work),
        RFM_PREFIX=str(work),
    )
    assert status == 0, out + err
    assert "Ran 1/1 test case(s) from 1 check(s) (0 failure(s)" in out
    (job,) = all_jobs(user)
    assert (job["state"], job["tasks"], len(job["hosts"])) == ("done", 2, 2)


@pytest.mark.mpi_job
def test_reframe_puts_cosched_before_its_launcher(mpich, tmp_path, run_dir):
    (tmp_path / "src").mkdir()
    subprocess.run([mpich.mpicc, "-o", tmp_path / "src/ring", RING], check=True)
    (tmp_path / "generic.py").write_text(GENERIC)
    (tmp_path / "wrapped.py").write_text(WRAPPED)
    folders = (Path(sys.executable).parent, mpich.mpiexec.parent)
    done = subprocess.run(
        reframe(REFRAME_WRAPPED),
        shell=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
            "PYTHONPATH": str(REFRAME_HOME),
            "HOME": str(tmp_path),
            "RFM_PREFIX": str(tmp_path),
            "COSCHED_RUN_DIR": str(run_dir),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 1/1 test case(s) from 1 check(s) (0 failure(s)" in done.stdout
    (script,) = tmp_path.glob("output/**/rfm_job.sh")
    assert "cosched-run --account -- mpiexec -n 2 ./ring" in script.read_text()
    (seconds,) = re.findall(r"scheduled: ([0-9.]+) s", done.stdout)
    assert float(seconds) > 0


@pytest.mark.mpi_job
def test_hpcc_runs_coscheduled(tmp_path, run_dir):
    if PROGRAM.missing():
        pytest.skip(PROGRAM.missing())
    PROGRAM.prepare(tmp_path)
    command = [sys.executable, "-m", "cosched.cli.run.main", *HPCC.split()[1:]]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "COSCHED_RUN_DIR": str(run_dir), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=10 * WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cosched" not in done.stderr
    assert PROGRAM.result("", tmp_path)


@pytest.mark.parametrize("text", WORKLOADS, ids=lambda text: text.split('"')[1])
def test_workload_of_a_recipe_is_valid(text):
    workload = parse_workload(text, "recipe.toml", PurePath("/w"))
    assert workload.instances()
