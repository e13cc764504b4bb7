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
    """A lab whose nodes are reached as far1, far2, ... by ssh alone."""

    def __init__(self, run_dir, folder, size):
        self.folder = folder
        self.names = size.names
        self.fars = [f"far{number}" for number in range(1, size.nodes + 1)]
        self.hosts = ",".join(self.fars)
        self.lab = size.up(run_dir)
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
        for far, node in zip(self.fars, self.lab.nodes, strict=True):
            lines.append(f"Host {far}\n  HostName {node.address}")
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
def site(tmp_path_factory, crowded_lab_size):
    folders = (tmp_path_factory.mktemp(name) for name in ("run", "ssh"))
    made = Site(*folders, crowded_lab_size)
    yield made
    made.close()


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
    words = ("--shell", f"ssh -F {site.folder}/config", "--run-dir", str(site.lab.run_dir))
    found = site.document("doctor", "--hosts", site.hosts, *words)
    facts = [node["facts"] for node in found["nodes"]]
    assert [one["node"] for one in facts] == list(site.names)
    assert all(one["daemon"] is not None for one in facts)
    assert all(abs(one["offset_s"]) <= one["within_s"] for one in found["nodes"])


def test_node_without_sshd_is_named(site):
    site.daemons[-1].send_signal(signal.SIGTERM)
    site.daemons[-1].wait(PATIENCE_S)
    done = site.cosched("status", "--hosts", site.hosts)
    assert done.returncode == 0, done.stderr
    assert f"cosched: node {site.fars[-1]}: ssh: connect to host" in done.stderr
    assert done.stderr.count("cosched: node") == 1
