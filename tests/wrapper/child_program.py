"""A program that a wrapped program spawns. It uses mpi4py without the wrapper."""

from mpi4py import MPI

parent = MPI.Comm.Get_parent()
merged = parent.Merge(True)
copy = merged.Dup()
assert parent.recv(source=0, tag=1) == "from the parents"
parent.send("from a child", 0, 2)
own = merged.Split(1)
merged.Barrier()
for comm in (merged, copy, own):
    comm.Free()
parent.Disconnect()
