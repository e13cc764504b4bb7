# To a type checker the wrapped module is mpi4py.MPI.
from mpi4py.MPI import *  # noqa: F403
