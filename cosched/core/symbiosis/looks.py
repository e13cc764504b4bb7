"""Decides when a node looks at one of its jobs alone, while the jobs beside it rest.

A look costs the jobs that rest a slice, so three rules bound it:

- A job rests at most ``percent`` of the time that it spends beside others, or
  ``FIRST_RESTS`` slices in all if that is more. So the first looks come soon, and a job
  of half a minute loses no more than a hundredth.
- The jobs take turns: each look shows another one.
- If enough is known of all of them, looks come eight times more rarely.

Looks begin at multiples of their period by the wall clock, which nodes have in common, and
the number of the period decides which job is shown. So the nodes of two jobs show the same
job at the same moment, without a message. Otherwise a job that rests on one node would also
stand still on its other nodes. Periods are powers of two of the shortest one, so that nodes
which know more still look at moments of the others.

A look has three stretches of one slice each: the job beside the others, alone, and beside
them again (``speeds``). A slice in which a job does too little work is doubled next time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from cosched.core.node.messages import Job
from cosched.core.units import NS_PER_MS

#: The shortest and the longest slice of a look.
SLICE_LEAST_NS = 50 * NS_PER_MS
SLICE_MOST_NS = 1600 * NS_PER_MS
#: The shortest period is this many slices: three of a look, and as many without one.
PERIOD_SLICES = 8
#: Looks come at once until a job has rested for this number of the least slices.
FIRST_RESTS = 6
#: The factor by which the period grows once enough is known.
RARE_TIMES = 8


class Look(NamedTuple):
    """One look: times by the wall clock. The readings are a slice before the begin, at the
    begin, at the end and a slice later."""

    shown: Job  #: the job that is alone
    resting: tuple[Job, ...]  #: the jobs that rest meanwhile
    begin_ns: int  #: when they begin to rest
    slice_ns: int  #: how long they rest

    @property
    def readings_ns(self) -> tuple[int, int, int, int]:
        """The times of the four readings."""
        first_ns = self.begin_ns - self.slice_ns
        step_ns = self.slice_ns
        return first_ns, first_ns + step_ns, first_ns + 2 * step_ns, first_ns + 3 * step_ns


class Rests(Struct):
    """How long a job has rested, and since when it has neighbours."""

    beside_ns: int = 0  #: how long it has been beside others, until ``since_ns``
    since_ns: int | None = None  #: since when it is beside others; None: it is alone
    rested_ns: int = 0  #: how long it has rested

    def together_ns(self, now_ns: int) -> int:
        """Returns how long the job has been beside others."""
        present_ns = 0 if self.since_ns is None else now_ns - self.since_ns
        return self.beside_ns + present_ns

    def may_rest(self, slice_ns: int, percent: float, now_ns: int) -> bool:
        """Returns whether the job may rest for one more slice."""
        most_ns = max(
            self.together_ns(now_ns) * percent / 100, FIRST_RESTS * SLICE_LEAST_NS
        )
        return self.rested_ns + slice_ns <= most_ns

    def meets(self, others: bool, now_ns: int) -> None:
        """Notes whether the job is beside others from now on."""
        if others and self.since_ns is None:
            self.since_ns = now_ns
        elif not others and self.since_ns is not None:
            self.beside_ns, self.since_ns = self.together_ns(now_ns), None


class Looks:
    """The looks at the jobs of one node. percent: of its time beside others a job rests at
    most so much; 0: never."""

    def __init__(self, percent: float) -> None:
        self.percent = percent
        self._rests: dict[Job, Rests] = {}
        self._slices_ns: dict[Job, int] = {}

    def meet(self, companions: Sequence[Job], now_ns: int) -> None:
        """Notes which jobs are beside each other from now on, and forgets jobs that left.
        companions: jobs that share the node and compete for no CPU; one alone has none."""
        for job in self._rests.keys() - set(companions):
            del self._rests[job]
            self._slices_ns.pop(job, None)
        for job in companions:
            self._rests.setdefault(job, Rests()).meets(len(companions) > 1, now_ns)

    def next_look(
        self,
        companions: Sequence[Job],
        sure: Mapping[Job, bool],
        now_ns: int,
        wall_ns: int,
    ) -> Look | None:
        """Returns the next look; None if there is none now. companions: as in ``meet``, in
        an order that all nodes have. sure: whether enough is known of each."""
        if len(companions) < 2 or not self.percent:
            return None
        slice_ns = max(self._slices_ns.get(job, SLICE_LEAST_NS) for job in companions)
        period_ns = self._period_ns(companions, slice_ns, all(map(sure.get, companions)))
        # The first reading is a slice before the begin.
        number = (wall_ns + slice_ns) // period_ns + 1
        shown = companions[number % len(companions)]
        resting = tuple(job for job in companions if job != shown)
        look = Look(shown, resting, number * period_ns, slice_ns)
        begin_ns = now_ns + look.begin_ns - wall_ns
        allowed = all(
            self._rests[job].may_rest(slice_ns, self.percent, begin_ns) for job in resting
        )
        return look if allowed else None

    def _period_ns(self, companions: Sequence[Job], slice_ns: int, sure: bool) -> int:
        shortest_ns = PERIOD_SLICES * slice_ns
        first_ns = FIRST_RESTS * SLICE_LEAST_NS
        if any(self._rests[job].rested_ns + slice_ns <= first_ns for job in companions):
            return shortest_ns
        # Each look lets all jobs but one rest.
        part = (len(companions) - 1) / len(companions)
        wanted_ns = part * slice_ns * 100 / self.percent * (RARE_TIMES if sure else 1)
        period_ns = shortest_ns
        while period_ns < wanted_ns:
            period_ns *= 2
        return period_ns

    def rested(self, look: Look, lasted_ns: int) -> None:
        """Notes that the jobs of a look have rested, perhaps longer than they should."""
        for job in look.resting:
            if job in self._rests:
                self._rests[job].rested_ns += lasted_ns

    def was_coarse(self, job: Job) -> None:
        """Notes that the job does too little work in a slice for its best measure."""
        now_ns = self._slices_ns.get(job, SLICE_LEAST_NS)
        self._slices_ns[job] = min(2 * now_ns, SLICE_MOST_NS)

    def rested_ns(self, job: Job) -> int:
        """Returns how long a job has rested for looks at others."""
        return self._rests[job].rested_ns if job in self._rests else 0
