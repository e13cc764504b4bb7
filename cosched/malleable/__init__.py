"""For MPI programs whose number of ranks changes while they run: ``malleable.Job``.

docs/malleable.md shows how a loop of mpi4py becomes malleable. ``job`` is what programs
use. ``membership`` carries a rank through changes, ``worlds`` makes and ends ranks, and
``blocks`` moves arrays.
"""

from cosched.malleable.blocks import BlocksDisagree, even
from cosched.malleable.job import Job, Misuse

__all__ = ["BlocksDisagree", "Job", "Misuse", "even"]
