"""Configuration: its keys, how its sources are merged, and which values contradict each
other.

Pure; ``cosched.config.cosched_toml`` reads the sources.
"""
