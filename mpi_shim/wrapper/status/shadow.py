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
other; ``cosched/join.h`` has what they agree on.
"""

from __future__ import annotations

from array import array

from mpi4py import MPI as mpi

from cosched.shm._native import ffi, lib
from mpi_shim.wrapper.status.agree import Agreement, agree
from mpi_shim.wrapper.status.peers import Peers
from mpi_shim.wrapper.task.link import Wait, task, warn

TAG = lib.COSCHED_SHADOW_TAG
LISTEN_NS = lib.COSCHED_SHADOW_LISTEN_MS * 1_000_000

# MPI reads from these while a message is under way, so they live as long as the process.
_BYTES = (b"\0", b"\1")


class Shadow:
    """The statuses sent to peers and received from them, by rank in COMM_WORLD: 1
    scheduled, 0 not. Threads may race: a status is sent twice, or one message late.

    ``on``: every rank has joined, and has the memory for it. ``join_s``: how long a rank
    waits for that.
    """

    def __init__(self) -> None:
        self.on = False
        self.join_s: float = lib.COSCHED_JOIN_S
        self._sent = bytearray()  # the status that each rank has of this one
        self._received = bytearray()  # the status that this one has of each rank
        self._sent_count: array[int] = array("i")  # messages to each rank
        self._received_count = 0
        self.comm: mpi.Comm = mpi.COMM_NULL  # of all ranks' shims
        self._joining: mpi.Request = mpi.REQUEST_NULL
        self._agreeing = self._joined = False
        self._equipped = array("i", [1])  # this rank; in the end, every rank
        self._listened_ns = 0

    # All ranks together

    def open(self) -> None:
        """Joins the other ranks, after MPI_Init. Collective."""
        size = mpi.COMM_WORLD.Get_size()
        if size == 1:
            return
        if not self._may_begin():
            return
        self._sent, self._received = bytearray(b"\1" * size), bytearray(b"\1" * size)
        self._sent_count = array("i", [0] * size)
        self.comm, self._joining = mpi.Comm.Idup(mpi.COMM_WORLD)
        if not self._join(self.join_s):
            warn(
                f"after {self.join_s:g} s not every rank has joined: is one without "
                "the shim? This one goes on, and traps no messages"
            )
        elif not self._equipped[0]:
            warn("a rank lacks memory for the status of the others: none traps messages")
        else:
            task.on_waited = self._after_wait
            self.on = True

    def _may_begin(self) -> bool:
        """Returns whether the ranks may begin to join. Spawned ranks share the names of
        their parents, and start as these did."""
        environment = task.environment
        if environment is None or mpi.Comm.Get_parent() != mpi.COMM_NULL:
            return True
        shimmed = environment.data.shimmed
        if shimmed == lib.COSCHED_SHIMMED_SURELY:
            return True
        agreement = agree(environment.data.task.job, self.join_s)
        if agreement is Agreement.UNKNOWN:
            return bool(shimmed != lib.COSCHED_SHIMMED_PERHAPS)
        if agreement is Agreement.ALL:
            return True
        if mpi.COMM_WORLD.Get_rank() <= 1:  # rank 1 cannot see the line of rank 0
            warn(
                "a rank has no shim, so the job runs without status: no message is trapped"
            )
        return False

    def _join(self, limit_s: float) -> bool:
        """Returns whether every rank has joined. There are two steps, and each may be under
        way when the limit is reached: to make a communicator of all ranks, and to agree
        that each rank has the memory it needs. So all ranks use it, or none does."""
        if not self._joining:
            return self._joined
        if not self._agreeing:
            if not completes(self._joining, limit_s):
                return False
            self.comm.Set_errhandler(mpi.ERRORS_RETURN)
            self._joining = self.comm.Iallreduce(mpi.IN_PLACE, self._equipped, mpi.MIN)
            self._agreeing = True
        self._joined = completes(self._joining, limit_s)
        return self._joined

    def stop(self) -> bool:
        """Sends no more, before MPI ends. Collective. Returns whether every rank has joined
        by now."""
        self.on, task.on_waited = False, None
        return self._join(lib.COSCHED_JOIN_LAST_MS / 1000) and bool(self.comm)

    def close(self, limit_s: float | None = None) -> None:
        """Receives each status that was sent, after ``stop``. Collective. Gives up after
        ``limit_s``."""
        if self.has_joined:
            done = not self._equipped[0] or self._receive_the_rest(limit_s)
            if done and self.comm:
                self.comm.Free()
        self.comm, self._joining = mpi.COMM_NULL, mpi.REQUEST_NULL

    @property
    def has_joined(self) -> bool:
        """Whether every rank has joined, so that ``comm`` may be used."""
        return self._joined and bool(self.comm)

    def abandon(self) -> None:
        """Sends and receives no more; also for a forked child, which is not the task."""
        self.on, task.on_waited = False, None
        self.comm, self._joining = mpi.COMM_NULL, mpi.REQUEST_NULL

    def _receive_the_rest(self, limit_s: float | None) -> bool:
        """Each rank learns how many messages were sent to it, and receives the rest."""
        expected = array("i", [0])
        request = self.comm.Ireduce_scatter_block(self._sent_count, expected, mpi.SUM)
        if not completes(request, limit_s):
            return False
        with Wait(task) as wait:
            while self.comm and self._received_count < expected[0]:
                self._listen()
                wait.pass_time()
        return True

    # Sending

    def send(self, world_rank: int) -> None:
        """Sends the status to a rank that a message is about to go to, if it has
        changed."""
        if world_rank < 0:
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
        self._sent_count[world_rank] += 1
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

    def _listen(self) -> None:
        """Receives each status that has come."""
        status, room = mpi.Status(), bytearray(1)
        try:
            while self.comm:
                # By matched probes: MPICH 5 over UCX never gives a receive from any source
                # a message of another node that came before it.
                message = self.comm.Improbe(mpi.ANY_SOURCE, TAG, status)
                if message is None:
                    return
                message.Recv(room)
                self._received_count += 1
                self._received[status.Get_source()] = room[0] != 0
        except mpi.Exception as error:
            self._fail(error)

    def _after_wait(self, now_ns: int) -> None:
        """A task that is always scheduled has no other reason to listen."""
        if now_ns - self._listened_ns >= LISTEN_NS:
            self._listened_ns = now_ns
            self._listen()

    def _fail(self, error: mpi.Exception) -> None:
        self.abandon()
        warn(f"the status travels no more, and messages are not trapped: {error}")


def completes(request: mpi.Request, limit_s: float | None) -> bool:
    """Waits for ``request``; returns False if it is not complete after ``limit_s`` in which
    this process ran."""
    limit = ffi.new("struct cosched_join_limit *")
    lib.cosched_join_limit_start(limit, int((limit_s or 0) * 1e9))
    with Wait(task) as wait:
        while not request.Test():
            if limit_s is not None and lib.cosched_join_limit_is_over(limit):
                return False
            wait.pass_time()
    return True


shadow = Shadow()
