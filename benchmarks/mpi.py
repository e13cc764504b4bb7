"""Finds the MPI of a benchmark, and builds the MPI programs of ``benchmarks/programs``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cosched.bench.workload.build import build_program
from cosched.core.errors import CoschedError
from cosched.launch.family import Mpi
from cosched.launch.malleable import make_library
from cosched.launch.mpi import SearchPath, find_mpi
from cosched.launch.program import Program
from cosched.launch.shim import plan_build

PROGRAMS = Path(__file__).parent / "programs"
_HEADERS = Path(__file__).parents[1] / "cosched/malleable/native/include"
#: Words for the compiler of a program that includes <cosched/mark.h>.
WITH_MARK = (f"-I{_HEADERS}", "-D_GNU_SOURCE")


def places() -> SearchPath:
    """Returns where an MPI is looked for: beside this Python, and in PATH."""
    return SearchPath(Path(sys.executable).parent, os.environ)


def find(asked: str | None) -> Mpi:
    """Returns the MPI that is asked for, or the one at hand."""
    return find_mpi(Program((), None, ""), asked, places())


def build_malleable(source: Path, mpicc: Path) -> Path:
    """Returns a malleable program, compiled with an mpicc. Raises CoschedError."""
    library = make_library(plan_build(mpicc, os.environ))
    words = library.words(fortran=False)
    return build_program(source, mpicc, os.environ, words=words)


def build(source: Path, mpi: Mpi, words: Sequence[str] = ()) -> Path:
    """Returns the program, compiled for an MPI. Raises CoschedError without its mpicc.

    words: further ones for the compiler.
    """
    if mpi.mpicc is None:
        raise CoschedError(
            f"{mpi.mpiexec}: no mpicc beside it to build {source.stem} with; name another "
            "MPI with --mpi"
        )
    return build_program(source, mpi.mpicc, os.environ, words=words)
