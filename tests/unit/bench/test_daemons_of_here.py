"""A bench finds the daemons of this machine, whatever the user calls it."""

from __future__ import annotations

import os

import pytest

from cosched.bench.run import daemons
from cosched.bench.run.site import Site


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", os.uname().nodename])
def test_this_machine_is_asked_by_its_own_name(tmp_path, monkeypatch, host):
    monkeypatch.delenv("COSCHED_NODE", raising=False)
    monkeypatch.setattr(daemons, "request", lambda paths, _: {"node": paths.node})
    (answer,) = daemons.ask(Site(tmp_path, (host,), None, lab=False)).values()
    assert answer == {"node": os.uname().nodename}


def test_nodes_of_a_lab_and_others_keep_their_names(tmp_path):
    lab = Site(tmp_path, ("lab1",), {"lab1": frozenset({0})}, lab=True)
    assert daemons.paths_of(lab, "lab1").node == "lab1"
    far = Site(tmp_path, ("n1",), None, lab=False)
    assert daemons.paths_of(far, "n1").node == "n1"
