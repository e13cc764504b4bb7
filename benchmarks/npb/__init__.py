"""The NAS Parallel Benchmarks as MPI programs over mpi4py: ``python -m benchmarks.npb``.

The problems are those of NASA report RNR-94-007; algorithms, sizes and verification values
are NPB 3.4's (NASA reports 95-020 and 02-007); the code is our own. Python drives and
communicates, compiled kernels compute. docs/npb.md says what each benchmark does and what
it sends.
"""
