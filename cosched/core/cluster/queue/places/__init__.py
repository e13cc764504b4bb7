"""Keeps which job has which nodes: any nodes, aligned blocks, or rows of places."""
