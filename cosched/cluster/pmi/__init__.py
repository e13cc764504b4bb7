"""Serves the process management interface (PMI) of an MPI to the tasks of one job on one
node: PMI-1 for MPICH (``pmi1``), PMIx for Open MPI (``pmix``)."""
