"""Kernels on some CPUs of a node beside others: one cell, one number, kept at once.

A run of minutes can be interrupted: the same command goes on. With each number goes what
others did on the machine meanwhile (/proc/stat), the kernel's own threads among them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

from benchmarks.kernels.build import Built
from benchmarks.kernels.emulated import EmulatedNode
from benchmarks.kernels.kernel_processes import KernelSetup, occupied
from benchmarks.kernels.matrix import rate_of
from benchmarks.results import Results
from cosched.core.units import NS_PER_S
from cosched.linux.proc import cpu_busy_ns, cpu_stolen_ns


@dataclass(frozen=True, slots=True)
class Cell:
    """Kernels on some CPUs of a node beside others."""

    primary: str  #: the measured kernel
    instances: int  #: CPUs that run the primary
    background: str | None = None  #: the kernel beside it; None: nothing
    beside: int = 0  #: CPUs that run the background

    @property
    def name(self) -> str:
        """For the progress display."""
        return f"{self.instances} {self.primary} beside {self.beside} {self.background}"


@dataclass(frozen=True, slots=True)
class Setting:
    """The properties that comparable numbers share."""

    cpus: tuple[int, ...]  #: the node's CPUs, in the order of their use
    seconds: float  #: how long a cell is measured
    size: int  #: data of a process, in bytes
    #: The node that is emulated; None: the machine's own memory and disk are shared.
    emulated: EmulatedNode | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurement of a cell."""

    rate: float  #: work a second of an instance
    outside: float  #: CPUs that others used meanwhile, as a share of all
    stolen: float  #: CPUs that the host gave to other guests, as a share of all


@dataclass(frozen=True, slots=True)
class Quiet:
    """The quiet of the machine: shares of its CPUs over all samples."""

    outside_median: float  #: used by others, the median
    outside_most: float  #: used by others, the greatest share
    stolen_most: float  #: given to other guests, the greatest share


@dataclass(frozen=True, slots=True)
class _Run:
    """The measurement of a cell: a number of another setting is no result of it."""

    cell: Cell
    setting: Setting


class Samples:
    """The numbers in a file; those of other settings stay there."""

    def __init__(self, path: Path, setting: Setting) -> None:
        self._results = Results(path)
        self._setting = setting

    def left(self, cells: Iterable[Cell], repeat: int) -> list[Cell]:
        """Returns the cells to measure, each once a round."""
        runs = [_Run(cell, self._setting) for cell in dict.fromkeys(cells)]
        return [run.cell for run in self._results.left(runs, repeat)]

    def add(self, cell: Cell, sample: Sample) -> None:
        """Keeps a number."""
        self._results.add(_Run(cell, self._setting), asdict(sample))

    def rates(self, cells: Iterable[Cell]) -> dict[Cell, float]:
        """Returns the median of each cell."""
        return {
            cell: statistics.median(sample.rate for sample in self._of(cell))
            for cell in cells
        }

    def quiet(self, cells: Iterable[Cell]) -> Quiet:
        """Returns how quiet it was while these were measured."""
        samples = [sample for cell in set(cells) for sample in self._of(cell)]
        outside = [sample.outside for sample in samples]
        return Quiet(
            statistics.median(outside),
            max(outside),
            max(sample.stolen for sample in samples),
        )

    def _of(self, cell: Cell) -> list[Sample]:
        found = self._results.all(_Run(cell, self._setting))
        return [Sample(**sample) for sample in found]


Rates: TypeAlias = Mapping[Cell, float]


def measure(cell: Cell, built: Built, setting: Setting, folder: Path) -> Sample:
    """Runs a cell once."""
    cpus = setting.cpus
    primary = KernelSetup(cpus[: cell.instances], setting.size, folder)
    background = KernelSetup(
        cpus[cell.instances : cell.instances + cell.beside], setting.size, folder
    )
    before = _usage()
    with ExitStack() as stack:
        if setting.emulated is not None:
            node = stack.enter_context(setting.emulated.made())
            primary, background = (
                replace(primary, node=node),
                replace(background, node=node),
            )
        stack.enter_context(occupied(cell.background, built, background))
        rate = rate_of(cell.primary, built, primary, setting.seconds)
    after = _usage()
    wall, busy, own, stolen = (new - old for new, old in zip(after, before, strict=True))
    everything = wall * (os.cpu_count() or 1)
    return Sample(
        rate / cell.instances,
        max(0.0, busy - own) / everything,
        max(0.0, stolen) / everything,
    )


def carry_out(
    samples: Samples,
    cells: Sequence[Cell],
    repeat: int,
    run: Callable[[Cell], Sample],
    report: Callable[[float, str], None],
) -> None:
    """Measures what is missing."""
    left = samples.left(cells, repeat)
    for done, cell in enumerate(left):
        report(done / len(left), cell.name)
        samples.add(cell, run(cell))
    report(1.0, "")


def _usage() -> tuple[float, float, float, float]:
    """Seconds: on the clock; all CPUs worked; we and our children did; others' steal."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    busy = sum(cpu_busy_ns().values()) / NS_PER_S
    stolen = sum(cpu_stolen_ns().values()) / NS_PER_S
    return time.monotonic(), busy, own, stolen
