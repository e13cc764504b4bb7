"""Decides which job of a domain starts when, and on which nodes.

``machine.QueueMachine`` is the state machine. Its policies are an order, a plan, a place
and sizes; docs/dev/queue.md explains how they combine.
"""
