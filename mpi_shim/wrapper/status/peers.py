"""Translates the ranks of a communicator to ranks of COMM_WORLD."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mpi4py import MPI as mpi

from cosched.shm._native import lib


class Peers:
    """The ranks that messages in a communicator come from and go to: its own, or the remote
    ones of an inter-communicator. ``world``: their ranks in COMM_WORLD, negative if they
    have none. ``me``: this process's rank in its own group."""

    def __init__(self, world: Sequence[int], me: int) -> None:
        self._world = world
        ranks = (lib.cosched_join_partner(len(world), me, i) for i in itertools.count())
        around = [world[rank] for rank in itertools.takewhile(lambda r: r >= 0, ranks)]
        #: Ranks in COMM_WORLD that a collective call may wait for (``cosched/join.h``).
        self.partners = tuple(dict.fromkeys(rank for rank in around if rank >= 0))

    def rank(self, rank: int) -> int:
        """Returns the rank in COMM_WORLD. Negative: this process, or a process outside."""
        return self._world[rank] if 0 <= rank < len(self._world) else -1


def peers_of(comm: mpi.Comm) -> Peers:
    """Returns the peers of ``comm``, from the library at the first call for each object."""
    known: Peers | None = getattr(comm, "_peers", None)
    if known is None:
        known = _ask(comm)
        comm._peers = known  # type: ignore[attr-defined]
    return known


def _ask(comm: mpi.Comm) -> Peers:
    group = comm.Get_remote_group() if isinstance(comm, mpi.Intercomm) else comm.Get_group()
    world = mpi.COMM_WORLD.Get_group()
    try:
        ranks = group.Translate_ranks(None, world)
    finally:
        group.Free()
        world.Free()
    myself = mpi.COMM_WORLD.Get_rank()
    # MPI.UNDEFINED is negative.
    return Peers([-1 if rank == myself else rank for rank in ranks], comm.Get_rank())
