"""Reaches the other nodes of a job: by srun inside its allocation, or by a remote shell.

The remote side runs as the user, so the kernel of each node decides what is allowed there.
"""
