"""The steward of a job on one node: a process that runs as the job's user.

It makes the tasks (``tasks``), reads their output (``outputs``, ``streams``) and serves
their PMI.
"""
