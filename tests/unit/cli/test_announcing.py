"""``cosched-run`` announces a job to this node's daemon before it has read everything."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cosched.cli.run.announcing import announce
from cosched.cli.run.choices import Asked
from cosched.cli.run.given import Given
from cosched.linux.here import this_node
from cosched.node.sockets.registration import parse_hello
from cosched.rundir.paths import NodePaths
from cosched.shm.region_values import Phase


@pytest.fixture
def heard(tmp_path, monkeypatch):
    """Returns the registration that a daemon gets; None if it gets none."""
    for name in ("PMI_RANK", "SLURM_JOB_ID", "FLUX_JOB_ID", "PBS_JOBID"):
        monkeypatch.delenv(name, raising=False)
    path = NodePaths(tmp_path, this_node(os.environ)).register_socket
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)

        def hear():
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return None
            with connection:
                return parse_hello(connection.recv(4096))

        yield hear


def given(run_dir: Path, *argv: str, **fields) -> Given:
    return Given(argv, run_dir, True, **fields)


def test_plain_start_is_announced(heard, tmp_path):
    name = announce(given(tmp_path, "python3", "-u", "app.py", memory_bytes=5))
    assert name is not None
    assert name.startswith("app-")
    hello = heard()
    assert (hello.job, hello.phase, hello.memory_bytes) == (name, Phase.COMMAND, 5)
    assert hello.submitted_ns > 0


def test_start_on_several_nodes_is_announced_on_one_of_them(heard, tmp_path):
    hosts = ("n1", this_node(os.environ))
    name = announce(given(tmp_path, "./app", hosts=hosts))
    assert name is not None
    assert heard().job == name


@pytest.mark.parametrize(
    ("argv", "fields"),
    [
        (("mpiexec", "-n", "2", "./app"), {}),
        (("time", "./app"), {}),
        (("./app",), {"name": "mine"}),
        (("./app",), {"hosts": ("n1",)}),
        (("./app",), {"register": "init"}),
        (("./app",), {"asked": Asked(no_shim=True)}),
    ],
)
def test_other_starts_are_not(heard, tmp_path, argv, fields):
    assert announce(given(tmp_path, *argv, **fields)) is None
    assert heard() is None


def test_a_run_directory_that_cannot_be_looked_at_is_left_to_the_start(tmp_path):
    assert announce(given(tmp_path / ("x" * 300), "./app")) is None


@pytest.mark.parametrize("name", ["PMI_RANK", "SLURM_JOB_ID"])
def test_starts_inside_other_jobs_are_not(heard, tmp_path, name, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert announce(given(tmp_path, "./app")) is None
    assert heard() is None


def test_without_a_daemon_nothing_is_announced(tmp_path):
    assert announce(given(tmp_path, "./app")) is None
