"""Raises a daemon's limit of descriptors: each task of each job needs one or more."""

from __future__ import annotations

import resource

DESCRIPTORS = 65536


def raise_descriptor_limit() -> int:
    """Raises the soft limit to ``DESCRIPTORS``, at most to the hard limit; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
