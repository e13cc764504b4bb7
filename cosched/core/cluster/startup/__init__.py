"""Decides how the tasks of a job start on its nodes, without I/O (Brelsford et al., JSSPP
2010, "partitioned scheduling").

The central manager only counts the free resources of nodes. Each node assigns its own
resources to its tasks (``assignment``). The job object travels down a tree of the job's
nodes (``tree``, ``object_relay``), the tables of all nodes travel over the same tree
(``tables``), and the tasks begin together (``two_phase``).
"""
