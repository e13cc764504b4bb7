"""Sends a benchmark's messages and counts them.

It is a thin layer over a communicator for all messages and collective calls of a benchmark.
So count and bytes belong to the program and do not depend on the MPI library. A message of
a rank to itself counts. A collective call counts with the bytes of its send buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from benchmarks.npb.report import Traffic
from cosched.core.errors import CoschedError

Array = NDArray[Any]


class Pending(Protocol):
    """A message on its way."""

    def Wait(self) -> object:
        """Returns at its end."""


class Link:
    """This rank's place in the job, and its counted calls. ``tag`` is MPI's."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self.rank = comm.rank
        self.ranks = comm.size
        self._sent = np.zeros(4)

    def send(self, data: Array, to: int, tag: int = 0) -> None:
        self._count_message(data)
        self._comm.Send(data, to, tag)

    def start_send(self, data: Array, to: int, tag: int = 0) -> Pending:
        """``data`` must not change until the request is waited for."""
        self._count_message(data)
        return self._comm.Isend(data, to, tag)

    def receive(self, into: Array, source: int, tag: int = 0) -> None:
        self._comm.Recv(into, source, tag)

    def start_receive(self, into: Array, source: int, tag: int = 0) -> Pending:
        return self._comm.Irecv(into, source, tag)

    def barrier(self) -> None:
        self._count_collective(0)
        self._comm.Barrier()

    def sum(self, value: Any) -> Any:
        """Returns the sum over all ranks, of a number or of arrays item by item."""
        mine = np.array(value, order="C")
        total = np.empty_like(mine)
        self._count_collective(mine.nbytes)
        self._combine(mine, total, MPI.SUM)
        return total if total.ndim else total[()]

    def largest(self, value: float) -> float:
        mine, found = np.array(value, np.float64), np.empty((), np.float64)
        self._count_collective(mine.nbytes)
        self._combine(mine, found, MPI.MAX)
        return float(found)

    def gather(self, mine: Array) -> Array:
        """Returns ``mine`` of all ranks, one row each, on every rank."""
        found = np.empty((self.ranks, *mine.shape), mine.dtype)
        self._count_collective(mine.nbytes)
        self._comm.Allgather(mine, found)
        return found

    def transpose(self, mine: Array, into: Array) -> None:
        """Equal parts of ``mine``, one to each rank; theirs arrive in ``into``."""
        self._count_collective(mine.nbytes)
        self._comm.Alltoall(mine, into)

    def redistribute(self, mine: Array, parts: Array, into: Array, theirs: Array) -> None:
        """``parts[r]`` items to each rank r; ``theirs[r]`` arrive from it. In order."""
        self._count_collective(mine.nbytes)
        self._comm.Alltoallv([mine, parts], [into, theirs])

    def now(self) -> float:
        """Seconds on this rank's clock."""
        return MPI.Wtime()

    def traffic(self) -> Traffic:
        """Returns the mean traffic of a rank so far, without this call."""
        total = np.empty_like(self._sent)
        self._comm.Allreduce(self._sent, total, MPI.SUM)
        return Traffic(*(total / self.ranks).tolist())

    def agree(self, verdict: bool) -> bool:
        """Whether it is true on every rank. Not counted."""
        mine, found = np.array(verdict, np.int32), np.empty((), np.int32)
        self._combine(mine, found, MPI.MIN)
        return bool(found)

    def first_of(self, text: str) -> str:
        """Returns the text of rank 0 on every rank. Not counted."""
        found: str = self._comm.bcast(text)
        return found

    @contextmanager
    def together(self, what: str) -> Iterator[None]:
        """Runs a block on all ranks. If it fails on one of them, by the system or by MPI,
        all raise CoschedError with ``what`` and the reason. Not counted."""
        reason = ""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
        except MPI.Exception as error:
            reason = str(error).strip().splitlines()[-1]
        if not self.agree(not reason):
            raise CoschedError(
                f"{what}: {next(filter(None, self._comm.allgather(reason)))}"
            )

    def open_file(self, path: Path, mode: int) -> MPI.File:
        """Opens a file that all ranks share. MPI.Exception if it cannot be opened."""
        return MPI.File.Open(self._comm, str(path), mode)

    def _combine(self, mine: Array, into: Array, operation: MPI.Op) -> None:
        """Combines the items of all ranks, on every rank. Not counted."""
        self._comm.Allreduce(mine, into, operation)

    def _count_message(self, data: Array) -> None:
        self._sent[0] += 1
        self._sent[1] += data.nbytes

    def _count_collective(self, size: int) -> None:
        self._sent[2] += 1
        self._sent[3] += size
