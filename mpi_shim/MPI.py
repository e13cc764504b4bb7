"""``mpi_shim.MPI``: the wrapped mpi4py.MPI in a job of cosched, else mpi4py's own.

The module puts the chosen one in its own place, so that ``from mpi_shim import MPI``
and ``import mpi_shim.MPI`` both name it.
"""

import sys

from mpi_shim.choose import choose

sys.modules[__name__] = choose()
