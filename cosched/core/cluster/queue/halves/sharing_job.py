"""Defines a job that may share nodes."""

from __future__ import annotations

from cosched.core.cluster.queue.halves.resources import Limits
from cosched.core.cluster.queue.job import Job

Half = int  #: 2 x node for its top half, one more for its bottom half

TOP, BOTTOM = 0, 1


class SharingJob(Job, frozen=True, kw_only=True):
    """A request for node halves.

    size: halves. walltime_ns: the requested run time on whole nodes of its own.
    application: its kind. limits: its user's label.
    """

    application: str
    limits: Limits
