"""Configuration files: ``cosched.toml``, ``domain.toml``, and how any of them is read.

``cosched.core.config`` has the mechanism, and the tables that the pure core needs.
"""
