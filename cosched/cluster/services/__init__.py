"""Runs members of a domain as processes."""
