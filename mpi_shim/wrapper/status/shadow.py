"""The sender's status out of band (COSCHED_STATUS=shadow).

Nothing is added to a message. A task whose status has changed tells so to each peer
before the next message that it sends there: one byte in a communicator of the shim's own.
Whoever receives a message while scheduled does not look; whoever is unscheduled reads what
it was told and knows of each peer what its status was when it last sent. Before anybody
tells otherwise he is taken for scheduled, as a task without a daemon is.

The paper's byte says the same of each single message (section 2.2.2). This one says it of
collective calls, too: who enters one tells those it may be waiting for.

A message may overtake what was told just before it: then it is judged by the status
before, and the next one by the new status. Accepted. The C interposer does the same
(shadow.h), and its ranks and the wrapper's understand each other.
"""

from __future__ import annotations

import time
from array import array

from mpi4py import MPI as mpi

from mpi_shim.wrapper.status.peers import Peers
from mpi_shim.wrapper.task.link import complain, task
from mpi_shim.wrapper.task.waiting import Turns

TAG = 1

# How long a rank waits for the others to join. Who is late joins all the same; a rank
# without the shim never does.
JOIN_NS = 10_000_000_000
LAST_CALL_NS = 1_000_000_000

# How often a task that has no other reason reads what it was told.
LISTEN_NS = 1_000_000_000

_BYTES = (b"\0", b"\1")


class Shadow:
    """What this task told its peers and heard from them, by rank in COMM_WORLD: 1
    scheduled, 0 not. Threads may race: a peer is told twice, or one message late.

    ``on``: every rank has joined, and has the memory for it.
    """

    def __init__(self) -> None:
        self.on = False
        self._told = bytearray()
        self._heard = bytearray()
        self._sent: array[int] = array("i")  # how often each rank was told something
        self._taken = 0  # how often this one was, as far as it has read
        self._comm: mpi.Comm = mpi.COMM_NULL
        self._joining: mpi.Request = mpi.REQUEST_NULL
        self._agreeing = self._joined = False
        self._equipped = array("i", [1])  # this rank; at last, every rank
        self._listened_ns = 0

    def open(self) -> None:
        """After MPI is initialised, collective."""
        size = mpi.COMM_WORLD.Get_size()
        if size == 1:
            return
        self._told, self._heard = bytearray(b"\1" * size), bytearray(b"\1" * size)
        self._sent = array("i", [0] * size)
        self._comm, self._joining = mpi.Comm.Idup(mpi.COMM_WORLD)
        if not self._join(JOIN_NS):
            complain(
                f"after {JOIN_NS // 10**9} s not every rank has joined: is one without the "
                "shim? This one goes on, and traps no messages"
            )
            return
        if not self._equipped[0]:
            complain(
                "a rank lacks memory for the status of the others: none traps messages"
            )
            return
        task.on_waited = self._waited
        self.on = True

    def _join(self, limit_ns: int) -> bool:
        """Whether every rank has joined. Two steps, each of which may be under way still
        when patience ends: a communicator of all ranks, and their word that each has the
        memory it needs. They all use it, or nobody does: at the end they meet once more."""
        if not self._joining:
            return self._joined
        if not self._agreeing:
            if not _completes(self._joining, limit_ns):
                return False
            self._comm.Set_errhandler(mpi.ERRORS_RETURN)
            self._joining = self._comm.Iallreduce(mpi.IN_PLACE, self._equipped, mpi.MIN)
            self._agreeing = True
        self._joined = _completes(self._joining, limit_ns)
        return self._joined

    def close(self, limit_ns: int | None = None) -> None:
        """Before MPI ends, collective: what was told is received, so that nothing is left
        over. Gives up after ``limit_ns``."""
        self.on, task.on_waited = False, None
        if self._join(LAST_CALL_NS) and self._comm:
            done = not self._equipped[0] or self._read_the_rest(limit_ns)
            if done and self._comm:
                self._comm.Free()
        self._comm, self._joining = mpi.COMM_NULL, mpi.REQUEST_NULL

    def abandon(self) -> None:
        """Neither tells nor hears any more; also for a forked child, which is no task."""
        self.on, task.on_waited = False, None
        self._comm, self._joining = mpi.COMM_NULL, mpi.REQUEST_NULL

    # What leaves

    def tell(self, world_rank: int) -> None:
        """Before a message leaves."""
        if world_rank < 0:
            return
        status = task.status()
        if self._told[world_rank] == status:
            return
        self._told[world_rank] = status
        try:
            # MPI reads from a constant, which outlives the request.
            self._comm.Isend(_BYTES[status], world_rank, TAG).Free()
        except mpi.Exception as error:
            self._fail(error)
            return
        self._sent[world_rank] += 1
        task.count_told()

    def tell_partners(self, peers: Peers) -> None:
        """Before a collective call."""
        for world_rank in peers.partners:
            self.tell(world_rank)

    # What arrives

    def arrived(self, world_rank: int, user_bytes: int) -> None:
        """A message has arrived."""
        if not task.status():
            self._listen()
            if world_rank >= 0:
                task.arrived(self._heard[world_rank], user_bytes)

    def met(self, peers: Peers) -> None:
        """A collective call is over."""
        if not task.status():
            self._listen()
            if peers.partners:
                task.arrived(int(any(self._heard[rank] for rank in peers.partners)), 0)

    def _listen(self) -> None:
        """Reads what there is."""
        status, room = mpi.Status(), bytearray(1)
        try:
            while self._comm:
                # By matched probes: MPICH 5 over UCX never gives a receive from any source
                # a message of another node that came before it.
                message = self._comm.Improbe(mpi.ANY_SOURCE, TAG, status)
                if message is None:
                    return
                message.Recv(room)
                self._taken += 1
                self._heard[status.Get_source()] = room[0] != 0
        except mpi.Exception as error:
            self._fail(error)

    def _waited(self, now_ns: int) -> None:
        """A task that is always scheduled has no other reason to read."""
        if now_ns - self._listened_ns >= LISTEN_NS:
            self._listened_ns = now_ns
            self._listen()

    def _fail(self, error: mpi.Exception) -> None:
        self.abandon()
        complain(f"the status travels no more, and messages are not trapped: {error}")

    def _read_the_rest(self, limit_ns: int | None) -> bool:
        """Each rank learns how often it was told something in all, and reads the rest."""
        expected = array("i", [0])
        request = self._comm.Ireduce_scatter_block(self._sent, expected, mpi.SUM)
        if not _completes(request, limit_ns):
            return False
        turns = Turns()
        while self._comm and self._taken < expected[0]:
            self._listen()
            turns.pass_time()
        turns.end()
        return True


def _completes(request: mpi.Request, limit_ns: int | None) -> bool:
    """Waits; False if it took longer."""
    turns = Turns()
    deadline_ns = None if limit_ns is None else time.monotonic_ns() + limit_ns
    try:
        while not request.Test():
            if deadline_ns is not None and time.monotonic_ns() > deadline_ns:
                return False
            turns.pass_time()
        return True
    finally:
        turns.end()


shadow = Shadow()
