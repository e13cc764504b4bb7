"""The start of a node's daemon that does not come up."""

from __future__ import annotations

import sys

import pytest

from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.rundir.paths import NodePaths
from tests.unit.launch import launch_fakes as fakes


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("echo one; echo boom: gone; echo", r", which ends: boom: gone$"),
        (":", r"see \S+scheduler.log$"),
    ],
)
def test_dead_daemon_is_reported_with_its_last_log_line(tmp_path, monkeypatch, last, said):
    """The log may be gone with the node's directory later."""
    paths = NodePaths(tmp_path / "run", "n")
    paths.directory.mkdir(parents=True)
    script = f"#!/bin/sh\n({last}) > {paths.log}\n"
    monkeypatch.setattr(sys, "executable", str(fakes.executable(tmp_path / "dies", script)))
    with pytest.raises(CoschedError, match=rf"node n: the daemon died; .*{said}"):
        start_node(paths, NodeOptions(Settings()))


def test_private_pair_starts_after_a_quicker_one_ended(tmp_path):
    """The other pair was up for our daemon, and has ended when we ask it."""
    paths = NodePaths(tmp_path / "run", "n")
    paths.directory.mkdir(parents=True)
    said = ["node n: its daemons are up already (pid 7)"]

    def spawn(_paths, _options):
        if said:
            raise CoschedError(said.pop())
        return "node n: ready"

    options = NodeOptions(Settings(), private=True)
    assert start_node(paths, options, spawn) == "node n: ready"
    said.append("node n: no class scheduler works here")
    with pytest.raises(CoschedError, match="no class scheduler"):
        start_node(paths, options, spawn)
