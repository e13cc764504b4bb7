"""Malleable jobs: running jobs give up nodes so that others start, and get them back.

Weissman, Rao Abburi and England, *Integrated Scheduling: The Best of Both Worlds* (2003).
``scheduler.MalleableScheduler`` is the machine; admission, harvest, distribution and
control are policies it is made of.
"""
