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
if its job was moved up. Such entries are dropped once they are most of the heap.

Invariants after every pass: no reservation is in the past. The profile is the free nodes
minus the reservations, plus the expected ends of running jobs. It is never negative.

Where nodes take several jobs, each reservation is in one row, the row with the earliest
time, and each row has a profile.

Limits: a job starts when its reservation is due; passes have no other rules. After a
compression, a job can be planned before an equal one that arrived earlier, until the next
early end.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.plans.planner import Offers, Planner
from cosched.core.cluster.queue.plans.profile import Profile
from cosched.core.cluster.queue.rules import NO_RULES, PassRules
from cosched.core.errors import CoschedError


class Conservative(Planner):
    """Conservative backfill; ``order`` ranks the jobs when plans are compressed."""

    takes_rules = False

    def __init__(self, place: Place, order: Order) -> None:
        super().__init__(place, order)
        if place.rows is None:
            raise CoschedError(
                "conservative backfill plans with numbers of nodes, not with blocks "
                "or halves"
            )
        self._rows = place.rows
        self._new: list[Job] = []  # without a reservation so far
        self._planned: dict[JobId, tuple[int, int]] = {}  # start, and number of the row
        self._due: list[tuple[int, int, JobId]] = []  # heap: (start, submission, job)
        self._given_back: list[tuple[int, int, int]] = []
        self._profiles = [Profile(0, row.free, ()) for row in self._rows]
        self._removed = self._void = False  # since the last pass

    @property
    def reservations(self) -> dict[JobId, int]:
        """Returns a copy of the planned start of each waiting job, after the last pass."""
        return {number: start_ns for number, (start_ns, _) in self._planned.items()}

    def submit(self, job: Job) -> None:
        if self.waiting.add(job):
            self._new.append(job)
        else:
            self._void = True  # jobs that came later have reservations before it

    def end(self, number: JobId, row: int, expected_ns: int, size: int) -> None:
        self._given_back.append((row, expected_ns, size))

    def remove(self, job: Job) -> None:
        super().remove(job)
        planned = self._planned.pop(job.number, None)
        if planned is not None:
            start_ns, row = planned
            self._profiles[row].occupy(-job.size, start_ns, start_ns + job.walltime_ns)
            self._removed = True
        elif job in self._new:
            self._new.remove(job)

    def resize(self) -> None:
        self._void = True

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        if rules:
            raise CoschedError("conservative backfill keeps its order: no rules for a pass")
        self.counts.passes += 1
        late = [row.prolong(now_ns) for row in self._rows]
        is_late = any(late)
        self.counts.overruns += sum(map(len, late))
        void = self._void or self._is_overdue(now_ns)
        early = not void and self._take_back(now_ns)
        if void or (is_late and not self._prolong(list(map(sum, late)), now_ns)):
            self._plan_again(now_ns)
        else:
            if early or self._removed:
                self._compress(now_ns)
            self._reserve(self._new)
        self._new.clear()
        self._given_back.clear()
        self._removed = self._void = False
        positions: list[int] = []
        for position, row in self._take_due(now_ns):
            if position == len(positions):
                self.counts.started_in_order += 1
            else:
                self.counts.backfilled += 1
            positions.append(position)
            yield self.waiting.jobs[position], self._rows[row]
        self.waiting.drop(self.waiting.jobs, positions)
        self._drop_outdated()
        self.wake_ns = self._due[0][0] if self._due else None

    def _take_due(self, now_ns: int) -> list[tuple[int, int]]:
        """Removes the due reservations; returns the place of each of their jobs in the
        queue, sorted, and its row."""
        due = self._due
        taken = []
        while due and due[0][0] <= now_ns:
            entry = heappop(due)
            if self._is_current(entry):
                _, submit_ns, number = entry
                _, row = self._planned.pop(number)
                taken.append((self.waiting.place_of(submit_ns, number), row))
        return sorted(taken)

    def _is_current(self, entry: tuple[int, int, JobId]) -> bool:
        start_ns, _, number = entry
        planned = self._planned.get(number)
        return planned is not None and planned[0] == start_ns

    def _is_overdue(self, now_ns: int) -> bool:
        """Returns whether a reservation is in the past: a real driver can wake up late, and
        then the later reservations are wrong too."""
        self._drop_outdated()
        return bool(self._due) and self._due[0][0] < now_ns

    def _drop_outdated(self) -> None:
        due = self._due
        if len(due) > 2 * len(self._planned) + 16:
            due[:] = filter(self._is_current, due)
            heapify(due)
        while due and not self._is_current(due[0]):
            heappop(due)

    def _take_back(self, now_ns: int) -> bool:
        """Frees the nodes after early ends; returns whether there were any."""
        for profile in self._profiles:
            profile.advance(now_ns)
        early = False
        for row, expected_ns, size in self._given_back:
            if expected_ns > now_ns:
                self._profiles[row].occupy(-size, now_ns, expected_ns)
                early = True
        return early

    def _prolong(self, sizes: Sequence[int], now_ns: int) -> bool:
        """Plans the late jobs of each row longer; returns whether that fits beside all
        reservations. If not, the profiles are unchanged. sizes: the nodes of
        late jobs, by row."""
        late = [
            (profile, size, now_ns + row.overrun_ns)
            for row, profile, size in zip(self._rows, self._profiles, sizes, strict=True)
            if size
        ]
        if any(profile.least(now_ns, end_ns) < size for profile, size, end_ns in late):
            return False
        for profile, size, end_ns in late:
            profile.occupy(size, now_ns, end_ns)
        return True

    def _compress(self, now_ns: int) -> None:
        """Moves reservations to earlier times where that is possible."""
        profiles, planned = self._profiles, self._planned
        firsts: dict[int, int] = {}  # by size, valid until a move changes a profile
        for job in self.waiting.ranked(now_ns):
            plan, size = planned.get(job.number), job.size
            if plan is None:
                continue
            start_ns, row = plan
            first_ns = firsts.get(size)
            if first_ns is None:
                first_ns = min([profile.first(size) for profile in profiles])
                firsts[size] = first_ns
            # It can move up only if its nodes are free at some earlier time.
            if first_ns >= start_ns:
                continue
            earlier_ns = profiles[row].earlier(size, job.walltime_ns, start_ns)
            new_row = row
            for other, profile in enumerate(profiles):
                if other != row:
                    at_ns = profile.earliest(size, job.walltime_ns)
                    if at_ns < earlier_ns:
                        earlier_ns, new_row = at_ns, other
            if earlier_ns == start_ns:
                continue
            profiles[row].occupy(-size, start_ns, start_ns + job.walltime_ns)
            self._plan(job, earlier_ns, new_row)
            firsts.clear()
            self.counts.reservations_moved_up += 1

    def _plan_again(self, now_ns: int) -> None:
        self.counts.plans_made_again += 1
        self._due.clear()
        self._profiles = [
            Profile(now_ns, row.free, ((end_ns, size) for end_ns, _, size in row.expected))
            for row in self._rows
        ]
        self._reserve(self.waiting.ranked(now_ns))

    def _reserve(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if not self._place.fits_alone(job):  # until nodes return to service
                self._planned.pop(job.number, None)
                continue
            start_ns, row = min(
                [
                    (profile.earliest(job.size, job.walltime_ns), row)
                    for row, profile in enumerate(self._profiles)
                ]
            )
            self._plan(job, start_ns, row)

    def _plan(self, job: Job, start_ns: int, row: int) -> None:
        self._profiles[row].occupy(job.size, start_ns, start_ns + job.walltime_ns)
        self._planned[job.number] = (start_ns, row)
        heappush(self._due, (start_ns, job.submit_ns, job.number))
