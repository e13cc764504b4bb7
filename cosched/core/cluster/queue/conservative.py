"""Plans jobs by conservative backfill (Mu'alem and Feitelson, TPDS 2001).

Every job has a reservation: the earliest time at which its nodes are free for its whole
walltime beside all earlier reservations. It starts at that time. It may run before jobs
that arrived earlier, but it delays none of them.

When a job ends early, the reservations are compressed. Each one, in queue order, is
removed and inserted again at the earliest time, which is never later than before. There is
one round. A later reservation may leave another gap, which the next early end closes.

When a running job exceeds its walltime, it is expected to take some time more. If that fits
beside all reservations, they stay unchanged. Otherwise all reservations are planned again
in queue order, and some may move back. They are also planned again after a pass that came
too late for a reservation.

A heap holds the next reservations, because queues of saturated machines have thousands of
jobs. A pass then reads only the jobs that start. A heap entry is out of date, and ignored,
if its job was moved up.

Invariants after every pass: no reservation is in the past. The profile is the free nodes
minus the reservations, plus the expected ends of running jobs. It is never negative.

Limits: a job starts when its reservation is due; passes have no other rules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush

from cosched.core.cluster.queue.ledger import Ledger
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.planner import NO_RULES, Offers, PassRules, Planner
from cosched.core.cluster.queue.profile import Profile
from cosched.core.errors import CoschedError


class Conservative(Planner):
    """Conservative backfill; ``order`` ranks the jobs when plans are compressed."""

    takes_rules = False

    def __init__(self, ledger: Ledger, order: Order) -> None:
        super().__init__(ledger, order)
        self._arrivals: list[int] = []  # one number a job of the queue, ascending
        self._arrival: dict[JobId, int] = {}
        self._next_arrival = 0
        self._new: list[Job] = []  # without a reservation so far
        self._start_ns: dict[JobId, int] = {}
        self._due: list[tuple[int, int, JobId]] = []  # heap: (start, arrival, job)
        self._given_back: list[tuple[int, int]] = []
        self._profile = Profile(0, ledger.free, ())
        self._removed = self._resized = False  # since the last pass

    @property
    def reservations(self) -> dict[JobId, int]:
        """Returns a copy of the planned start of each waiting job, after the last pass."""
        return dict(self._start_ns)

    def submit(self, job: Job) -> None:
        super().submit(job)
        self._arrivals.append(self._next_arrival)
        self._arrival[job.number] = self._next_arrival
        self._next_arrival += 1
        self._new.append(job)

    def end(self, expected_ns: int, size: int) -> None:
        self._given_back.append((expected_ns, size))

    def remove(self, job: Job) -> None:
        position = bisect_left(self._arrivals, self._arrival.pop(job.number))
        del self.queue[position], self._arrivals[position]
        start_ns = self._start_ns.pop(job.number, None)
        if start_ns is not None:
            self._profile.occupy(-job.size, start_ns, start_ns + job.walltime_ns)
            self._removed = True
        elif job in self._new:
            self._new.remove(job)

    def resize(self) -> None:
        self._resized = True

    def restore(self, job: Job) -> None:
        raise CoschedError("conservative backfill gives each job one reservation: no holds")

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        if rules:
            raise CoschedError("conservative backfill keeps its order: no rules for a pass")
        self.counts.passes += 1
        late = self._ledger.extend(now_ns)
        self.counts.overruns += len(late)
        void = self._resized or self._is_overdue(now_ns)
        early = not void and self._take_back(now_ns)
        if void or (late and not self._prolong(sum(late), now_ns)):
            self._plan_again(now_ns)
        else:
            if early or self._removed:
                self._compress(now_ns)
            self._reserve(self._new)
        self._new.clear()
        self._given_back.clear()
        self._removed = self._resized = False
        positions: list[int] = []
        for arrival in self._take_due(now_ns):
            position = bisect_left(self._arrivals, arrival)
            in_order = position == len(positions)
            positions.append(position)
            if in_order:
                self.counts.started_in_order += 1
            else:
                self.counts.backfilled += 1
            yield self.queue[position]
        for position in reversed(positions):
            del self.queue[position], self._arrivals[position]

    def wake_ns(self) -> int | None:
        self._drop_outdated()
        return self._due[0][0] if self._due else None

    def _take_due(self, now_ns: int) -> list[int]:
        """Removes the due reservations; returns the arrivals of their jobs, sorted."""
        due = self._due
        taken = []
        while due and due[0][0] <= now_ns:
            start_ns, arrival, number = heappop(due)
            if self._is_current(start_ns, arrival, number):
                taken.append(arrival)
                del self._start_ns[number], self._arrival[number]
        return sorted(taken)

    def _is_current(self, start_ns: int, arrival: int, number: JobId) -> bool:
        return (
            self._arrival.get(number) == arrival and self._start_ns.get(number) == start_ns
        )

    def _is_overdue(self, now_ns: int) -> bool:
        """Returns whether a reservation is in the past: a real driver can wake up late, and
        then the later reservations are wrong too."""
        self._drop_outdated()
        return bool(self._due) and self._due[0][0] < now_ns

    def _drop_outdated(self) -> None:
        due = self._due
        while due and not self._is_current(*due[0]):
            heappop(due)

    def _take_back(self, now_ns: int) -> bool:
        """Frees the nodes of jobs that ended early; returns whether there were any."""
        profile = self._profile
        profile.advance(now_ns)
        early = False
        for expected_ns, size in self._given_back:
            if expected_ns > now_ns:
                profile.occupy(-size, now_ns, expected_ns)
                early = True
        return early

    def _prolong(self, size: int, now_ns: int) -> bool:
        """Keeps ``size`` nodes for late jobs; returns False if reservations need them."""
        end_ns = now_ns + self._ledger.overrun_ns
        if self._profile.least(now_ns, end_ns) < size:
            return False
        self._profile.occupy(size, now_ns, end_ns)
        return True

    def _compress(self, now_ns: int) -> None:
        """Moves reservations to earlier times where that is possible."""
        profile, starts = self._profile, self._start_ns
        firsts: dict[int, int] = {}  # by size, valid until a move changes the profile
        for job in self._order.rank(self.queue, now_ns):
            start_ns, size = starts.get(job.number), job.size
            if start_ns is None:
                continue
            first_ns = firsts.get(size)
            if first_ns is None:
                first_ns = firsts[size] = profile.first(size)
            # It can move up only if its nodes are free at some earlier time.
            if first_ns >= start_ns:
                continue
            earlier_ns = profile.earlier(size, job.walltime_ns, start_ns)
            if earlier_ns == start_ns:
                continue
            profile.occupy(-size, start_ns, start_ns + job.walltime_ns)
            profile.occupy(size, earlier_ns, earlier_ns + job.walltime_ns)
            firsts.clear()
            self._set_start(job.number, earlier_ns)
            self.counts.reservations_moved_up += 1

    def _plan_again(self, now_ns: int) -> None:
        self.counts.plans_made_again += 1
        self._due.clear()
        ledger = self._ledger
        ends = ((end_ns, size) for end_ns, _, size in ledger.ends)
        self._profile = Profile(now_ns, ledger.free, ends)
        self._reserve(self._order.rank(self.queue, now_ns))

    def _reserve(self, jobs: Sequence[Job]) -> None:
        profile = self._profile
        for job in jobs:
            if job.size > self._ledger.capacity:  # until nodes return to service
                self._start_ns.pop(job.number, None)
                continue
            start_ns = profile.earliest(job.size, job.walltime_ns)
            profile.occupy(job.size, start_ns, start_ns + job.walltime_ns)
            self._set_start(job.number, start_ns)

    def _set_start(self, number: JobId, start_ns: int) -> None:
        self._start_ns[number] = start_ns
        heappush(self._due, (start_ns, self._arrival[number], number))
