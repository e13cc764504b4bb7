"""Runs one rank in the comparison of the two forms of the shim.

``python -m tests.wrapper.form_scenarios`` on two ranks, rank 0 on node a, where the job is
scheduled, and rank 1 on node b, where it is not. Each rank goes through the table
``SCENARIOS`` and writes a file of JSON: for each scenario, by how much its counters rose
and which statuses it saw. ``mpi_shim.MPI`` is the wrapper, or mpi4py's own below the
interposer.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cosched.shm.region import JobRegion
from tests.wrapper.per_rank import choose_node, preload_interposer

#: A file that both ranks map: its byte r is the number of the scenario that rank r is in.
PROGRESS = "COSCHED_TEST_PROGRESS"
SENDER, RECEIVER = 0, 1
TAG = 5


class Rank:
    """One of the two ranks: its communicator, its counters, and where the other one is."""

    def __init__(self, mpi: ModuleType, progress: mmap.mmap) -> None:
        self.MPI = mpi
        self.comm = mpi.COMM_WORLD
        self.sends = self.comm.Get_rank() == SENDER
        self.peer = 1 - self.comm.Get_rank()
        self.statuses: list[dict[str, Any]] = []
        self._progress = progress
        name = mapped_region()
        self._region = JobRegion.attach(name)
        Path(f"{os.environ[PROGRESS]}.{self.comm.Get_rank()}").write_text(name)
        self.begin(1)
        peer = Path(f"{os.environ[PROGRESS]}.{self.peer}").read_text()
        self._peer_region = JobRegion.attach(peer)

    def counters(self) -> dict[str, int]:
        return self._region.counters(0)

    def until_peer_sleeps(self) -> None:
        """Returns once the peer sleeps in a wait that it has just begun."""
        before = self._peer_region.counters(0)["pauses"]
        self.until(lambda: self._peer_region.counters(0)["pauses"] > before + 1)

    def begin(self, number: int) -> None:
        """Enters a scenario together with the other rank."""
        self.statuses = []
        self._progress[self.comm.Get_rank()] = number
        self.until(lambda: self._progress[self.peer] >= number)

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            time.sleep(0.001)

    def note(self, status: Any) -> Any:
        """Records what a status shows."""
        self.statuses.append(
            {
                "source": status.Get_source(),
                "tag": status.Get_tag(),
                "bytes": status.Get_count(self.MPI.BYTE),
                "elements": status.Get_elements(self.MPI.BYTE),
                "cancelled": status.Is_cancelled(),
            }
        )
        return status


def mapped_region() -> str:
    """The name of the job's region, which the shim has mapped into this process."""
    maps = Path("/proc/self/maps").read_text()
    found = re.search(r"/dev/shm(/cosched-\S+)", maps)
    assert found, "no region: is the task registered?"
    return found[1]


def ints(*values: int) -> Any:
    return memoryview(bytearray(b"".join(v.to_bytes(4, "little") for v in values))).cast(
        "i"
    )


# The scenarios. The sender is scheduled, the receiver is not.


def blocking(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Send(ints(1, 2, 3), rank.peer, TAG)
    else:
        rank.comm.Recv(ints(0, 0, 0, 0), rank.peer, TAG, status)
        rank.note(status)


def late(rank: Rank) -> None:
    """The receiver sleeps when the message comes."""
    if rank.sends:
        rank.until_peer_sleeps()
        rank.comm.Send(ints(1), rank.peer, TAG)
    else:
        rank.comm.Recv(ints(0), rank.peer, TAG)


def late_nonblocking(rank: Rank) -> None:
    if rank.sends:
        rank.until_peer_sleeps()
        rank.comm.Send(ints(1), rank.peer, TAG)
    else:
        rank.comm.Irecv(ints(0), rank.peer, TAG).Wait()


def blocking_to_scheduled(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Recv(ints(0, 0), rank.peer, TAG, status)
        rank.note(status)
    else:
        rank.comm.Send(ints(1, 2), rank.peer, TAG)


def any_source(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Send(ints(1), rank.peer, TAG)
    else:
        rank.comm.Recv(ints(0), rank.MPI.ANY_SOURCE, rank.MPI.ANY_TAG, status)
        rank.note(status)


def modes(rank: Rank) -> None:
    """Synchronous, ready and buffered sends."""
    if rank.sends:
        rank.MPI.Attach_buffer(bytearray(10_000))
        rank.comm.Ssend(ints(1), rank.peer, TAG)
        rank.comm.Bsend(ints(2), rank.peer, TAG)
        rank.comm.Issend(ints(3), rank.peer, TAG).Wait()
        rank.comm.Ibsend(ints(4), rank.peer, TAG).Wait()
        rank.MPI.Detach_buffer()
    else:
        for _ in range(4):
            status = rank.MPI.Status()
            rank.comm.Recv(ints(0), rank.peer, TAG, status)
            rank.note(status)


def nonblocking(rank: Rank) -> None:
    if rank.sends:
        sends = [rank.comm.Isend(ints(*range(n)), rank.peer, n) for n in (1, 2, 3)]
        rank.MPI.Request.Waitall(sends)
    else:
        buffers = [ints(0, 0, 0) for _ in range(3)]
        receives = [
            rank.comm.Irecv(buffer, rank.peer, n)
            for n, buffer in zip((1, 2, 3), buffers, strict=True)
        ]
        statuses = [rank.MPI.Status() for _ in receives]
        rank.MPI.Request.Waitall(receives, statuses)
        for status in statuses:
            rank.note(status)


def tests(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Isend(ints(1, 2), rank.peer, TAG).Wait()
    else:
        request = rank.comm.Irecv(ints(0, 0), rank.peer, TAG)
        while not request.Test(status):
            pass
        rank.note(status)


def waitany(rank: Rank) -> None:
    if rank.sends:
        for n in (1, 2):
            rank.comm.Send(ints(n), rank.peer, n)
    else:
        receives = [rank.comm.Irecv(ints(0), rank.peer, n) for n in (1, 2)]
        for _ in receives:
            status = rank.MPI.Status()
            rank.MPI.Request.Waitany(receives, status)
            rank.note(status)
        rank.statuses.sort(key=lambda seen: seen["tag"])


def large(rank: Rank) -> None:
    """More than is copied behind a status byte."""
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Send(bytearray(1_000_000), rank.peer, TAG)
    else:
        rank.comm.Recv(bytearray(1_000_000), rank.peer, TAG, status)
        rank.note(status)


def empty(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Send(b"", rank.peer, TAG)
    else:
        rank.comm.Recv(bytearray(8), rank.peer, TAG, status)
        rank.note(status)


def derived(rank: Rank) -> None:
    """A datatype with holes."""
    status = rank.MPI.Status()
    vector = rank.MPI.INT.Create_vector(3, 1, 2).Commit()
    if rank.sends:
        rank.comm.Send([ints(*range(6)), 1, vector], rank.peer, TAG)
    else:
        rank.comm.Recv([ints(*[0] * 6), 1, vector], rank.peer, TAG, status)
        rank.note(status)
    vector.Free()


def sendrecv(rank: Rank) -> None:
    status = rank.MPI.Status()
    rank.comm.Sendrecv(ints(1, 2), rank.peer, 7, ints(0, 0), rank.peer, 7, status)
    rank.note(status)


def sendrecv_replace(rank: Rank) -> None:
    status = rank.MPI.Status()
    rank.comm.Sendrecv_replace(ints(1, 2, 3), rank.peer, 7, rank.peer, 7, status)
    rank.note(status)


def isendrecv(rank: Rank) -> None:
    rank.comm.Isendrecv(ints(1, 2), rank.peer, 7, ints(0, 0), rank.peer, 7).Wait()


def probe(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Send(ints(1, 2, 3), rank.peer, TAG)
    else:
        rank.comm.Probe(rank.peer, TAG, status)
        rank.note(status)
        rank.comm.Recv(ints(0, 0, 0), rank.peer, TAG, status)
        rank.note(status)


def iprobe(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Send(ints(1), rank.peer, TAG)
    else:
        while not rank.comm.Iprobe(rank.MPI.ANY_SOURCE, TAG, status):
            pass
        rank.note(status)
        rank.comm.Recv(ints(0), rank.peer, TAG, status)
        rank.note(status)


def matched_probe(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.Send(ints(1, 2), rank.peer, TAG)
        rank.comm.Send(ints(3), rank.peer, TAG)
    else:
        rank.comm.Mprobe(rank.peer, TAG, status).Recv(ints(0, 0), rank.note(status))
        rank.note(status)
        rank.comm.Mprobe(rank.peer, TAG, status).Irecv(ints(0)).Wait(status)
        rank.note(status)


def persistent(rank: Rank) -> None:
    status = rank.MPI.Status()
    request = (
        rank.comm.Send_init(ints(1, 2), rank.peer, TAG)
        if rank.sends
        else rank.comm.Recv_init(ints(0, 0), rank.peer, TAG)
    )
    for _ in range(3):
        request.Start()
        request.Wait(status)
        if not rank.sends:
            rank.note(status)
    request.Free()


def objects(rank: Rank) -> None:
    status = rank.MPI.Status()
    if rank.sends:
        rank.comm.send({"a": 1}, rank.peer, TAG)
        rank.comm.isend([1, 2, 3], rank.peer, TAG).wait()
    else:
        for _ in range(2):
            rank.comm.recv(source=rank.peer, tag=TAG, status=status)
            rank.note(status)


def cancelled(rank: Rank) -> None:
    status = rank.MPI.Status()
    if not rank.sends:
        request = rank.comm.Irecv(ints(0), rank.peer, 99)
        request.Cancel()
        request.Wait(status)
        rank.statuses.append({"cancelled": status.Is_cancelled()})


def proc_null(rank: Rank) -> None:
    status = rank.MPI.Status()
    rank.comm.Send(ints(1), rank.MPI.PROC_NULL, TAG)
    rank.comm.Recv(ints(0), rank.MPI.PROC_NULL, TAG, status)
    rank.statuses.append({"source": status.Get_source() == rank.MPI.PROC_NULL})


def to_itself(rank: Rank) -> None:
    own = rank.comm.Get_rank()
    rank.comm.Sendrecv(ints(1), own, 7, ints(0), own, 7)


def other_communicators(rank: Rank) -> None:
    for comm in (rank.comm.Dup(), rank.comm.Split(0, -rank.comm.Get_rank())):
        peer = 1 - comm.Get_rank()
        if rank.sends:
            comm.Send(ints(1), peer, TAG)
        else:
            comm.Recv(ints(0), peer, TAG)
        comm.Free()


def collectives(rank: Rank) -> None:
    rank.comm.Barrier()
    rank.comm.Bcast(ints(1, 2))
    rank.comm.Allreduce(ints(1), ints(0))
    rank.comm.Allgather(ints(1), ints(0, 0))
    rank.comm.Reduce(ints(1), ints(0))


def nonblocking_collectives(rank: Rank) -> None:
    rank.comm.Ibarrier().Wait()
    own, total = ints(1), ints(0)  # mpi4py does not hold them during the call
    rank.comm.Iallreduce(own, total).Wait()


def collectives_alone(rank: Rank) -> None:
    rank.MPI.COMM_SELF.Barrier()
    rank.MPI.COMM_SELF.Allreduce(ints(1), ints(0))


SCENARIOS: tuple[Callable[[Rank], None], ...] = (
    *(
        late,
        late_nonblocking,
        blocking,
        blocking_to_scheduled,
        any_source,
        modes,
        nonblocking,
        tests,
        waitany,
    ),
    *(large, empty, derived, sendrecv, sendrecv_replace, isendrecv),
    *(probe, iprobe, matched_probe, persistent, objects, cancelled),
    *(proc_null, to_itself, other_communicators),
    *(collectives, nonblocking_collectives, collectives_alone),
)


def main() -> None:
    choose_node()
    preload_interposer()
    from mpi_shim import MPI

    with open(os.environ[PROGRESS], "r+b") as file:
        rank = Rank(MPI, mmap.mmap(file.fileno(), 2))
    results = {}
    for number, scenario in enumerate(SCENARIOS, 2):
        rank.begin(number)
        before = rank.counters()
        scenario(rank)
        after = rank.counters()
        rose = {name: after[name] - before[name] for name in after}
        results[scenario.__name__] = {"counters": rose, "statuses": rank.statuses}
    report = Path(f"{os.environ[PROGRESS]}.{rank.comm.Get_rank()}.json")
    report.write_text(json.dumps({"module": MPI.__name__, "results": results}))


if __name__ == "__main__":
    main()
