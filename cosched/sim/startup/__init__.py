"""Starts jobs on simulated nodes with the machines of ``core.cluster.startup``."""
