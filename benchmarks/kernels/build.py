"""Compiles the node kernels for the machine at hand. It takes seconds, so no cache.

Jobs of the NAS benchmarks (``nas``) may stand beside them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kernels.nas import load_all
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
#: NumPy's linear algebra, of which there is none, would start a thread for each CPU.
_JOB = ("env", "OPENBLAS_NUM_THREADS=1", sys.executable, "-m", "benchmarks.kernels.nas")

#: The resource that limits each kernel: its label.
KERNELS: Mapping[str, Limits] = {
    "cpu": frozenset({Resource.CPU}),
    "stream": frozenset({Resource.MEMORY}),
    "gups": frozenset({Resource.MEMORY}),
    "io": frozenset({Resource.IO}),
    NETWORK: frozenset({Resource.NETWORK}),
}
#: The label of each NAS job.
JOBS: Mapping[str, Limits] = {
    **dict.fromkeys(("btio-e", "btio-s", "btio-f"), frozenset({Resource.IO})),
    "dt": frozenset({Resource.MEMORY}),
}
#: All that can occupy CPUs of a node.
PROGRAMS: Mapping[str, Limits] = {**KERNELS, **JOBS}


@dataclass(frozen=True, slots=True)
class Built:
    """Holds compiled kernels and jobs."""

    commands: Mapping[str, tuple[str, ...]]  #: the words that start a process, by name
    mpi: Mpi | None  #: starts the network kernel and jobs; None: none of them is there


def build(
    kernels: Sequence[str], folder: Path, asked_mpi: str | None, sources: Path = SOURCES
) -> Built:
    """Compiles the kernels into a folder. CoschedError if one does not compile."""
    environ = os.environ
    mpi = None
    if NETWORK in kernels or set(kernels) & set(JOBS):
        mpi = find(asked_mpi)
        if NETWORK in kernels and mpi.mpicc is None:
            raise CoschedError(
                f"no mpicc beside {mpi.mpiexec}; leave the network kernel out with "
                "--kernels, or name another MPI with --mpi"
            )
    commands: dict[str, tuple[str, ...]] = {}
    for kernel in kernels:
        if kernel in JOBS:
            load_all(kernel)
            commands[kernel] = (*_JOB, kernel)
            continue
        of_mpi = mpi.mpicc if mpi is not None and kernel == NETWORK else None
        compiler = of_mpi or _compiler(environ)
        program, source = str(folder / kernel), sources / f"{kernel}.c"
        Compiler((str(compiler),), source.name, environ).run(
            *FLAGS, "-o", program, str(source), "-lm"
        )
        commands[kernel] = (program,)
    return Built(commands, mpi)


def _compiler(environ: Mapping[str, str]) -> Path:
    for name in (environ.get("CC", ""), "cc", "gcc", "clang"):
        found = which(name, environ) if name else None
        if found is not None:
            return found
    raise CoschedError("no C compiler (cc); install gcc or name one with CC")
