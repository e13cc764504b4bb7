"""Jobs on eight virtual nodes that share the CPUs: commands steer a job on all of them.
Rank 0 names the nodes without a daemon at the start, and the node whose daemons are killed
while two jobs run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from cosched.core.hostlist import expand_hosts
from cosched.lab import life
from cosched.lab.plan import plan_crowded_nodes
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.node.sockets.client import request
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.live.conftest import eventually
from tests.tools.commands import run_command

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi_job,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
]

HOSTS = "lab[1-8]"
PATIENCE_S = 120
#: Rank 0 decides when all stop. At the end each rank has counted the same rounds.
PROGRAM = """
import os, sys
from mpi4py import MPI
world, rounds, goes_on = MPI.COMM_WORLD, 0, True
while goes_on:
    rounds += 1
    goes_on = world.bcast(not os.path.exists(sys.argv[1]))
    if world.rank == 0 and rounds == 1:
        open(sys.argv[2], "w").close()
assert world.allreduce(rounds) == world.size * rounds
if world.rank == 0:
    sys.stdout.write(f"{world.size} ranks agree\\n")
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    try:
        yield life.make_lab(run_dir, plan_crowded_nodes(8, 1, usable_siblings()))
    finally:
        life.down(run_dir)


def kill(paths):
    """Kills both daemons of a node."""
    for lock in (paths.scheduler_lock, paths.timer_lock):
        holder = lock_holder(lock)
        if holder is not None:
            os.kill(holder, signal.SIGKILL)


def start(lab, name, *words):
    command = [
        *(sys.executable, "-m", "cosched.cli.run.main", "--run-dir", str(lab.run_dir)),
        *("--hosts", HOSTS, "--job", name, sys.executable, "-c", PROGRAM, *words),
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def lines(error):
    return [line for line in error.splitlines() if line.startswith("cosched: ")]


def paths_of(lab):
    return {name: NodePaths(lab.run_dir, name) for name in expand_hosts(HOSTS)}


def cosched(lab, *words):
    """Returns the nodes in a command's answer."""
    done = run_command(*words, "--run-dir", lab.run_dir, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["nodes"]


def test_job_is_steered_on_all_nodes_by_its_name(lab, tmp_path):
    stop, begun = tmp_path / "stop", tmp_path / "begun"
    job = start(lab, "all", str(stop), str(begun))
    names = expand_hosts(HOSTS)
    try:
        eventually(begun.exists, "all ranks have begun", PATIENCE_S)
        for word, mode in (("suspend", "suspended"), ("resume", "coscheduled")):
            done = cosched(lab, word, "all")
            assert [(one["node"], one["mode"]) for one in done] == [
                (name, mode) for name in names
            ]
            found = cosched(lab, "status", "all")
            modes = {one["node"]: [job["mode"] for job in one["jobs"]] for one in found}
            assert modes == {name: [mode] for name in names}
        assert {one["node"] for one in cosched(lab, "why", "all")} == set(names)
    finally:
        stop.touch()
        output, error = job.communicate(timeout=PATIENCE_S)
    assert (job.returncode, output) == (0, "8 ranks agree\n"), error


def test_node_that_dies_under_load_is_named(lab, tmp_path):
    """Two jobs share all nodes; the others go on to coschedule them."""
    stop = tmp_path / "stop"
    begun = [tmp_path / name for name in ("one", "two")]
    jobs = [start(lab, path.name, str(stop), str(path)) for path in begun]
    nodes = paths_of(lab)
    try:
        eventually(
            lambda: all(path.exists() for path in begun),
            "all ranks of both jobs have begun",
            PATIENCE_S,
        )
        kill(nodes.pop("lab5"))
        before = {
            name: {j["name"]: j["switches"] for j in request(paths, "status")["jobs"]}
            for name, paths in nodes.items()
        }
        eventually(
            lambda: all(
                job["switches"] > before[name][job["name"]]
                for name, paths in nodes.items()
                for job in request(paths, "status")["jobs"]
            ),
            "the other nodes take turns between both jobs",
            PATIENCE_S,
        )
    finally:
        stop.touch()
        ends = [job.communicate(timeout=PATIENCE_S) for job in jobs]
    for job, (output, error) in zip(jobs, ends, strict=True):
        assert (job.returncode, output) == (0, "8 ranks agree\n"), error
        assert lines(error) == [
            "cosched: coscheduled on 7 of 8 nodes to the end; the daemon ended on lab5"
        ]


def test_nodes_without_daemons_are_named_at_the_start(lab, tmp_path):
    """Lab5's are dead since the test before."""
    for name in ("lab2", "lab5", "lab8"):
        kill(paths_of(lab)[name])
    stop = tmp_path / "stop"
    stop.touch()
    job = start(lab, "three", str(stop), str(tmp_path / "begun"))
    output, error = job.communicate(timeout=PATIENCE_S)
    assert (job.returncode, output) == (0, "8 ranks agree\n"), error
    assert lines(error) == [
        "cosched: coscheduled on 5 of 8 nodes; no daemon on lab2, lab5, lab8"
    ]
