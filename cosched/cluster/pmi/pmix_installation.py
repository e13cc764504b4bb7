"""Finds the libpmix that an installed Open MPI loads, and where its other files are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from cosched.launch.program import loaded_libraries

_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
#: Open MPI 4 needs this library, and takes a task that its own launcher did not start for
#: a job of one rank.
_OLD = "libopen-rte."
_TEXTS = "share/openmpi"


def find_libpmix(mpiexec: Path, environ: Mapping[str, str] = _NO_VARIABLES) -> Path | None:
    """Returns the libpmix of the Open MPI that ``mpiexec`` belongs to; None before
    Open MPI 5. environ: the tasks' variables, which can change the libraries found."""
    for _, libmpi in _mpi_libraries(mpiexec):
        libraries = loaded_libraries(libmpi, environ)
        if any(name.startswith(_OLD) for name, _ in libraries):
            return None
        for name, where in libraries:
            if name.startswith("libpmix."):
                return Path(where)
    return None


def prefix_variables(mpiexec: Path) -> dict[str, str]:
    """Returns variables that tasks need where Open MPI was moved after its build, as wheels
    are: without them it finds neither its settings nor the texts of its errors."""
    for prefix, _ in _mpi_libraries(mpiexec):
        if (prefix / _TEXTS).is_dir():
            return {"OPAL_PREFIX": str(prefix), "PMIX_PREFIX": str(prefix)}
    return {}


def _mpi_libraries(mpiexec: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the prefixes to which ``mpiexec`` may belong, and the libmpi in each."""
    for launcher in (mpiexec, mpiexec.resolve()):
        prefix = launcher.parent.parent
        for pattern in ("lib*/libmpi.so.[0-9]*", "lib/*/libmpi.so.[0-9]*"):
            for library in sorted(prefix.glob(pattern)):
                yield prefix, library
