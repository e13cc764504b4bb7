"""The steward of a job on one node: a process that runs as the job's user.

It makes the tasks (``task_process``), reads their output (``outputs``), writes the files of
the job (``streams``) and serves the PMI (``cosched.cluster.pmi``).
"""
