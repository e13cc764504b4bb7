"""Requests under COSCHED_STATUS=shadow: what is to be told at their start and what was
heard at their end."""

from __future__ import annotations

from mpi4py import MPI as mpi

from mpi_shim.wrapper.requests.operations import Operation
from mpi_shim.wrapper.status.peers import Peers, peers_of
from mpi_shim.wrapper.status.shadow import shadow
from mpi_shim.wrapper.task.link import task


def shadows(comm: mpi.Comm) -> bool:
    """Whether the status travels beside what is done on this communicator; a library may
    call a method of the wrapper's with a communicator of mpi4py's."""
    return shadow.on and getattr(comm, "_wrapped", False)


class Heard(Operation):
    """A receive. Its sender has told whatever there was to tell."""

    def __init__(self, peers: Peers, *, persistent: bool = False) -> None:
        self.active = not persistent
        self.persistent = persistent
        self._peers = peers

    def complete(self, status: mpi.Status) -> None:
        if self.active and not status.Is_cancelled():
            hear(self._peers, status)
        super().complete(status)


class Told(Operation):
    """A persistent send: tells at each start."""

    persistent = True

    def __init__(self, world_rank: int, nbytes: int) -> None:
        self.active = False
        self._world_rank, self._nbytes = world_rank, nbytes

    def start(self) -> None:
        super().start()
        shadow.tell(self._world_rank)
        task.count_sent(self._nbytes)


class Met(Operation):
    """A collective call."""

    def __init__(self, peers: Peers) -> None:
        super().__init__()
        self._peers = peers

    def complete(self, status: mpi.Status) -> None:
        if self.active:
            shadow.met(self._peers)
        super().complete(status)


def hear(peers: Peers, status: mpi.Status) -> None:
    """A message with this status has arrived."""
    shadow.arrived(peers.rank(status.Get_source()), max(status.Get_elements(mpi.BYTE), 0))


def receiving(comm: mpi.Comm, source: int, *, persistent: bool = False) -> Heard | None:
    """What is left to do at the end of a receive, if anything."""
    if source == mpi.PROC_NULL or not shadows(comm):
        return None
    return Heard(peers_of(comm), persistent=persistent)


def tell_before_send(comm: mpi.Comm, dest: int, nbytes: int) -> None:
    """A message is about to leave."""
    if dest != mpi.PROC_NULL and shadows(comm):
        shadow.tell(peers_of(comm).rank(dest))
        task.count_sent(nbytes)
