"""How many descriptors a daemon may have: each task of each job costs it one or more."""

from __future__ import annotations

import resource

DESCRIPTORS = 65536


def raise_descriptor_limit() -> int:
    """Sets the soft limit to ``DESCRIPTORS``, or to the hard one if that is less; returns
    what it is. A limit that is higher already stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
