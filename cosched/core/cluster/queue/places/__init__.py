"""Keeps the nodes of each job: any nodes, aligned blocks, or rows of places."""
