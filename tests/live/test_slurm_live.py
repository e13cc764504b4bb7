"""A domain inside a Slurm allocation: real Slurm on a lab, jobs of an ordinary user.

Everything runs in a mount namespace with a private /tmp in which all users reach this tree.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from cosched.lab import slurm
from tests.live.conftest import DEADLINE_S, eventually
from tests.live.test_users_live import opening, skip_in_tmp, user_home
from tests.places import ROOT

MISSING = [name for name in slurm.DAEMONS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi_job,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"{', '.join(MISSING)} not found; scripts/slurm-lab installs it",
    ),
]

BIN = Path(sys.executable).parent
USER = 64999  # no one else's, so that all its processes are of these tests
HOME = "/tmp/home"
RUN_DIR = "/tmp/lab"
#: A task writes its node, its ancestors and its CPUs.
LOOK = """#!/bin/sh
pid=$$ tree=
while [ "$pid" -gt 1 ]; do
    tree="$tree $(tr '\\0' ' ' < /proc/$pid/cmdline | cut -d' ' -f1)"
    pid=$(sed -n 's/^PPid:\\t//p' /proc/$pid/status)
done
echo "$(uname -n)$tree"
"""


def until(condition, what, within_s=DEADLINE_S):
    """As ``eventually``, for conditions that are commands."""
    eventually(lambda: condition() or time.sleep(0.2), what, within_s)


@contextmanager
def alone():
    """Waits until no other test file has a site: each counts the processes of its user."""
    lock = Path(tempfile.gettempdir()) / "cosched-tests-slurm.lock"
    with lock.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


class Site:
    """A lab with Slurm."""

    def __init__(self, size):
        self.names = size.names
        self.last = size.last
        script = (
            "mount -t tmpfs -o mode=1777 none /tmp; "
            f"{user_home(USER)}"
            f"(cat /etc/passwd; echo 'other:x:{USER}:{USER}::{HOME}:/bin/sh') > /tmp/p; "
            "mount --bind /tmp/p /etc/passwd; "
            f"{opening()} echo ready; cat"
        )
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout.readline() == "ready\n"
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")},
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",  # then a line comes in pieces
            "SLURM_CONF": f"{RUN_DIR}/lab/slurm/slurm.conf",
        }
        self.root("cosched", "lab", "up", *size.words, "--no-daemons")
        self.slurm("up", "--partition", "shared", "--cpus", "2")
        ring = ROOT / "tests/domain/ring.c"
        self.root("mpicc", "-o", f"{HOME}/ring", str(ring))
        app = ROOT / "benchmarks/programs/wavefront.c"
        self.root("mpicc", "-O2", "-o", f"{HOME}/app", str(app), "-lm")
        self.write("look", LOOK)

    def root(self, *words, input=None):
        done = subprocess.run(
            ["nsenter", "--mount", "--target", str(self._keeper.pid), "--wdns=/", *words],
            env={**self.environ, "COSCHED_RUN_DIR": RUN_DIR},
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def slurm(self, *words):
        return self.root(sys.executable, "-m", "cosched.lab.slurm", *words)

    def user(self, node, *words):
        """Runs a command of the user on a node; returns its output."""
        return self.root(
            *("cosched", "lab", "exec", node),
            *("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"),
            *("env", "-u", "COSCHED_RUN_DIR", f"HOME={HOME}", f"XDG_CACHE_HOME={HOME}"),
            *("sh", "-c", f'cd {HOME}; exec "$@"', "sh", *words),
        )

    def write(self, name, text):
        self.root("tee", f"{HOME}/{name}", input=text)
        self.root("chmod", "755", f"{HOME}/{name}")

    def read(self, name):
        return self.root("cat", f"{HOME}/{name}")

    def batch(self, script):
        """Submits a batch script for all nodes; returns its job's number."""
        start = "#!/bin/sh\nexport COSCHED_RUN_DIR=$HOME/run.$SLURM_JOB_ID\n"
        nodes = f"--nodes={len(self.names)}"
        return self.sbatch(start + script, nodes, "--ntasks-per-node=2")

    def sbatch(self, text, *options):
        self.write("job.sh", text)
        words = ["sbatch", "--parsable", *options, f"--output={HOME}/%j.out", "job.sh"]
        return self.user("lab1", *words).strip()

    def state(self, job):
        return self.user("lab1", "squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def wait(self, job, within_s=DEADLINE_S):
        """Waits for a job's end; returns its output."""
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        until(lambda: self.state(job) in over, f"job {job} ends", within_s)
        return self.read(f"{job}.out")

    def processes(self):
        """Returns the command lines of the user's processes."""
        words = ["ps", "-o", "stat=,args=", "-u", str(USER)]
        lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        return [line for line in lines.splitlines() if not line.startswith("Z")]

    def until_nothing_runs(self):
        deadline = time.monotonic() + 20
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.2)

    def close(self):
        try:
            self.slurm("down")
            self.root("cosched", "lab", "down")
        finally:
            self._keeper.stdin.close()
            self._keeper.wait()
            self._keeper.stdout.close()


@pytest.fixture(scope="module")
def site(crowded_lab_size):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    skip_in_tmp()
    with alone():
        made = Site(crowded_lab_size)
        yield made
        made.close()


@pytest.fixture(autouse=True)
def nothing_is_left(site):
    yield
    site.until_nothing_runs()


def test_batch_script_runs_jobs_through_a_domain_of_its_allocation(site):
    nodes = len(site.names)
    job = site.batch(
        "cosched cluster up\n"
        f"cosched submit --wait --nodes {nodes} --ppn 2 ./ring\n"
        "echo status $?\n"
        f"cosched submit --wait --nodes {nodes} --ppn 1 ./look\n"
        f"cosched submit --wait --nodes {nodes} sh -c 'exit 3'; echo status $?\n"
        "squeue --noheader --steps --format=%j\n"
        "cosched cluster down\n"
        "echo down $?\n"
        "cosched cluster up; cosched cluster down; cosched cluster down\n"
    )
    lines = site.wait(job).splitlines()
    named = "lab1, lab2" if nodes == 2 else f"{nodes} nodes"
    assert lines[0] == f"domain run.{job} is up: {named}"
    ranks = 2 * nodes
    assert lines[1:3] == [f"{ranks} ranks, sum {sum(range(ranks))}", "status 0"]
    for node in site.names:
        (tree,) = [line for line in lines if line.startswith(f"{node} ")]
        assert "slurmstepd:" in tree
        assert str(BIN) in tree
    assert "status 3" in lines
    assert "cosched-agents" in lines
    at = lines.index("down 0")
    nothing = f"no domain is up in {HOME}/run.{job}"
    assert lines[at + 1 :] == [lines[0], "the domain is down", nothing]
    for name in (f"domain/keys/{site.last}.secret", "domain/keys/controller.secret"):
        mode = site.root("stat", "-c", "%a %u", f"{HOME}/run.{job}/{name}")
        assert mode == f"600 {USER}\n"
    assert site.root("stat", "-c", "%a", f"{HOME}/run.{job}") == "700\n"


def test_batch_script_of_the_guide_runs(site):
    page = (ROOT / "docs" / "domain.md").read_text()
    (script,) = re.findall(r"^```bash\n((?:.*\n)*?)```$", page, re.MULTILINE)
    job = site.sbatch(script)
    lines = site.wait(job).splitlines()
    assert lines[:2] == [f"domain {job} is up: lab1, lab2", "job 1"]
    assert len(lines) > 2
    assert "cosched" not in "".join(lines[2:])
    assert site.state(job) == "COMPLETED"
    assert site.root("ls", "-A", f"{HOME}/.cosched") == ""
    assert site.read("cosched-1.out")


def test_end_of_the_script_ends_the_domain(site):
    submit = f"cosched submit --nodes {len(site.names)} sleep 600"
    job = site.batch(f"cosched cluster up; {submit}; sleep 1\n")
    assert site.wait(job).endswith("job 1\n")
    site.until_nothing_runs()


def test_scancel_ends_everything_after_the_tasks_could_react(site):
    script = (
        "node=$(uname -n); trap 'echo caught > caught.$node; exit 1' TERM; "
        "echo begun; while :; do sleep 600 & wait; done"
    )
    site.write("patient", f"#!/bin/sh\n{script}\n")
    nodes = len(site.names)
    submit = f"cosched submit --wait --nodes {nodes} --output tasks ./patient"
    job = site.batch(f"cosched cluster up; {submit}\n")
    begun = "cat tasks 2>/dev/null || true"
    until(
        lambda: site.user("lab1", "sh", "-c", begun) == "begun\n" * nodes,
        "the tasks begin",
    )
    site.user("lab1", "scancel", job)
    site.until_nothing_runs()
    until(lambda: site.state(job) == "CANCELLED", "the job is cancelled")
    for node in site.names:
        assert site.read(f"caught.{node}") == "caught\n"


def test_controller_runs_where_salloc_was_typed(site):
    script = (
        f"export COSCHED_RUN_DIR={HOME}/alloc; cosched cluster up && "
        "cosched submit --wait uname -n; cosched cluster down"
    )
    said = site.user(site.last, "salloc", "--quiet", "-w", "lab1", "sh", "-c", script)
    assert said == "domain alloc is up: lab1\nlab1\nthe domain is down\n"
    assert f'controller = "{site.last}:' in site.read("alloc/domain/domain.toml")


# -- bad input -----------------------------------------------------------------------------


def test_run_directory_of_one_node_alone_is_one_line(site):
    site.user("lab1", "mkdir", "-p", f"{HOME}/lone")
    mount = ("mount", "-t", "tmpfs", "n", f"{HOME}/lone")
    site.root("cosched", "lab", "exec", site.last, *mount)
    job = site.batch(f"cosched cluster up --run-dir {HOME}/lone; echo status $?\n")
    assert site.wait(job) == (
        f"cosched: {site.last} does not see {HOME}/lone of this node; name a directory "
        "that all nodes share: export COSCHED_RUN_DIR=$HOME/.cosched/$SLURM_JOB_ID\n"
        "status 1\n"
    )


def test_node_that_cannot_listen_is_one_line(site):
    last = site.last
    server = f"socket.create_server(('{last}', 19001))"
    hold = f"import socket; s = {server}; open('held', 'w'); "
    script = f'srun --overlap -w {last} -N1 -n1 {BIN}/python -c "{hold} input()" < fifo &\n'
    site.user("lab1", "mkfifo", "fifo")
    job = site.batch(
        f"{script}exec 3> fifo; while [ ! -e held ]; do sleep 0.1; done\n"
        "cosched cluster up --port 19000; echo status $?\necho >&3; wait\n"
    )
    line, status = site.wait(job).splitlines()
    assert status == "status 1"
    assert line.startswith(
        f"cosched: {last}: agent: cannot listen on {last}:19001: Address already in use"
    )


def test_missing_srun_is_one_line(site):
    job = site.batch("cosched=$(command -v cosched); PATH=/none $cosched cluster up\n")
    assert site.wait(job) == (
        f"cosched: srun not found in job {job} of Slurm; add Slurm's commands to PATH, or "
        "name the nodes with --hosts\n"
    )


def test_node_whose_slurmd_is_away_is_one_line(site):
    last = site.last
    pid = site.root("cat", f"{RUN_DIR}/lab/slurm/slurmd.{last}.pid").strip()
    job = site.batch(
        "while [ ! -e go ]; do sleep 0.1; done\ncosched cluster up; echo status $?\n"
    )
    until(lambda: site.state(job) == "RUNNING", "the job runs")
    site.root("kill", pid)
    eventually(lambda: not Path(f"/proc/{pid}/exe").exists(), "slurmd ends")
    site.user("lab1", "touch", "go")
    # Slurm calls the job COMPLETING until the slurmd is back.
    until(lambda: "status" in site.read(f"{job}.out"), "the command ends", 2 * DEADLINE_S)
    site.root("cosched", "lab", "exec", last, "slurmd", "-N", last)
    # Between many nodes slurmstepd waits a minute for the one that never began.
    line = site.wait(job, 2 * DEADLINE_S)
    nodes = len(site.names)
    assert line.startswith(f"cosched: 1 of {nodes} nodes did not answer "), line
    assert f"{last}; srun: error: " in line
    assert line.endswith(".log)\nstatus 1\n")
