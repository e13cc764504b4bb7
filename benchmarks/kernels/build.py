"""Compiles the node kernels for the machine at hand. It takes seconds, so no cache."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mpi import find
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Limits, Resource
from cosched.launch.compile import Compiler
from cosched.launch.family import Mpi
from cosched.launch.program import which

SOURCES = Path(__file__).parent / "c"
#: No contraction: the results must be the same on every processor.
FLAGS = ("-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
NETWORK = "network"

#: The resource that limits each kernel: its label.
KERNELS: Mapping[str, Limits] = {
    "cpu": frozenset({Resource.CPU}),
    "stream": frozenset({Resource.MEMORY}),
    "gups": frozenset({Resource.MEMORY}),
    "io": frozenset({Resource.IO}),
    NETWORK: frozenset({Resource.NETWORK}),
}


@dataclass(frozen=True, slots=True)
class Built:
    """Holds compiled kernels."""

    programs: Mapping[str, Path]  #: path of each program, by kernel
    mpi: Mpi | None  #: starts the network kernel; None: that kernel is not built


def build(
    kernels: Sequence[str], folder: Path, asked_mpi: str | None, sources: Path = SOURCES
) -> Built:
    """Compiles the kernels into a folder. CoschedError if one does not compile."""
    environ = os.environ
    mpi = None
    if NETWORK in kernels:
        mpi = find(asked_mpi)
        if mpi.mpicc is None:
            raise CoschedError(
                f"no mpicc beside {mpi.mpiexec}; leave the network kernel out with "
                "--kernels, or name another MPI with --mpi"
            )
    programs = {}
    for kernel in kernels:
        of_mpi = mpi.mpicc if mpi is not None and kernel == NETWORK else None
        compiler = of_mpi or _compiler(environ)
        programs[kernel] = folder / kernel
        source = sources / f"{kernel}.c"
        Compiler((str(compiler),), source.name, environ).run(
            *FLAGS, "-o", str(programs[kernel]), str(source), "-lm"
        )
    return Built(programs, mpi)


def _compiler(environ: Mapping[str, str]) -> Path:
    for name in (environ.get("CC", ""), "cc", "gcc", "clang"):
        found = which(name, environ) if name else None
        if found is not None:
            return found
    raise CoschedError("no C compiler (cc); install gcc or name one with CC")
