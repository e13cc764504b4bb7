"""Finds the libpmix that an installed Open MPI loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from cosched.launch.program import loaded_libraries

_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
#: Open MPI 4 needs this library, and takes a task that its own launcher did not start for
#: a job of one rank.
_OLD = "libopen-rte."


def find_libpmix(mpiexec: Path, environ: Mapping[str, str] = _NO_VARIABLES) -> Path | None:
    """Returns the libpmix of the Open MPI that ``mpiexec`` belongs to; None before
    Open MPI 5. environ: the tasks' variables, which can change the libraries found."""
    for libmpi in _mpi_libraries(mpiexec):
        libraries = loaded_libraries(libmpi, environ)
        if any(name.startswith(_OLD) for name, _ in libraries):
            return None
        for name, where in libraries:
            if name.startswith("libpmix."):
                return Path(where)
    return None


def _mpi_libraries(mpiexec: Path) -> Iterator[Path]:
    for launcher in (mpiexec, mpiexec.resolve()):
        prefix = launcher.parent.parent
        for pattern in ("lib*/libmpi.so.[0-9]*", "lib/*/libmpi.so.[0-9]*"):
            yield from sorted(prefix.glob(pattern))
