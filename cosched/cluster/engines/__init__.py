"""Queues the jobs of a domain and starts them: one folder for each engine.

``native`` has a queue of its own, and agents on the nodes. ``slurm`` steers a site's Slurm
from outside.
"""
