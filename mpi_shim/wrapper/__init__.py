"""The mpi4py wrapper: mpi4py.MPI with messages, requests and waits that coschedule.

``module`` builds the module that programs import. ``task`` links the process to the
scheduler daemon, ``status`` and ``data`` carry the sender's status and take mpi4py's
message arguments apart, ``requests``, ``messages`` and ``collectives`` replace mpi4py's
calls.

A method that replaces one of mpi4py has no docstring in these files. ``module`` gives it
that of mpi4py, and the first sentence of its class: it describes what the wrapper adds.
"""
