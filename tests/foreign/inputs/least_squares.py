"""A regularised least-squares problem with PyLops-MPI: operators and a conjugate-gradient
solver that are distributed over the ranks. Rank 0 prints the solution, each bit of it."""

import numpy as np
import pylops
import pylops_mpi
from mpi4py import MPI

ROWS, COLUMNS, STEPS = 60, 40, 200
WEIGHT = 0.5

world = MPI.COMM_WORLD
chance = np.random.default_rng(world.rank)
blocks = pylops_mpi.MPIBlockDiag(
    ops=[pylops.MatrixMult(chance.normal(size=(ROWS, COLUMNS)))]
)
# Its edges are the neighbour ranks' business: ghost cells travel with every product.
smooth = pylops_mpi.MPISecondDerivative(dims=(world.size * COLUMNS,), dtype=np.float64)
both = pylops_mpi.MPIStackedVStack([blocks, WEIGHT * smooth])

truth = pylops_mpi.DistributedArray(world.size * COLUMNS)
truth[:] = np.sin(np.arange(COLUMNS) / 5 + world.rank)
data = pylops_mpi.StackedDistributedArray([blocks @ truth, 0 * truth])
start = 0 * truth
found, _, steps, residual, _, cost = pylops_mpi.cgls(
    both, data, x0=start, niter=STEPS, tol=1e-20
)
whole = found.asarray()
assert np.isfinite(whole).all()
if world.rank == 0:
    print("steps", steps, "residual", float(residual).hex())
    for value in (*cost, *whole):
        print(float(value).hex())
