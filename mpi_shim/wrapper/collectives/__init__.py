"""Collective calls."""
