"""Compiles the node kernels for the machine at hand: seconds, so they are not kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.cluster.symbiosis.resources import Limits, Resource
from cosched.core.errors import CoschedError
from cosched.launch.family import Mpi
from cosched.launch.mpi import Places, find_mpi
from cosched.launch.program import Program, which

SOURCES = Path(__file__).parent / "c"
#: No contraction: the results must be the same on every processor.
FLAGS = ("-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
COMPILE_TIMEOUT_S = 300
NETWORK = "network"

#: What each kernel is limited by: its label.
KERNELS: Mapping[str, Limits] = {
    "cpu": frozenset({Resource.CPU}),
    "stream": frozenset({Resource.MEMORY}),
    "gups": frozenset({Resource.MEMORY}),
    "io": frozenset({Resource.IO}),
    NETWORK: frozenset({Resource.NETWORK}),
}


@dataclass(frozen=True, slots=True)
class Built:
    """Programs by kernel, and the MPI that starts the network kernel, if it is among
    them."""

    programs: Mapping[str, Path]
    mpi: Mpi | None


def build(
    kernels: Sequence[str], folder: Path, asked_mpi: str | None, sources: Path = SOURCES
) -> Built:
    """Compiles the kernels into a folder. Raises CoschedError if something is missing."""
    environ = os.environ
    mpi = None
    if NETWORK in kernels:
        mpi = find_mpi(
            Program((), None, ""), asked_mpi, Places(Path(sys.executable).parent, environ)
        )
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
        _compile(compiler, sources / f"{kernel}.c", programs[kernel])
    return Built(programs, mpi)


def _compiler(environ: Mapping[str, str]) -> Path:
    for name in (environ.get("CC", ""), "cc", "gcc", "clang"):
        found = which(name, environ) if name else None
        if found is not None:
            return found
    raise CoschedError("no C compiler (cc); install gcc or name one with CC")


def _compile(compiler: Path, source: Path, program: Path) -> None:
    argv = [str(compiler), *FLAGS, "-o", str(program), str(source), "-lm"]
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=COMPILE_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.splitlines() or ["no message"]
        telling = [line for line in said if "error" in line] or said
        raise CoschedError(f"{source.name} does not compile: {telling[0]}")
