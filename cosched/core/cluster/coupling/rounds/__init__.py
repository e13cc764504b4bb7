"""Starts the jobs of a group on all its domains or on none: reserve, prepare, go."""
