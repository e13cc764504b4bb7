"""Decisions of ``cosched.core`` in virtual time: engine, workloads, results."""
