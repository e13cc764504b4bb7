"""Models a running job whose number of nodes changes, and its expected end.

During one event the planned size of a job may change several times. Only the last size is
carried out (``settle``), as one change with the cost of one. Until then ``size`` is the
plan and ``held`` is the number of nodes that the job has.
"""

from __future__ import annotations

from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob


class ResizableRun:
    """A job with nodes. ``held`` is 0 until the job starts at the end of this event.

    harvests: the changes that took nodes from it. end_ns: its expected end with ``held``.
    """

    __slots__ = (
        "end_ns", "harvests", "held", "ideal", "job", "minimum", "since_ns", "size",
        "start_ns",
    )  # fmt: skip

    def __init__(self, job: MalleableJob, size: int, now_ns: int) -> None:
        self.job = job
        self.minimum = job.minimum
        self.ideal = job.size
        self.size = size
        self.held = 0
        self.harvests = 0
        self.start_ns = now_ns
        self.since_ns = now_ns  # it stands still until then
        self.end_ns = now_ns

    @property
    def share(self) -> float:
        """Returns the planned size as a share of the ideal."""
        return self.size / self.ideal

    def age_ns(self, now_ns: int) -> int:
        """Returns the time since its start."""
        return now_ns - self.start_ns

    def left_ns(self, now_ns: int) -> int:
        """Returns the time until its end with the planned size."""
        return self.end_with_ns(self.size, now_ns) - now_ns

    def end_with_ns(self, size: int, now_ns: int) -> int:
        """Returns its end if it ran on with ``size`` nodes, including the cost."""
        job = self.job
        stretch = job.execution(size, self.ideal)
        if not self.held:
            return now_ns + max(1, round(job.walltime_ns * stretch))
        if size == self.held:
            return self.end_ns
        begin_ns = max(now_ns, self.since_ns)
        # Negative for a live job that exceeds its expected end.
        held_left_ns = max(0, self.end_ns - begin_ns)
        left_ns = held_left_ns * stretch / job.execution(self.held, self.ideal)
        return begin_ns + job.cost.ns(self.held, size) + round(left_ns)

    def settle(self, now_ns: int) -> None:
        """Carries out the planned size."""
        self.end_ns = self.end_with_ns(self.size, now_ns)
        if self.held:
            cost_ns = self.job.cost.ns(self.held, self.size)
            self.since_ns = max(now_ns, self.since_ns) + cost_ns
            if self.size < self.held:
                self.harvests += 1
        self.held = self.size
