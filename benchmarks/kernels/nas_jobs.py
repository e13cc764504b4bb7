"""BTIO and DT as jobs beside the node kernels, on the machine or on an emulated node.

On an emulated node (``c/node.h``) a time step of BT is a round: it occupies its processor
for its CPU time, stretched, and streams the fields of its passes through the memory. Each
call that writes is one request to the disk. In a collective write the ranks that write for
all make it, and the others wait. A node of DT's graph is a round, too: it streams each
feature that it makes, reads or passes on.
All else is real: messages, files and checks. The bus serves whole rounds, first come first
served: beside programs with larger rounds a job gets less of a full bus.
"""

from __future__ import annotations

import os
import select
import sys
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

from mpi4py import MPI

from benchmarks.kernels.patient import PatientLink
from benchmarks.npb.classes import BTIO, DT, NAMES
from benchmarks.npb.dt import VALUES as SAMPLE_VALUES
from benchmarks.npb.dt import DataFlow
from benchmarks.npb.fluid.adi import Adi, fits
from benchmarks.npb.fluid.bt import PASSES, step_of
from benchmarks.npb.fluid.btio import INTERVAL, mean_error
from benchmarks.npb.fluid.cell import verdict
from benchmarks.npb.fluid.solution_file import ITEM, SolutionFile, solution_file
from benchmarks.npb.kernels import Kernels
from cosched.core.errors import CoschedError

#: How BTIO writes, by the name of the job.
WAYS = {"btio-e": "epio", "btio-s": "simple", "btio-f": "full"}
GRAPH, DT_CLASS = "SH", "W"


class Node:
    """The emulated node, or none: then its calls do nothing."""

    def __init__(self, name: str, functions: Kernels) -> None:
        self._lib: Any = functions.lib
        self.is_emulated = bool(self._lib.kernel_job_open(name.encode()))

    def begin(self) -> None:
        """A round begins."""
        self._lib.kernel_job_begin()

    def streams(self, size: int) -> None:
        """The round reads or writes bytes of memory."""
        self._lib.kernel_job_streams(size)

    def end(self) -> None:
        """Waits for the end of the round."""
        self._lib.kernel_job_end()

    def move(self, size: int) -> None:
        """Moves bytes to the disk by one request, in a round of its own."""
        if size:
            self.begin()
            self._lib.kernel_job_moves(size)
            self.end()


class Job(ABC):
    """A benchmark that works in rounds."""

    @abstractmethod
    def work(self) -> float:
        """Works a round on all ranks; returns its work."""

    @abstractmethod
    def fault(self) -> str:
        """Checks the result on all ranks. Returns a fault; empty: there is none."""


class BtioJob(Job):
    """BTIO, in the smallest class that has enough points for the ranks. A round is the time
    steps up to a write, and the write. Work: time steps."""

    def __init__(
        self,
        link: PatientLink,
        kernels: Kernels,
        node: Node,
        place: tuple[str, Path, ExitStack],
    ) -> None:
        way, folder, stack = place
        problem = next((name for name in NAMES if fits(BTIO[name], link.ranks)), NAMES[-1])
        self._link, self._node, self._size = link, node, BTIO[problem]
        self._adi = Adi(link, kernels, self._size)
        self._step = step_of(self._adi)
        points = sum(prod(cell.points) for cell in self._adi.cells)
        self._streamed = ITEM * PASSES * points
        request = self._ask_together if way == "full" else node.move
        self._file: SolutionFile = stack.enter_context(
            solution_file(way, link, self._adi, folder, request)
        )
        self._checksums: list[int] = []

    def work(self) -> float:
        for _ in range(INTERVAL):
            self._node.begin()
            self._step()
            self._node.streams(self._streamed)
            self._node.end()
        self._checksums.append(self._file.checksum())
        self._file.write(len(self._checksums) - 1)
        return float(INTERVAL)

    def _ask_together(self, size: int) -> None:
        """Asks the disk for a collective write. No rank polls while others ask."""
        self._node.move(size)
        self._link.barrier()

    def fault(self) -> str:
        """Compares the solutions in the file with those that were written. If the steps of
        the class were made, compares errors and residual with the published ones."""
        self._file.reopen()
        for number, checksum in enumerate(self._checksums):
            self._file.read(number)
            if not self._link.agree(self._file.checksum() == checksum):
                return f"solution {number} is not what was written"
        solutions = self._size.steps // INTERVAL
        if len(self._checksums) >= solutions:
            error = mean_error(self._adi, self._file, solutions)
            for check in verdict(self._size, self._adi.residual(), error):
                if not check.passed:
                    return f"{check.name} is {check.found:.13g}, not {check.expected:.13g}"
        return ""


class DtJob(Job):
    """DT. A round is one flow through the graph. Work: bytes that pass along its arcs."""

    def __init__(self, link: PatientLink, kernels: Kernels, node: Node) -> None:
        self._node, size = node, DT[DT_CLASS]
        self._flow = DataFlow(link, kernels, size, GRAPH, self._moved)
        self._expected = size.checksums[GRAPH]
        self._bytes = float(ITEM * SAMPLE_VALUES * size.samples * self._flow.arcs)
        self._found = self._expected

    def work(self) -> float:
        self._node.begin()
        found = self._flow.flow()
        self._node.end()
        if found != self._expected:
            self._found = found
        return self._bytes

    def _moved(self, size: int) -> None:
        """Each node of the graph is a round of the emulated node."""
        self._node.streams(size)
        self._node.end()
        self._node.begin()

    def fault(self) -> str:
        if self._found != self._expected:
            return f"checksum is {self._found:.13g}, not {self._expected:.13g}"
        return ""


def run(
    name: str, seconds: float, folder: Path, kernels: Kernels, functions: Kernels
) -> int:
    """Runs a job as ``c/kernel.h`` describes it. The exit status. Raises CoschedError.
    kernels: the benchmark's C functions; functions: those of the emulated node."""
    node = Node(name, functions)
    link = PatientLink(MPI.COMM_WORLD, node.is_emulated)
    started = int(os.environ.get("PMI_SIZE") or os.environ.get("OMPI_COMM_WORLD_SIZE") or 1)
    if started != link.ranks:
        raise CoschedError(
            "the MPI of this Python is not that of mpiexec; name it with --mpi"
        )
    with ExitStack() as stack:
        if name in WAYS:
            place = (WAYS[name], folder, stack)
            return _driven(name, BtioJob(link, kernels, node, place), link, seconds)
        return _driven(name, DtJob(link, kernels, node), link, seconds)


def _driven(name: str, job: Job, link: PatientLink, seconds: float) -> int:
    """Waits for the driver, works and reports."""
    talks = link.rank == 0
    link.barrier()
    if talks:
        print("ready", flush=True)
        _wait_for_line()
    link.barrier()
    begin, work, goes_on = time.monotonic(), 0.0, True
    while goes_on:
        done = job.work()
        if talks and work == 0.0:
            print("running", flush=True)
        work += done
        goes_on = bool(link.sum(int(talks and _goes_on(begin, seconds))))
    took = time.monotonic() - begin
    fault = job.fault()
    if fault and talks:
        print(f"{name}: verification failed: {fault}", file=sys.stderr)
    elif talks:
        print(f"work {work:.17g} seconds {took:.9f}", flush=True)
    return 1 if fault else 0


def _wait_for_line() -> None:
    """Waits for the line that starts the work. Ends all ranks at the end of the input."""
    byte = b""
    while byte != b"\n":
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            MPI.COMM_WORLD.Abort(1)


def _goes_on(begin: float, seconds: float) -> bool:
    """Whether there is another round: in time, or not stopped by the driver."""
    if seconds > 0.0:
        return time.monotonic() - begin < seconds
    return not select.select([sys.stdin], [], [], 0)[0]
