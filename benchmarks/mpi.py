"""Finds the MPI of a benchmark, and builds the MPI programs of ``benchmarks/programs``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cosched.bench.workload.build import build_program
from cosched.core.errors import CoschedError
from cosched.launch.family import Mpi
from cosched.launch.mpi import SearchPath, find_mpi
from cosched.launch.program import Program

PROGRAMS = Path(__file__).parent / "programs"


def places() -> SearchPath:
    """Returns where an MPI is looked for: beside this Python, and in PATH."""
    return SearchPath(Path(sys.executable).parent, os.environ)


def find(asked: str | None) -> Mpi:
    """Returns the MPI that is asked for, or the one at hand."""
    return find_mpi(Program((), None, ""), asked, places())


def build(source: Path, mpi: Mpi) -> Path:
    """Returns the program, compiled for an MPI. Raises CoschedError without its mpicc."""
    if mpi.mpicc is None:
        raise CoschedError(
            f"{mpi.mpiexec}: no mpicc beside it to build {source.stem} with; name another "
            "MPI with --mpi"
        )
    return build_program(source, mpi.mpicc, os.environ)
