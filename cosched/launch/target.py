"""Finds the MPI that a shim is for: the MPI of a program, a launcher or a compiler wrapper,
or the default MPI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cosched.core.errors import CoschedError
from cosched.launch.command import Site
from cosched.launch.family import (
    STANDARD_ABI,
    Family,
    Mpi,
    family_of_library,
    is_mpi_library,
)
from cosched.launch.mpi import SearchPath, find_mpi
from cosched.launch.program import Program, require
from cosched.launch.resolved_job import Request, resolve
from cosched.launch.shim import ShimBuild, plan_build


class Target(NamedTuple):
    """The MPI of a shim."""

    build: ShimBuild  #: the build of the shim for this MPI
    mpi: Mpi | None  #: the installation; None: it has no launcher
    family: Family | None  #: the family of the MPI library; None: unknown
    library: Path | None  #: the file of the MPI library itself; None: not found
    standard_abi: bool  #: whether programs follow MPI 5's own ABI

    @property
    def title(self) -> str:
        """The name for users, with the version if known."""
        if self.mpi is not None:
            return f"{self.mpi.title} {self.mpi.version}"
        return self.family.title if self.family is not None else "an unknown MPI"

    @property
    def abi(self) -> str:
        """The binary interface that programs follow."""
        if self.standard_abi:
            return "standard (MPI 5)"
        return self.family.title if self.family is not None else "unknown"


def find_target(
    argv: Sequence[str], mpi: str | None, mpicc: Path | None, places: SearchPath
) -> Target:
    """Returns the MPI of ``mpicc``; without it, of the program or launcher ``argv``.

    Without both it returns the MPI that cosched-run would use with ``--mpi``. CoschedError
    if there is no MPI or no compiler.
    """
    if mpicc is not None:
        wrapper = require(str(mpicc), places.environ, "compiler wrapper")
        return _target(plan_build(wrapper, places.environ), None, places)
    if not argv:
        found = find_mpi(Program((), None, ""), mpi, places)
        if found.mpicc is None:
            raise CoschedError(f"no mpicc beside {found.mpiexec}; name one with --mpicc")
        return _target(plan_build(found.mpicc, places.environ), found, places)
    job = resolve(Request(tuple(argv), mpi=mpi), Site(), places)
    build = plan_build(job.require_mpicc(), places.environ, standard_abi=job.standard_abi)
    return _target(build, job.mpi, places)


def _target(build: ShimBuild, mpi: Mpi | None, places: SearchPath) -> Target:
    library = main_library(build)
    name = library.name if library is not None else ""
    family = family_of_library(name)
    if mpi is None and library is not None:
        program = Program((str(build.mpicc),), None, "", family, library, name)
        try:
            mpi = find_mpi(program, None, places)
        except CoschedError:
            mpi = None  # a machine that compiles but starts nothing
    if family is None and mpi is not None:
        family = mpi.family
    return Target(build, mpi, family, library, name.startswith(STANDARD_ABI))


def main_library(build: ShimBuild) -> Path | None:
    """Returns the file of the MPI library itself; None if the wrapper links none."""
    return next((path for path in build.libraries if _is_main(path.name)), None)


def _is_main(name: str) -> bool:
    """Whether a file is the MPI library itself and not one of its bindings."""
    return is_mpi_library(name) and name.split(".", maxsplit=1)[0] in (
        "libmpi",
        "libmpich",
        "libmpi_abi",
    )
