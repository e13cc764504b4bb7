"""The file that describes a node's hardware."""

from __future__ import annotations

import os
import stat
from xml.etree import ElementTree

import pytest

from cosched.cluster.agent import topology
from cosched.cluster.agent.topology import write_topology


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "topology.xml"
    if not write_topology(path):
        pytest.skip("no hwloc")
    return path


def test_file_has_the_cpus_of_this_machine_and_all_users_can_read_it(path):
    units = ElementTree.parse(path).iterfind(".//object[@type='PU']")
    assert {int(unit.get("os_index")) for unit in units} >= os.sched_getaffinity(0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_written_without_hwloc(tmp_path, monkeypatch):
    monkeypatch.setattr(topology, "_LIBRARY", "libhwloc-is-not-here.so.15")
    assert not write_topology(tmp_path / "topology.xml")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_not_there_writes_nothing(path):
    assert not write_topology(path.parent / "none" / "topology.xml")
