"""The NAS Parallel Benchmarks as MPI programs over mpi4py: ``python -m benchmarks.npb``.

The algorithms, problem sizes and verification values are those of NPB 3.4 (NASA reports
95-020 and 02-007); the code is our own. Python drives and communicates, compiled kernels
compute. docs/npb.md says what each benchmark does and what it sends.
"""
