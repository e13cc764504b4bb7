"""The programs of Weissman et al. (2003), Table 1: their sizes, and what all of them share.

Each is a malleable job, in Python and in C (``benchmarks/programs/table1.h``). Both give
the same answer, bit by bit, for any number of ranks and any changes of it.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosched import malleable

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Problem:
    """An instance of a program."""

    size: int  #: rows of the grid or of the matrix, or sequences
    ideal: int  #: nodes, as the paper's own scheduler found


STEN = (Problem(128, 4), Problem(256, 8), Problem(512, 10), Problem(1024, 14))
GE = (Problem(128, 6), Problem(256, 8), Problem(512, 12), Problem(1024, 18))
CL = (Problem(25, 10), Problem(50, 16), Problem(100, 24), Problem(200, 32))


class Run:
    """A run as the command line asks for it. iterations: the usual number; 0: as many as
    the size."""

    def __init__(
        self, about: str, problems: tuple[Problem, ...], iterations: int = 0
    ) -> None:
        parser = argparse.ArgumentParser(description=about)
        add = parser.add_argument
        add("--problem", type=int, choices=(1, 2, 3, 4), default=1, help="P1 to P4")
        add("--scale", type=float, default=1.0, help="of the size")
        add("--size", type=int, help="in place of the problem's")
        add("--iterations", type=int, help=f"default {iterations or 'the size'}")
        add("--until", type=Path, help="end as soon as this file exists")
        add("--pause", type=float, default=0.0, help="in each iteration, s")
        options = parser.parse_args()
        problem = problems[options.problem - 1]
        self.size: int = options.size or max(2, int(problem.size * options.scale + 0.5))
        self.ideal = problem.ideal
        self._count: int = options.iterations or iterations or self.size
        self._until: Path | None = options.until
        self._pause: float = options.pause
        self.done = 0

    def job(self) -> malleable.Job:
        """Begins the job."""
        return malleable.Job(minimum=1, ideal=self.ideal)

    def steps(self, job: malleable.Job) -> Iterator[int]:
        """Yields the numbers of iterations. The program redistributes in each one that
        begins with ``resized``; ``goes_on`` comes after that."""
        for step in job.steps(None if self._until else self._count):
            yield step
            self.done = step + 1
            time.sleep(self._pause)

    def goes_on(self, job: malleable.Job) -> bool:
        """Returns whether this iteration is carried out, the same in all ranks."""
        return not self._until or not job.comm.bcast(self._until.exists())

    def answer(self, name: str, result: Array | None) -> None:
        """Prints the answer in rank 0, which has the result."""
        if result is not None:
            line = f"{name} size {self.size} iterations {self.done}"
            print(f"{line} answer {zlib.crc32(result.tobytes()):08x}", flush=True)


def mixed(numbers: Array | int) -> Array:
    """Returns a random number for each number (splitmix64), as unsigned 64 bits."""
    with np.errstate(over="ignore"):
        z = (np.asarray(numbers, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
