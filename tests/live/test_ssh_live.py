"""Commands reach other nodes by a real ssh: each node of a lab has an sshd, and the names
of these hosts are not those of the lab."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.lab import life
from cosched.lab.plan import plan_crowded_nodes
from tests.live.conftest import eventually
from tests.places import ROOT

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
PORT = 2222
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
    """A lab of two nodes, reached as far1 and far2 by ssh alone."""

    def __init__(self, run_dir, folder):
        self.folder = folder
        self.lab = life.make_lab(run_dir, plan_crowded_nodes(2, 1, life.usable_siblings()))
        self._write_keys()
        self.daemons = [self._start(node) for node in self.lab.nodes]

    def _write_keys(self):
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f"]
            subprocess.run([*words, self.folder / name], check=True)
        lines = [
            f"Port {PORT}\nUser root\nIdentityFile {self.folder}/user",
            "IdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null",
            "BatchMode yes\nLogLevel ERROR\nConnectTimeout 10",
        ]
        for i, node in enumerate(self.lab.nodes, 1):
            lines.append(f"Host far{i}\n  HostName {node.address}")
        (self.folder / "config").write_text("\n".join(lines) + "\n")
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def _start(self, node):
        """Starts the sshd of a node; its log tells when it listens."""
        conf = self.folder / f"sshd.{node.name}"
        conf.write_text(
            f"Port {PORT}\nListenAddress {node.address}\nHostKey {self.folder}/host\n"
            f"AuthorizedKeysFile {self.folder}/user.pub\nStrictModes no\nUsePAM no\n"
            f"PermitRootLogin yes\nPidFile none\n"
            f"SetEnv COSCHED_RUN_DIR={self.lab.run_dir}\n"
        )
        log = self.folder / f"log.{node.name}"
        words = [SSHD, "-D", "-E", str(log), "-f", str(conf)]
        process = subprocess.Popen([*self.lab.enter_argv(node.name, "/"), *words])
        eventually(
            lambda: log.exists() and "Server listening" in log.read_text(),
            f"the sshd of {node.name} listens",
            PATIENCE_S,
        )
        return process

    def cosched(self, *words):
        """Runs a command with ssh as the remote shell. It runs on node lab1, and its run
        directory has no lab. Returns its status, output and errors."""
        config = self.folder / "config"
        environ = {
            **os.environ,
            "COSCHED_REMOTE_SHELL": f"ssh -F {config}",
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

    def close(self):
        for process in self.daemons:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        life.down(self.lab.run_dir)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("ssh"))
    yield made
    made.close()


@pytest.fixture
def job(site, tmp_path):
    """A job of one rank a node that runs until the test ends."""
    stop = tmp_path / "stop"
    command = [
        *(sys.executable, "-m", "cosched.cli.run.main", "--hosts", "lab1,lab2"),
        *("--run-dir", str(site.lab.run_dir), "--job", "far"),
        *(sys.executable, "-c", PROGRAM, str(stop)),
    ]
    with subprocess.Popen(command) as process:
        yield "far"
        stop.touch()
        assert process.wait(PATIENCE_S) == 0


def modes(site):
    nodes = site.document("status", "--hosts", "far1,far2")["nodes"]
    return {
        node["node"]: [job["mode"] for job in node["jobs"] if job["name"] == "far"]
        for node in nodes
    }


def test_commands_act_on_nodes_by_ssh(site, job):
    eventually(
        lambda: modes(site) == {"lab1": ["coscheduled"], "lab2": ["coscheduled"]},
        "the job runs on both nodes",
        PATIENCE_S,
    )
    done = site.cosched("suspend", job, "--hosts", "far[1-2]")
    assert done.returncode == 0, done.stderr
    assert modes(site) == {"lab1": ["suspended"], "lab2": ["suspended"]}
    assert site.cosched("resume", job, "--hosts", "far[1-2]").returncode == 0
    assert modes(site) == {"lab1": ["coscheduled"], "lab2": ["coscheduled"]}
    assert site.cosched("why", job, "--hosts", "far1,far2").returncode == 0


def test_doctor_compares_nodes_by_ssh(site):
    words = ("--shell", f"ssh -F {site.folder}/config", "--run-dir", str(site.lab.run_dir))
    found = site.document("doctor", "--hosts", "far1,far2", *words)
    facts = [node["facts"] for node in found["nodes"]]
    assert [one["node"] for one in facts] == ["lab1", "lab2"]
    assert all(one["daemon"] is not None for one in facts)
    assert all(abs(one["offset_s"]) <= one["within_s"] for one in found["nodes"])


def test_node_without_sshd_is_named(site):
    site.daemons[1].send_signal(signal.SIGTERM)
    site.daemons[1].wait(PATIENCE_S)
    done = site.cosched("status", "--hosts", "far1,far2")
    assert done.returncode == 0, done.stderr
    assert "cosched: node far2: ssh: connect to host" in done.stderr
