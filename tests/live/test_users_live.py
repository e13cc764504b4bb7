"""An ordinary user at the command line beside root's daemons: the user's commands find the
daemons, run and change the user's job, and neither show nor change other jobs.

The tests run in a mount namespace with a private /run and /tmp.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.linux.homes import cache_home
from tests.live.conftest import eventually
from tests.places import ROOT

pytestmark = [pytest.mark.live, pytest.mark.mpi_job]

USER = 65534
HOME = "/tmp/home"
PROGRAM = f"""
import os, time
from mpi4py import MPI
while not os.path.exists("{HOME}/stop"):
    MPI.COMM_WORLD.barrier()
    time.sleep(0.01)
"""


def opening():
    """Shell commands that let every user reach the interpreter and this tree, also in a
    private folder such as root's home."""
    needed = {Path(sys.base_prefix), Path(sys.prefix), ROOT}
    script = []
    for number, path in enumerate(sorted(needed)):
        above = [p for p in reversed(path.parents) if not p.stat().st_mode & 0o001]
        if not above:
            continue
        kept = f"/tmp/kept{number}"
        script += [f"mkdir {kept}", f"mount --bind {path} {kept}"]
        if f"mount -t tmpfs -o mode=755 none {above[0]}" not in script:
            script.append(f"mount -t tmpfs -o mode=755 none {above[0]}")
        script += [f"mkdir -p {path}", f"mount --move {kept} {path}"]
    return "".join(f"{line}; " for line in script)


def user_home(uid):
    """Shell commands that make the home of a user, with the interposers that were built for
    this one: each build takes seconds. Run them before ``opening``."""
    built = cache_home(os.environ) / "cosched" / "shim"
    kept = f"mkdir {HOME}/cosched; cp -r {built} {HOME}/cosched" if built.is_dir() else ":"
    return f"mkdir -m 755 {HOME}; {kept}; chown -R {uid} {HOME}; "


class Machine:
    """A mount namespace in which commands run as different users."""

    def __init__(self, node):
        self.node = node
        self._keeper = subprocess.Popen(
            [
                *("unshare", "--mount", "--propagation", "private", "sh", "-ec"),
                "mount -t tmpfs none /run; mount -t tmpfs -o mode=1777 none /tmp; "
                f"{user_home(USER)}{opening()} echo ready; cat",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout.readline() == "ready\n"
        self.jobs = []

    def command(self, uid, *words):
        user = [
            *("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"),
            *("env", f"HOME={HOME}", f"XDG_CACHE_HOME={HOME}"),
        ]
        return [
            *("nsenter", "--mount", "--target", str(self._keeper.pid), "--wdns=/"),
            *(user if uid else []),
            *words,
        ]

    @property
    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
        return {**kept, "COSCHED_NODE": self.node}

    def run(self, uid, *words):
        return subprocess.run(
            self.command(uid, *words),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def cosched(self, uid, *words, status=0):
        done = self.run(uid, sys.executable, "-m", "cosched.cli.main", *words)
        assert done.returncode == status, (words, done.stdout, done.stderr)
        text = done.stdout if status == 0 else done.stderr
        assert "Traceback" not in done.stderr
        return text.strip()

    def start_job(self, uid, name):
        words = [
            *(sys.executable, "-m", "cosched.cli.run.main", "--job", name, "-n", "1"),
            *(sys.executable, "-c", PROGRAM),
        ]
        self.jobs.append(
            subprocess.Popen(
                self.command(uid, *words),
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return self.jobs[-1]

    def close(self):
        self.run(0, "touch", f"{HOME}/stop")
        for job in self.jobs:
            job.communicate()
        self.run(0, sys.executable, "-m", "cosched.cli.main", "down", "--node", self.node)
        self._keeper.communicate("")


def skip_in_tmp():
    """Skips a test that replaces /tmp if it needs something there."""
    if Path("/tmp") in (*Path(sys.executable).parents, *Path(__file__).parents):
        pytest.skip("the interpreter or this tree is in /tmp, which this test replaces")


@pytest.fixture
def machine():
    if shutil.which("nsenter") is None or shutil.which("setpriv") is None:
        pytest.skip("needs nsenter and setpriv of util-linux")
    skip_in_tmp()
    made = Machine(f"u{os.getpid()}")
    yield made
    made.close()


def names(machine, uid):
    nodes = json.loads(machine.cosched(uid, "status", "--json"))["nodes"]
    return {job["name"] for node in nodes for job in node["jobs"]}


def test_user_beside_root_daemons_sees_only_own_jobs(machine):
    machine.cosched(0, "up", "--node", machine.node)
    machine.start_job(0, "roots")
    mine = machine.start_job(USER, "mine")
    eventually(lambda: names(machine, USER) == {"roots", "mine"}, "both jobs", 300)
    assert machine.node in machine.cosched(USER, "status")
    assert "mine" in machine.cosched(USER, "top", "--once")
    assert f"{USER}.mine on {machine.node}" in machine.cosched(USER, "why", "mine")
    assert "[node]" in machine.cosched(USER, "config", "show")
    advice = machine.cosched(USER, "advise", "mine")
    assert "mine" in advice
    # His own job, and no other.
    assert machine.cosched(USER, "suspend", "mine").endswith("suspended")
    assert machine.cosched(USER, "resume", "mine").startswith(f"node {machine.node}")
    assert "belongs to uid 0" in machine.cosched(USER, "suspend", "roots", status=1)
    assert "only its owner" in machine.cosched(USER, "why", "0.roots", status=1)
    assert "for root" in machine.cosched(USER, "config", "set", "slice=1s", status=1)
    for file in ("scheduler.log", "trace.jsonl", "history.jsonl", "scheduler.lock"):
        path = f"/run/cosched/{machine.node}/{file}"
        assert "Permission denied" in machine.run(USER, "cat", path).stderr, file
    machine.run(0, "touch", f"{HOME}/stop")
    assert mine.wait() == 0
    eventually(lambda: not names(machine, USER), "both jobs' end", 60)
    shown = json.loads(machine.cosched(USER, "history", "--json"))["jobs"]
    assert {job["name"] for job in shown} == {"mine"}
    shown = json.loads(machine.cosched(0, "history", "--json"))["jobs"]
    assert {job["name"] for job in shown} == {"mine", "roots"}


def test_planted_directory_is_not_trusted(machine):
    planted = f"/tmp/cosched-{USER}"
    machine.run(1, "mkdir", "-m", "777", planted)
    line = machine.cosched(USER, "status", status=1)
    assert line.startswith(f"cosched: {planted}: belongs to ")
    assert "\n" not in line
    assert f"{planted}: belongs to " in machine.cosched(USER, "up", status=1)
    machine.cosched(0, "up", "--node", machine.node)
    assert machine.node in machine.cosched(USER, "status")


def test_user_gets_private_daemons_that_others_do_not_see(machine):
    machine.start_job(USER, "mine")
    eventually(lambda: "mine" in private_names(machine), "the job", 300)
    assert machine.run(USER, "stat", "-c", "%a", f"/tmp/cosched-{USER}").stdout == "700\n"
    assert "no daemons are up" in machine.cosched(0, "status", status=1)
    there = f"/tmp/cosched-{USER}"
    assert "not readable" in machine.cosched(1, "down", "--run-dir", there, status=2)


def private_names(machine):
    done = machine.run(USER, sys.executable, "-m", "cosched.cli.main", "status", "--json")
    nodes = json.loads(done.stdout)["nodes"]
    return {job["name"] for node in nodes for job in node["jobs"]}
