"""Ranks of one machine as tasks of several nodes.

``COSCHED_TEST_NODES=a,b`` puts even ranks on node a and odd ones on b.
``COSCHED_TEST_INTERPOSED=RANK:PATH`` gives one rank the C interposer, ``all:PATH`` gives it
to each. Call both before mpi_shim.MPI is imported.
"""

from __future__ import annotations

import os
import sys

NODES = "COSCHED_TEST_NODES"
INTERPOSED = "COSCHED_TEST_INTERPOSED"


def rank_from_launcher() -> int:
    """Returns the rank that Hydra or PRRTE set, before MPI is initialised."""
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    return 0


def choose_node() -> None:
    """Sets COSCHED_NODE for this rank."""
    nodes = os.environ.get(NODES)
    if nodes:
        names = nodes.split(",")
        os.environ["COSCHED_NODE"] = names[rank_from_launcher() % len(names)]


def preload_interposer() -> None:
    """Restarts this rank's program below the interposer, if the rank is to have it."""
    rank, _, path = os.environ.get(INTERPOSED, "").partition(":")
    chosen = rank in ("all", str(rank_from_launcher()))
    if path and chosen and "LD_PRELOAD" not in os.environ:
        os.environ["LD_PRELOAD"] = path
        os.execv(sys.executable, sys.orig_argv)
