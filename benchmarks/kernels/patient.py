"""A link of the NAS benchmarks whose waits leave the CPU to others.

MPI libraries poll while they wait. On an emulated node more ranks run than the machine has
CPUs, and polls would count as work of the emulated processor. So a wait tests its request,
and sleeps or yields between two tests.
"""

from __future__ import annotations

import os
import time

from mpi4py import MPI

from benchmarks.npb.link import Array, Link

#: The sleep between two tests; far below the time of a round.
NAP_S = 200e-6


class PatientLink(Link):
    """The counted calls of a benchmark. sleeps: waits sleep; otherwise they yield."""

    def __init__(self, comm: MPI.Intracomm, sleeps: bool) -> None:
        super().__init__(comm)
        self._sleeps = sleeps

    def receive(self, into: Array, source: int, tag: int = 0) -> None:
        self.start_receive(into, source, tag).Wait()

    def start_send(self, data: Array, to: int, tag: int = 0) -> PatientRequest:
        self._count_message(data)
        return PatientRequest(self._comm.Isend(data, to, tag), self._sleeps)

    def start_receive(self, into: Array, source: int, tag: int = 0) -> PatientRequest:
        return PatientRequest(self._comm.Irecv(into, source, tag), self._sleeps)

    def barrier(self) -> None:
        self._count_collective(0)
        self._wait(self._comm.Ibarrier())

    def _combine(self, mine: Array, into: Array, operation: MPI.Op) -> None:
        self._wait(self._comm.Iallreduce(mine, into, operation))

    def _wait(self, request: MPI.Request) -> None:
        PatientRequest(request, self._sleeps).Wait()


class PatientRequest:
    """A request of MPI."""

    def __init__(self, request: MPI.Request, sleeps: bool) -> None:
        self._request, self._sleeps = request, sleeps

    def Wait(self) -> None:
        while not self._request.Test():
            if self._sleeps:
                time.sleep(NAP_S)
            else:
                os.sched_yield()
