"""Defines what is stored about a job's suspensions, and about nodes that it borrows."""

from __future__ import annotations

import msgspec

from cosched.core.bounds import JobNumber, Natural, Slots
from cosched.core.cluster.queue.sizes.suspension import Suspended
from cosched.core.decoding import JsonDecoder


class JobSuspension(msgspec.Struct, frozen=True):
    """The suspensions of a job in its latest start, and the job that lends it nodes."""

    times: Slots = 0  #: how often it was ordered to stop
    #: The job that has its nodes, or is to; None: it is not suspended.
    for_job: JobNumber | None = None
    stopped_ns: Natural | None = None  #: when all its tasks were stopped; None: not yet
    continues: bool = False  #: it was ordered to continue
    refused: str = ""  #: why it could not be suspended; empty: it could
    done: Slots = 0  #: how often all its tasks were stopped
    total_ns: Natural = 0  #: how long, in all, until it continued last
    lender: JobNumber | None = None  #: the suspended job whose nodes it got; None: none

    @property
    def is_suspended(self) -> bool:
        """Returns whether all its tasks are stopped, as far as is known."""
        return self.stopped_ns is not None

    def suspended_ns(self, now_ns: int) -> int:
        """Returns how long its tasks were stopped until now, in all."""
        since_ns = now_ns if self.stopped_ns is None else self.stopped_ns
        return self.total_ns + max(0, now_ns - since_ns)

    def over(self, now_ns: int) -> JobSuspension:
        """Returns the same after its tasks run again, or have ended."""
        return msgspec.structs.replace(
            self,
            for_job=None,
            stopped_ns=None,
            continues=False,
            refused="",
            total_ns=self.suspended_ns(now_ns),
        )

    @property
    def for_queue(self) -> Suspended:
        """Returns the suspensions as the queue restores them after a restart."""
        continues = self.continues and self.is_suspended
        return Suspended(
            self.for_job, self.stopped_ns, continues, self.times, self.total_ns
        )


suspension_decoder: JsonDecoder[JobSuspension] = JsonDecoder(
    JobSuspension, "the suspensions of a job"
)
