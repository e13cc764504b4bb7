"""Starts programs of cosched: their Python, their standard streams."""
