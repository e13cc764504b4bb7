"""For MPI programs whose number of ranks changes while they run: ``malleable.Job``.

docs/malleable.md shows how a loop of mpi4py becomes malleable. ``boundaries`` is the link
to the node's agent, ``worlds`` makes and ends ranks, ``blocks`` moves arrays, ``job`` is
what programs use.
"""

from cosched.malleable.blocks import BlocksDisagree, even
from cosched.malleable.job import Job, Misuse

__all__ = ["BlocksDisagree", "Job", "Misuse", "even"]
