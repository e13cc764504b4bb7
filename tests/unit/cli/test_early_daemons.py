"""cosched-run begins to start private daemons early, where its job surely needs them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cosched.cli.run import early_daemons
from cosched.cli.run.early_daemons import begin_daemons
from cosched.cli.run.plain import read_plain
from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.here import this_node
from cosched.node.lifetime import private_pair
from cosched.node.lifetime.private_pair import begin_private_pair
from cosched.rundir.paths import NodePaths


@pytest.fixture
def begins(tmp_path, monkeypatch):
    """Returns whether the start of daemons begins for a command line."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("mpiexec", "srun", "app"):
        (bin / name).write_text("#!/bin/sh\n")
        (bin / name).chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("COSCHED_", "SLURM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(bin))
    monkeypatch.setenv("HOME", str(tmp_path))
    begun = []
    monkeypatch.setattr(early_daemons, "begin_private_pair", begun.append)

    def begins(line):
        given = read_plain(["--run-dir", str(tmp_path / "run"), *line.split()])
        begin_daemons(given)
        found = [paths.run_dir for paths in begun]
        begun.clear()
        return found == [tmp_path / "run"]

    return begins


@pytest.mark.parametrize(
    "line",
    ["app", "-n 4 app -f x", "-- mpiexec -n 2 app", "mpiexec -np 2 app --host a"],
)
def test_a_usual_job_needs_them(begins, line):
    assert begins(line)


@pytest.mark.parametrize(
    "line",
    [
        *("./nothere", "nothere", "--no-shim app", "--hosts a app", "--wait nonsense app"),
        *("mpiexec -host a -n 2 app", "mpiexec -n 2 -host a app", "srun -n 2 app"),
        *("mpiexec -n 1 app : -host b app", "time app", "mpiexec app"),
    ],
)
def test_another_job_may_not(begins, line):
    assert not begins(line)


@pytest.mark.parametrize(
    "name",
    [
        "HYDRA_HOST_FILE",
        "OMPI_MCA_orte_default_hostfile",
        "SLURM_JOB_ID",
        "COSCHED_NODE_GMET",
    ],
)
def test_a_variable_may_name_hosts_or_settings(begins, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert not begins("app")


def test_without_an_mpi_no_job_starts(begins, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python3"))
    (tmp_path / "bin/mpiexec").unlink()
    assert not begins("app")


def test_daemons_that_are_up_are_used(begins, tmp_path):
    paths = NodePaths(tmp_path / "run", this_node(os.environ))
    paths.directory.mkdir(parents=True)
    paths.control_socket.touch()
    assert not begins("app")


def test_the_greeting_and_errors_come_from_the_child(monkeypatch):
    paths, children = NodePaths(Path("/nowhere"), "n"), proc.children(os.getpid())
    monkeypatch.setattr(private_pair, "_start", lambda paths: f"{paths.node} is up")
    assert begin_private_pair(paths).wait() == "n is up"

    def refuse(_):
        raise CoschedError("no room")

    monkeypatch.setattr(private_pair, "_start", refuse)
    with pytest.raises(CoschedError, match="no room"):
        begin_private_pair(paths).wait()
    begin_private_pair(paths).let_be()
    assert proc.children(os.getpid()) == children
