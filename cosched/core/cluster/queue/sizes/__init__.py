"""Changes the sizes of running jobs so that other jobs start: malleable jobs.

Weissman, Rao Abburi and England, *Integrated Scheduling: The Best of Both Worlds* (2003).
A size policy (``settings``) joins harvest, distribution and control;
``core.cluster.queue.plans.malleable`` plans with it.
"""
