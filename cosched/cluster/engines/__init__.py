"""Steers the schedulers of coupled domains: one interface, one folder for each engine.

``interface`` defines what a coupled domain needs of the scheduler that queues and starts
its jobs. ``slurm`` steers a site's Slurm from outside.
"""
