"""Handles the differences of Intel MPI from other members of MPICH's family.

Its compiler wrappers from pip or conda contain a placeholder for their directory and read
the real one from ``I_MPI_ROOT`` only. Its launcher binds each job's ranks to CPUs by
default, regardless of other jobs. ``mpicc -mpi_abi`` compiles for MPI 5's ABI.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ABI_OPTION = "-mpi_abi"
_DRIVER = "mpigcc"

#: The variables by which a user chooses how ranks are bound.
BINDING_VARIABLES = (
    *("I_MPI_PIN", "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST"),
    *("I_MPI_PIN_CELL", "I_MPI_PIN_ORDER", "I_MPI_PIN_MODE"),
)
#: For the tasks of other jobs: ranks are not bound (see ``command._open_mpi``).
TASKS = {"I_MPI_PIN": "off"}
#: For tasks on virtual nodes, where shared memory would bypass the network.
VIRTUAL_TASKS = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}


def is_intel_wrapper(mpicc: Path) -> bool:
    """Whether a compiler wrapper belongs to Intel MPI: its drivers lie beside it."""
    return (Path(os.path.realpath(mpicc)).parent / _DRIVER).is_file()


def wrapper_environment(mpicc: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that ``mpicc`` needs and ``environ`` lacks."""
    if "I_MPI_ROOT" in environ or not is_intel_wrapper(mpicc):
        return {}
    return {"I_MPI_ROOT": str(Path(os.path.realpath(mpicc)).parent.parent)}
