"""Sends the status beside the messages (COSCHED_STATUS=shadow).

Nothing is added to a message. Before a task sends a message to a peer, it sends its status
there if that has changed: one byte in a communicator of the shims. A scheduled task does
not look at the status of a sender. An unscheduled one reads the bytes that have come and
then knows what the status of each peer was when it last sent. A peer that never sent a
status counts as scheduled, as a task without a daemon does.

The paper's byte gives the same for each single message (section 2.2.2). Here it covers
collective calls as well: a task that enters one sends its status to the ranks that the call
may wait for.

Limit: a message may overtake the status that was sent just before it. Then the old status
is used for this message and the new one for the next.

The C interposer does the same (``interposer/status/shadow.c``), and the two understand each
other. ``together`` makes the communicator.
"""

from __future__ import annotations

from array import array

from mpi4py import MPI as mpi

from cosched.shm._native import lib
from mpi_shim.wrapper.status.peers import Peers
from mpi_shim.wrapper.task.link import task, warn

TAG = lib.COSCHED_SHADOW_TAG
LISTEN_NS = lib.COSCHED_SHADOW_LISTEN_MS * 1_000_000

# MPI reads from these while a message is under way, so they live as long as the process.
_BYTES = (b"\0", b"\1")


class Shadow:
    """The statuses sent to peers and received from them, by rank in COMM_WORLD: 1
    scheduled, 0 not. Threads may race: a status is sent twice, or one message late.

    ``on``: every rank has joined. ``comm``: the communicator of the shims.
    ``sent_count``: how many statuses went to each rank.
    """

    def __init__(self) -> None:
        self.on = False
        self.comm: mpi.Comm = mpi.COMM_NULL
        self.sent_count: array[int] = array("i")
        self._sent = bytearray()  # the status that each rank has of this one
        self._received = bytearray()  # the status that this one has of each rank
        self._received_count = 0  # messages from all ranks
        self._listened_ns = 0

    def prepare(self, size: int) -> None:
        """Makes room for the statuses of all ranks."""
        self._sent, self._received = bytearray(b"\1" * size), bytearray(b"\1" * size)
        self.sent_count = array("i", [0] * size)

    def start(self) -> None:
        """Sends and receives from now on: every rank has joined."""
        self.on, task.on_waited = True, self._after_wait

    def stop(self) -> None:
        """Sends no more."""
        self.on, task.on_waited = False, None

    # Sending

    def send(self, world_rank: int) -> None:
        """Sends the status to a rank that a message is about to go to, if it has
        changed."""
        if world_rank < 0 or not self.on:
            return
        status = task.status()
        if self._sent[world_rank] == status:
            return
        try:
            self.comm.Isend(_BYTES[status], world_rank, TAG).Free()
        except mpi.Exception as error:
            self._fail(error)
            return
        self._sent[world_rank] = status
        self.sent_count[world_rank] += 1
        task.count_published()

    def send_to_partners(self, peers: Peers) -> None:
        """Sends the status to the ranks that a collective call may wait for."""
        for world_rank in peers.partners:
            self.send(world_rank)

    # Receiving

    def message_arrived(self, world_rank: int) -> None:
        """Reports a message from this rank."""
        if not task.status():
            self._listen()
            if world_rank >= 0:
                task.arrived(self._received[world_rank])

    def collective_ended(self, peers: Peers) -> None:
        """Reports the end of a collective call, as an arrival from any of its partners."""
        if not task.status():
            self._listen()
            if peers.partners:
                task.arrived(int(any(self._received[rank] for rank in peers.partners)))

    def listen(self) -> int:
        """Receives each status that has come; returns how many have come in all."""
        status, room = mpi.Status(), bytearray(1)
        # By matched probes: MPICH 5 over UCX never gives a receive from any source a
        # message of another node that came before it.
        while message := self.comm.Improbe(mpi.ANY_SOURCE, TAG, status):
            message.Recv(room)
            self._received_count += 1
            self._received[status.Get_source()] = room[0] != 0
        return self._received_count

    def _listen(self) -> None:
        if self.on:
            try:
                self.listen()
            except mpi.Exception as error:
                self._fail(error)

    def _after_wait(self, now_ns: int) -> None:
        """A task that is always scheduled has no other reason to listen."""
        if now_ns - self._listened_ns >= LISTEN_NS:
            self._listened_ns = now_ns
            self._listen()

    def _fail(self, error: mpi.Exception) -> None:
        self.stop()
        warn(f"the status travels no more, and messages are not trapped: {error}")


shadow = Shadow()
