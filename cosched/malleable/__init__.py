"""For MPI programs whose number of ranks changes while they run: ``malleable.Job``.

docs/malleable.md shows how a loop of mpi4py becomes malleable. ``job`` is what programs
use. ``membership`` carries a rank through changes, ``worlds`` makes and ends ranks, and
``blocks`` moves arrays.
"""

import sys

from cosched.core.errors import CoschedError
from cosched.malleable.blocks import BlocksDisagree, even

try:
    from cosched.malleable.job import Job, Misuse
except CoschedError as error:  # a program in the folder of the sources finds them first
    sys.exit(f"cosched: {error}")

__all__ = ["BlocksDisagree", "Job", "Misuse", "even"]
