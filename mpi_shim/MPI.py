"""Provides ``mpi_shim.MPI``: the wrapped mpi4py.MPI in a job of cosched, or mpi4py's.

This module replaces itself by the chosen one, so that ``from mpi_shim import MPI`` and
``import mpi_shim.MPI`` both return it.
"""

import sys

from mpi_shim.choose import choose

sys.modules[__name__] = choose()
