"""One MPI job on all nodes of a lab, started by the site's own launcher and the agent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.lab import life

MPIEXEC = Path(sys.executable).parent / "mpiexec"

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi_job,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
    pytest.mark.skipif(not MPIEXEC.exists(), reason=f"no MPI: {MPIEXEC} is missing"),
]

RING = """\
import json, socket
from mpi4py import MPI
world = MPI.COMM_WORLD
after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
heard = world.sendrecv(socket.gethostname(), dest=after, source=before)
told = world.gather([socket.gethostname(), heard])
if world.rank == 0:
    print(json.dumps(told))
"""


def launcher(lab):
    version = subprocess.run(
        [MPIEXEC, "--version"], capture_output=True, text=True, check=True
    )
    hosts = [node.address for node in lab.nodes]
    ranks = ["-n", str(len(hosts))]
    if "HYDRA" in version.stdout:
        agent = ["-launcher", "rsh", "-launcher-exec", lab.agent, "-localhost", hosts[0]]
        return [MPIEXEC, *agent, "-hosts", ",".join(hosts), *ranks, "-ppn", "1"], {
            "UCX_TLS": "tcp,self"
        }
    agent = ["--prtemca", "plm_ssh_agent", lab.agent, "--prtemca", "prte_if_include"]
    tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--bind-to", "none"]
    slots = ",".join(f"{host}:1" for host in hosts)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return [MPIEXEC, *agent, lab.network, *tcp, "--host", slots, *ranks], root


def test_mpi_job_runs_on_all_nodes_over_tcp(tmp_path, lab_size):
    run_dir = tmp_path / "run"
    try:
        lab = lab_size.up(run_dir, daemons=False)
        argv, environ = launcher(lab)
        done = subprocess.run(
            [*lab.enter_argv("lab1"), *argv, sys.executable, "-c", RING],
            capture_output=True,
            text=True,
            timeout=240,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environ},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        names = lab_size.names
        assert json.loads(done.stdout) == [
            [name, names[at - 1]] for at, name in enumerate(names)
        ]
    finally:
        life.down(run_dir)
