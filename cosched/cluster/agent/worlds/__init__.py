"""Keeps what the tasks of one job share at its root: spawned worlds, published names, and
nodes that come together."""
