"""Keeps the daemons of this machine up while a bench runs here, so no run starts them."""

from __future__ import annotations

import pytest

from cosched.bench.run import testbed
from cosched.bench.run.site import Site


class Lease:
    """A connection that keeps the daemons."""

    closed = False

    def close(self):
        self.closed = True


@pytest.fixture
def leases(monkeypatch):
    """The nodes whose daemons were kept, with their leases."""
    found = []

    def lease(paths, *_, **__):
        found.append((paths, Lease()))
        return found[-1][1]

    monkeypatch.setattr(testbed, "lease_node", lease)
    return found


def test_daemons_of_this_machine_are_kept_for_all_runs(tmp_path, leases):
    site = Site(tmp_path, ("localhost",), {"localhost": frozenset({0})}, lab=False)
    with testbed._daemons_kept(site, {"COSCHED_NODE": "here"}):
        ((paths, lease),) = leases
        assert (paths.run_dir, paths.node, lease.closed) == (tmp_path, "here", False)
    assert lease.closed


@pytest.mark.parametrize(
    "site",
    [
        Site("/run", ("a", "b"), None, lab=False),
        Site("/run", ("lab1",), {"lab1": frozenset({0})}, lab=True),
    ],
    ids=["other machines", "lab"],
)
def test_other_nodes_have_daemons_of_their_own(site, leases):
    with testbed._daemons_kept(site, {}):
        assert not leases
