"""Starts jobs of several domains together (Tang et al., IPDPS 2011): hold and yield.

``machine.Coupling`` is the state machine of one domain. ``ready`` has the decisions of the
paper, ``rounds`` the start of a group's jobs on all domains or on none, ``mail`` the
messages between domains. ``engine_messages`` defines what a domain's engine must do.
``coupled_queue.CoupledQueue`` connects the machine with our own queue.
"""
