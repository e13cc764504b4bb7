"""Starts jobs of several domains together (Tang et al., IPDPS 2011): hold and yield.

``scheduler.CoupledScheduler`` is the state machine of one domain. ``run_job`` is the
paper's Algorithm 1. ``protocol`` defines the messages between domains.
"""
