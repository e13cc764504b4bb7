"""Configuration: its keys, how its sources are merged, and which values contradict each
other.

Pure; ``cosched.config.places`` reads the sources.
"""
