"""Requests under COSCHED_STATUS=shadow: which status is sent at their start, and which
arrival is reported at their end."""

from __future__ import annotations

from mpi4py import MPI as mpi

from mpi_shim.wrapper.requests.operations import Operation
from mpi_shim.wrapper.status.peers import Peers, peers_of
from mpi_shim.wrapper.status.shadow import shadow
from mpi_shim.wrapper.task.link import task


def uses_shadow(comm: mpi.Comm) -> bool:
    """Whether the status travels beside the messages of this communicator. A library may
    call a method of the wrapper with a communicator of mpi4py."""
    return shadow.on and getattr(comm, "_wrapped", False)


class ShadowReceive(Operation):
    """A receive: reports the message when it has arrived."""

    def __init__(self, peers: Peers, *, persistent: bool = False) -> None:
        self.active = not persistent
        self.persistent = persistent
        self._peers = peers

    def complete(self, status: mpi.Status) -> None:
        if self.active and not status.Is_cancelled():
            report_shadow_arrival(self._peers, status)
        super().complete(status)


class ShadowSend(Operation):
    """A persistent send: sends the status at each start."""

    persistent = True

    def __init__(self, world_rank: int, nbytes: int) -> None:
        self.active = False
        self._world_rank, self._nbytes = world_rank, nbytes

    def start(self) -> None:
        super().start()
        shadow.send(self._world_rank)
        task.count_sent(self._nbytes)


class ShadowCollective(Operation):
    """A non-blocking collective call: reports its end."""

    def __init__(self, peers: Peers) -> None:
        super().__init__()
        self._peers = peers

    def complete(self, status: mpi.Status) -> None:
        if self.active:
            shadow.collective_ended(self._peers)
        super().complete(status)


def report_shadow_arrival(peers: Peers, status: mpi.Status) -> None:
    """Reports the message that has this status."""
    shadow.message_arrived(peers.rank(status.Get_source()))


def shadow_receive(
    comm: mpi.Comm, source: int, *, persistent: bool = False
) -> ShadowReceive | None:
    """Returns what is left to do at the end of a receive, if anything."""
    if source == mpi.PROC_NULL or not uses_shadow(comm):
        return None
    return ShadowReceive(peers_of(comm), persistent=persistent)


def send_status_first(comm: mpi.Comm, dest: int, nbytes: int) -> None:
    """Sends the status to ``dest`` before a message of ``nbytes`` goes there."""
    if dest != mpi.PROC_NULL and uses_shadow(comm):
        shadow.send(peers_of(comm).rank(dest))
        task.count_sent(nbytes)
