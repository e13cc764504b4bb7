"""Ranks in COMM_WORLD, and the partners of a rank in a collective call."""

from __future__ import annotations

import pytest

from mpi_shim.wrapper.status.peers import Peers, peers_of

pytestmark = pytest.mark.mpi(min_size=2)


@pytest.mark.parametrize(
    ("size", "me", "partners"),
    [
        (1, 0, set()),
        (2, 1, {0}),
        (5, 0, {1, 2, 3, 4}),
        (8, 1, {0, 2, 3, 7, 5}),
        (9, 8, {0, 7, 1, 6, 3, 4}),
    ],
)
def test_partners_are_at_powers_of_two(size, me, partners):
    world = [-1 if rank == me else 10 + rank for rank in range(size)]
    assert set(Peers(world, me).partners) == {10 + rank for rank in partners}


def test_partners_of_smaller_remote_group():
    assert set(Peers([3, 4, 5], 7).partners) == {3, 4, 5}
    assert Peers([], 0).partners == ()


def test_peers_have_world_ranks(MPI, comm):
    me, size = comm.rank, comm.size
    peers = peers_of(comm)
    assert peers is peers_of(comm)
    known = [-1 if rank == me else rank for rank in range(size)]
    assert [peers.rank(i) for i in range(size)] == known
    assert peers.rank(MPI.PROC_NULL) < 0
    assert peers.rank(size) < 0
    turned = comm.Split(0, -me)
    assert [peers_of(turned).rank(i) for i in range(size)] == known[::-1]
    turned.Free()


def test_peers_of_intercommunicator(comm):
    side = comm.Split(comm.rank % 2)
    between = side.Create_intercomm(0, comm, 1 - comm.rank % 2)
    others = [rank for rank in range(comm.size) if rank % 2 != comm.rank % 2]
    peers = peers_of(between)
    assert [peers.rank(i) for i in range(len(others))] == others
    assert set(peers.partners) <= set(others)
    between.Free()
    side.Free()
