"""Commands reach other nodes by a real ssh: each node of a lab has an sshd, and the names
of these hosts are not those of the lab."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from cosched.lab import life
from tests.labs.ssh import ssh_servers
from tests.live.conftest import eventually
from tests.places import ROOT

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
PATIENCE_S = 60

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.mpi_job,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
    pytest.mark.skipif(SSHD is None, reason="apt-get install openssh-server"),
]

PROGRAM = """
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
while world.bcast(not os.path.exists(sys.argv[1])):
    pass
"""


class Site:
    """A lab whose nodes are reached as far1, far2, ... by ssh alone."""

    def __init__(self, run_dir, folder, size):
        self.folder = folder
        self.names = size.names
        self.fars = [f"far{number}" for number in range(1, size.nodes + 1)]
        self.hosts = ",".join(self.fars)
        self.lab = size.up(run_dir)
        aliases = dict(zip(self.fars, self.names, strict=True))
        with contextlib.ExitStack() as made:
            made.callback(life.down, run_dir)
            self.ssh = made.enter_context(ssh_servers(self.lab, folder, aliases))
            self.open = made.pop_all()

    def cosched(self, *words):
        """Runs a command with ssh as the remote shell. It runs on node lab1, and its run
        directory has no lab. Returns its status, output and errors."""
        environ = {
            **os.environ,
            "COSCHED_REMOTE_SHELL": f"ssh -F {self.ssh.config}",
            "COSCHED_RUN_DIR": str(self.folder),
        }
        return subprocess.run(
            [
                *self.lab.enter_argv("lab1", "/"),
                *(sys.executable, "-m", "cosched.cli.main", *words),
            ],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def document(self, *words):
        done = self.cosched(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory, crowded_lab_size):
    folders = (tmp_path_factory.mktemp(name) for name in ("run", "ssh"))
    made = Site(*folders, crowded_lab_size)
    yield made
    made.open.close()


@pytest.fixture
def job(site, tmp_path):
    """A job of one rank a node that runs until the test ends."""
    stop = tmp_path / "stop"
    command = [
        *(sys.executable, "-m", "cosched.cli.run.main", "--hosts", ",".join(site.names)),
        *("--run-dir", str(site.lab.run_dir), "--job", "far"),
        *(sys.executable, "-c", PROGRAM, str(stop)),
    ]
    with subprocess.Popen(command) as process:
        yield "far"
        stop.touch()
        assert process.wait(PATIENCE_S) == 0


def modes(site):
    nodes = site.document("status", "--hosts", site.hosts)["nodes"]
    return {
        node["node"]: [job["mode"] for job in node["jobs"] if job["name"] == "far"]
        for node in nodes
    }


def test_commands_act_on_nodes_by_ssh(site, job):
    runs = {name: ["coscheduled"] for name in site.names}
    eventually(lambda: modes(site) == runs, "the job runs on all nodes", PATIENCE_S)
    hosts = ("--hosts", f"far[1-{len(site.fars)}]")
    done = site.cosched("suspend", job, *hosts)
    assert done.returncode == 0, done.stderr
    assert modes(site) == {name: ["suspended"] for name in site.names}
    assert site.cosched("resume", job, *hosts).returncode == 0
    assert modes(site) == runs
    assert site.cosched("why", job, "--hosts", site.hosts).returncode == 0


def test_doctor_compares_nodes_by_ssh(site):
    words = ("--shell", f"ssh -F {site.ssh.config}", "--run-dir", str(site.lab.run_dir))
    found = site.document("doctor", "--hosts", site.hosts, *words)
    facts = [node["facts"] for node in found["nodes"]]
    assert [one["node"] for one in facts] == list(site.names)
    assert all(one["daemon"] is not None for one in facts)
    assert all(abs(one["offset_s"]) <= one["within_s"] for one in found["nodes"])


def test_node_without_sshd_is_named(site):
    site.ssh.stop(site.names[-1])
    done = site.cosched("status", "--hosts", site.hosts)
    assert done.returncode == 0, done.stderr
    assert f"cosched: node {site.fars[-1]}: ssh: connect to host" in done.stderr
    assert done.stderr.count("cosched: node") == 1
