"""Queues the jobs of a domain and starts them by the agents of its nodes.

``jobs`` decides what happens to each job: its queue is ``core.cluster.queue``.
``node_entries`` are the nodes; ``starts`` are the jobs on them. ``records`` are stored, and
after a restart ``after_restart`` decides which jobs run on.
"""
