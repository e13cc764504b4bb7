"""Starting a node's daemon that does not come up."""

from __future__ import annotations

import sys

import pytest

from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.node.service import lifecycle
from cosched.node.service.lifecycle import NodeOptions, start_node
from cosched.shm.paths import NodePaths
from tests.unit.launch import launch_fakes as fakes


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("echo one; echo boom: gone; echo", r", which ends: boom: gone$"),
        (":", r"see \S+scheduler.log$"),
    ],
)
def test_a_daemon_that_dies_is_told_with_its_last_words(tmp_path, monkeypatch, last, said):
    """The log itself may be gone with the node's directory by then."""
    paths = NodePaths(tmp_path / "run", "n")
    paths.directory.mkdir(parents=True)
    script = f"#!/bin/sh\n({last}) > {paths.log}\n"
    monkeypatch.setattr(sys, "executable", str(fakes.executable(tmp_path / "dies", script)))
    with pytest.raises(CoschedError, match=rf"node n: the daemon died; .*{said}"):
        start_node(paths, NodeOptions(Settings()))


def test_a_private_pair_is_started_where_one_that_was_quicker_has_ended(
    tmp_path, monkeypatch
):
    """It has told our daemon that it is up, and is not there any more when we look."""
    paths = NodePaths(tmp_path / "run", "n")
    paths.directory.mkdir(parents=True)
    said = ["node n: its daemons are up already (pid 7)"]

    def spawn(_paths, _options):
        if said:
            raise CoschedError(said.pop())
        return "node n: ready"

    monkeypatch.setattr(lifecycle, "_spawn", spawn)
    options = NodeOptions(Settings(), private=True)
    assert start_node(paths, options) == "node n: ready"
    said.append("node n: no class scheduler works here")
    with pytest.raises(CoschedError, match="no class scheduler"):
        start_node(paths, options)
