"""Starting a node's daemon that does not come up."""

from __future__ import annotations

import sys

import launch_fakes as fakes
import pytest

from cosched.core.errors import CoschedError
from cosched.core.settings import Settings
from cosched.node.lifecycle import NodeOptions, start_node
from cosched.shm.paths import NodePaths


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
