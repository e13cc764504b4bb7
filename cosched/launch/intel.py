"""What is particular about Intel MPI, which else is one of MPICH's kin.

Its compiler wrappers from pip or conda hold a placeholder where their directory should be,
and take the real one from ``I_MPI_ROOT`` alone. Its launcher binds each job's ranks to CPUs
unless told otherwise, whatever other jobs do. ``mpicc -mpi_abi`` compiles for MPI 5's ABI.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ABI_OPTION = "-mpi_abi"
_DRIVER = "mpigcc"

#: For the tasks of every job: nothing is bound (see ``command._open_mpi``).
TASKS = {"I_MPI_PIN": "off"}
#: For tasks on virtual nodes, whose shared memory would tunnel through the walls.
VIRTUAL_TASKS = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}


def is_intel_wrapper(mpicc: Path) -> bool:
    """Whether a compiler wrapper is Intel MPI's: its drivers lie beside it."""
    return (Path(os.path.realpath(mpicc)).parent / _DRIVER).is_file()


def wrapper_environment(mpicc: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that ``mpicc`` needs and ``environ`` lacks."""
    if "I_MPI_ROOT" in environ or not is_intel_wrapper(mpicc):
        return {}
    return {"I_MPI_ROOT": str(Path(os.path.realpath(mpicc)).parent.parent)}
