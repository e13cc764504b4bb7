"""Schedulers of whole clusters: batch queues, coupled domains, malleable and shared nodes.

They decide which jobs start, when and on how many nodes; ``core.node`` decides which job
of a node runs now. The simulator and the controller of a domain drive the same machines.
"""
