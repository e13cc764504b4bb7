"""Runs the agent of one node: it assigns resources, starts tasks and serves their PMI.

``agent`` is the process that takes part in the domain. Each job has a steward (``steward``)
on the node, which makes the tasks. Stewards are forks of a small process without threads
(``nursery``).
"""
