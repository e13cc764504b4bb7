"""The shim between an MPI program and its MPI library.

It has two forms with one behaviour. ``interposer/`` is C, preloaded below any MPI program.
``wrapper/`` wraps mpi4py, for Python programs where nothing can be preloaded: ``from
mpi_shim import MPI`` instead of ``from mpi4py import MPI``, or ``python -m mpi_shim
program.py`` to run a program unchanged. The two never act at once.

The shim sends the task's status to its peers and reads theirs. It reports a message from a
scheduled peer that arrives while the task is not scheduled (Yoo and Jette's trapped
message). It lets an unscheduled task sleep while it waits, instead of spinning. It fails
open: without a daemon the program runs as it does without cosched.

Importing this package alone does not touch MPI.
"""
