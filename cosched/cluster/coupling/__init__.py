"""Drives the decisions of a domain in real time, coupled with other domains or not.

``driver`` feeds the decisions of an engine and has their orders carried out. ``pairs`` has
the jobs with mates: each decision about them is stored (``snapshot_store``) before it is
carried out, so a controller that was killed continues where it was. ``mail`` carries
messages between domains; ``metrics`` are for Prometheus.
"""
