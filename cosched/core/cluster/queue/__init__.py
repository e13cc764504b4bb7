"""Decides which job of a domain starts when, and on which nodes.

``scheduler.QueueScheduler`` is the state machine. Order and backfill are its policies.
"""
