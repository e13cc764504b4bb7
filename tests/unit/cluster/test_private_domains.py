"""Domains of one machine that commands start by themselves, and those of operators."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cosched.cli.domain import sending
from cosched.cluster.client import NoDomain
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up import private
from cosched.cluster.up.domain import written_domain
from cosched.cluster.up.private import renew_private, restore_private, start_private
from cosched.config.domain import DomainConfig, write_config
from cosched.core.errors import CoschedError
from cosched.rundir.lock import DaemonLock

NODES = {"n1": "127.0.0.1:2"}


@pytest.fixture
def paths(tmp_path):
    paths = DomainPaths(tmp_path / "run")
    paths.directory.mkdir(parents=True)
    return paths


def write(paths, name="private", nodes=NODES):
    paths.config.write_text(write_config(DomainConfig(name, "127.0.0.1:1", nodes)))


@pytest.fixture
def started(monkeypatch):
    """The members that are started again, each with the options of the controller."""
    found = []
    monkeypatch.setattr(
        private, "start_again", lambda _paths, _places, *given: found.append(given)
    )
    return found


@pytest.mark.parametrize(
    ("up", "missing", "line"),
    [
        ("controller", "n1", "the agent of the private domain has ended (see "),
        ("agent", "controller", "the controller of the private domain was killed; start"),
    ],
)
def test_missing_member_of_a_private_domain_is_started(
    paths, monkeypatch, started, up, missing, line
):
    write(paths)
    paths.controller_lock.touch()
    monkeypatch.setattr(private, "is_listening", lambda socket: up in socket.name)
    lines = []
    restore_private(paths.run_dir, lines.append)
    assert started == [([missing], "--idle", "60")]
    assert [each.startswith(line) for each in lines] == [True]


def test_folder_of_another_user_is_one_line(paths, monkeypatch):
    def refuse(path, **_options):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(CoschedError, match="run: Permission denied; use --run-dir"):
        start_private(paths.run_dir, pytest.fail)


def test_domain_of_several_nodes_is_never_a_private_one(paths, started):
    write(paths, nodes={"n1": "127.0.0.1:2", "n2": "127.0.0.1:3"})
    restore_private(paths.run_dir, pytest.fail)
    with pytest.raises(NoDomain, match="start it with: cosched cluster up"):
        start_private(paths.run_dir, pytest.fail)
    assert started == []


def test_start_is_reported_by_the_process_that_starts(paths, started, monkeypatch):
    starts, lines = [], []
    monkeypatch.setattr(private, "_start_all", starts.append)
    start_private(paths.run_dir, lines.append)
    assert (starts, lines) == ([paths], ["starting a private domain on this machine"])
    write(paths)
    monkeypatch.setattr(private, "_is_up", lambda _socket, _lock: True)
    start_private(paths.run_dir, pytest.fail)
    assert (starts, started) == ([paths], [([], "--idle", "60")])


def test_operator_cannot_give_a_domain_the_name_of_private_ones(paths):
    config = DomainConfig("private", "127.0.0.1:1", NODES)
    with (
        pytest.raises(CoschedError, match="the name 'private' is for domains that"),
        written_domain(paths, config),
    ):
        pytest.fail("it is refused before")
    assert list(paths.directory.iterdir()) == []


def test_machine_has_one_name_in_its_domain(paths, monkeypatch):
    """A host may have a name that no node can have."""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="controller"))
    write(paths)
    paths.private_lock.touch()
    paths.node("controller-node").mkdir()
    agent = DaemonLock(paths.agent_lock("controller-node"))
    assert agent.acquire()
    monkeypatch.setattr(sending, "what_holds_back", lambda pid: f"process {pid}")
    assert sending._holds_back(paths) == f"process {os.getpid()}"
    agent.release()
    stopped = []

    def stop(_paths, node, *, end_jobs):
        stopped.append(node)
        raise CoschedError("jobs run")

    monkeypatch.setattr(private, "stop_domain", stop)
    renew_private(paths.run_dir, "a limit", lambda line: None)
    assert stopped == ["controller-node"]
