"""Tests that run on each rank of an MPI job: ``mpiexec -n 2 python -m pytest --with-mpi
tests/wrapper/ranks``. tests/wrapper/test_on_ranks.py runs them."""
