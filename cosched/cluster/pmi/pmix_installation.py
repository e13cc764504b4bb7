"""Finds the libpmix that an installed Open MPI loads, and whether Open MPI was moved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from cosched.core.named_tuples import NamedTuple
from cosched.launch.program import loaded_libraries

#: Open MPI 4 needs this library, and takes a task that its own launcher did not start for
#: a job of one rank.
_OLD = "libopen-rte."
_PMIX = "libpmix."
#: Libraries that contain the prefix for which they were built, and the variables by which
#: they learn of another one.
_PREFIXES = {"libopen-pal.": "OPAL_PREFIX", _PMIX: "PMIX_PREFIX"}


class Installation(NamedTuple):
    """An Open MPI."""

    libpmix: Path  #: the path of the library
    #: For its tasks, if it was moved after its build, as wheels are; without them it finds
    #: neither its settings nor the texts of its errors.
    variables: Mapping[str, str]


def find_installation(mpiexec: Path, environ: Mapping[str, str]) -> Installation | None:
    """Returns the Open MPI that ``mpiexec`` belongs to; None before Open MPI 5. environ:
    the tasks' variables, which can change the libraries found."""
    for prefix, libmpi in _mpi_libraries(mpiexec):
        libraries = {name: Path(where) for name, where in loaded_libraries(libmpi, environ)}
        if _library(libraries, _OLD) is not None:
            return None
        libpmix = _library(libraries, _PMIX)
        if libpmix is not None:
            variables = {
                variable: str(prefix)
                for start, variable in _PREFIXES.items()
                if variable not in environ
                and (library := _library(libraries, start)) is not None
                and _was_moved(library, prefix)
            }
            return Installation(libpmix, variables)
    return None


def _mpi_libraries(mpiexec: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the prefixes to which ``mpiexec`` may belong, and the libmpi in each."""
    for launcher in (mpiexec, mpiexec.resolve()):
        prefix = launcher.parent.parent
        for pattern in ("lib*/libmpi.so.[0-9]*", "lib/*/libmpi.so.[0-9]*"):
            for library in sorted(prefix.glob(pattern)):
                yield prefix, library


def _library(libraries: Mapping[str, Path], start: str) -> Path | None:
    return next((at for name, at in libraries.items() if name.startswith(start)), None)


def _was_moved(library: Path, prefix: Path) -> bool:
    """Whether a library below ``prefix`` was built for another prefix."""
    if not Path(os.path.normpath(library)).is_relative_to(prefix):
        return False
    try:
        return os.fsencode(prefix) not in library.read_bytes()
    except OSError:
        return False
