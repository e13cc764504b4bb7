"""A running job whose nodes come and go, and what that means for its end.

During one event a job's size may change several times; only what it comes to is carried
out (``settle``), as one change, with the cost of one. Until then ``size`` is a plan and
``held`` what the job still has.
"""

from __future__ import annotations

from cosched.core.cluster.malleable.messages import MalleableJob


class Running:
    """A job with nodes. ``held`` is 0 until it starts at the end of this event.

    harvests: how many changes took nodes from it. end_ns: expected, with ``held`` nodes.
    """

    __slots__ = (
        "end_ns", "harvests", "held", "ideal", "job", "minimum", "since_ns", "size",
        "start_ns",
    )  # fmt: skip

    def __init__(self, job: MalleableJob, size: int, now_ns: int) -> None:
        self.job = job
        self.minimum = job.minimum
        self.ideal = job.ideal
        self.size = size
        self.held = 0
        self.harvests = 0
        self.start_ns = now_ns
        self.since_ns = now_ns  # it stands still until then
        self.end_ns = now_ns

    @property
    def share(self) -> float:
        """Of its ideal."""
        return self.size / self.ideal

    def age_ns(self, now_ns: int) -> int:
        """Since its start."""
        return now_ns - self.start_ns

    def left_ns(self, now_ns: int) -> int:
        """Until its end with the planned size."""
        return self.end_with_ns(self.size, now_ns) - now_ns

    def end_with_ns(self, size: int, now_ns: int) -> int:
        """When it would end if it went on with so many nodes, any cost paid."""
        job = self.job
        stretch = job.execution(size, self.ideal)
        if not self.held:
            return now_ns + max(1, round(job.run_ns * stretch))
        if size == self.held:
            return self.end_ns
        begin_ns = max(now_ns, self.since_ns)
        # Below 0 for a live job that runs on after its time.
        held_left_ns = max(0, self.end_ns - begin_ns)
        left_ns = held_left_ns * stretch / job.execution(self.held, self.ideal)
        return begin_ns + job.cost.ns(self.held, size) + round(left_ns)

    def settle(self, now_ns: int) -> None:
        """The planned size becomes the one it has."""
        self.end_ns = self.end_with_ns(self.size, now_ns)
        if self.held:
            cost_ns = self.job.cost.ns(self.held, self.size)
            self.since_ns = max(now_ns, self.since_ns) + cost_ns
            if self.size < self.held:
                self.harvests += 1
        self.held = self.size
