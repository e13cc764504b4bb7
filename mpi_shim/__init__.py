"""The shim: what stands between an MPI program and its MPI library.

Two forms with one behaviour. ``interposer/`` is C, preloaded below any MPI program.
``wrapper/`` wraps mpi4py for Python programs where nothing can be preloaded or
compiled: ``from mpi_shim import MPI`` in place of ``from mpi4py import MPI``, or
``python -m mpi_shim program.py`` to run a program unchanged. Both never act at once.

The wrapper sends the task's status in front of each point-to-point message, reads
that of its peers, reports a message of a scheduled peer that arrives while the task
is not scheduled (Yoo and Jette's trapped message), and lets an unscheduled waiter
sleep instead of spinning. It fails open: without a daemon the program runs as ever.

Importing this package alone does not touch MPI.
"""
