"""Runs the controller of a domain: queue, central manager and job store."""
