"""Defines exceptions from the order of a queue, for one pass."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from cosched.core.cluster.queue.job import Job, JobId


class PassRules(Struct, frozen=True):
    """Exceptions from the order, for one pass."""

    first: Sequence[JobId] = ()  #: these jobs come before all others, in this order
    last: Collection[JobId] = ()  #: these jobs come after all others
    left_out: Collection[JobId] = ()  #: these jobs are ignored and get no reservation
    #: These jobs move forward by this many places.
    raised: Mapping[JobId, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.first or self.last or self.left_out or self.raised)

    def apply(self, ranked: Sequence[Job]) -> Sequence[Job]:
        """Returns the jobs in the order of this pass; ``ranked`` itself without rules."""
        if self.first or self.last or self.raised:
            return self._reorder(ranked)
        left_out = self.left_out
        return [job for job in ranked if job.number not in left_out] if left_out else ranked

    def _reorder(self, ranked: Sequence[Job]) -> list[Job]:
        first = {number: place - len(self.first) for place, number in enumerate(self.first)}
        keyed = []
        for place, job in enumerate(ranked):
            number = job.number
            if number in self.left_out:
                continue
            raised = self.raised.get(number, 0)
            if number in first:
                key = (0, first[number], 0)
            elif number in self.last:
                key = (2, place, 0)
            else:
                key = (1, place - raised, -raised)
            keyed.append((key, place, job))
        return [job for _, _, job in sorted(keyed, key=lambda entry: entry[:2])]


NO_RULES = PassRules()
