"""Schedules malleable jobs: running jobs give up nodes so that other jobs start.

Weissman, Rao Abburi and England, *Integrated Scheduling: The Best of Both Worlds* (2003).
``scheduler.MalleableScheduler`` is the state machine. Admission, harvest, distribution and
control are its policies.
"""
