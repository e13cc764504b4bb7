"""Configuration: its keys, how its sources are merged, and which values contradict each
other.

Pure; ``cosched.node.configuration`` reads the sources.
"""
