"""Runs a domain: a queue of jobs, and their start on the nodes (Brelsford et al., 2010).

A domain has one controller (``controller``) and an agent on each node (``agent``). They
exchange ``messages`` over ``links``. Users reach the controller through the ``user_socket``
of their own node. The decisions are in ``cosched.core.cluster``.
"""
