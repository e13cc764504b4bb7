"""Conservative backfill (Mu'alem and Feitelson, TPDS 2001): every job has a reservation.

A job is given the earliest time at which its nodes are free for its whole walltime
beside all reservations made before it, and starts then. It may run before jobs that
came earlier, but delays none of them.

When a job ends early, the reservations are compressed: in queue order each is taken out
and put in again at the earliest time, which is never later than before. One round: a
reservation behind it may open another gap, which the next early end closes.

When a running job outlives its walltime it is expected to take some time more. Where that
fits beside all reservations they stay as they are. Else the plan cannot hold: all are made
anew in queue order, and some may move back.

Whose reservation is next is on a heap, so that a pass looks at the jobs that start, not at
all that wait: queues of saturated machines are thousands of jobs long. An entry whose job
was moved up is out of date and passed over.

Invariants after every pass: no reservation is in the past; the profile is what is free
less what is expected of running jobs less the reservations; it is never negative.

Limits: a job whose reservation has come starts; it cannot be declined.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush

from cosched.core.cluster.queue.ledger import Ledger
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.planner import NO_RULES, Counts, Offers, PassRules
from cosched.core.cluster.queue.profile import Profile
from cosched.core.errors import CoschedError


class Conservative:
    """Conservative backfill; ``order`` says who is first when plans are compressed."""

    def __init__(self, ledger: Ledger, order: Order) -> None:
        self.counts = Counts()
        self._ledger = ledger
        self._order = order
        self._queue: list[Job] = []
        self._turns: list[int] = []  # of each job of the queue, ascending
        self._turn: dict[JobId, int] = {}
        self._next_turn = 0
        self._new: list[Job] = []  # without a reservation so far
        self._start_ns: dict[JobId, int] = {}
        self._due: list[tuple[int, int, JobId]] = []  # heap: (start, turn, job)
        self._given_back: list[tuple[int, int]] = []
        self._profile = Profile(0, ledger.free, ())

    @property
    def queue(self) -> Sequence[Job]:
        return self._queue

    @property
    def reservations(self) -> dict[JobId, int]:
        """When each waiting job is to start, as the last pass left it; a copy."""
        return dict(self._start_ns)

    def submit(self, job: Job) -> None:
        self._queue.append(job)
        self._turns.append(self._next_turn)
        self._turn[job.number] = self._next_turn
        self._next_turn += 1
        self._new.append(job)

    def end(self, expected_ns: int, size: int) -> None:
        self._given_back.append((expected_ns, size))

    def restore(self, job: Job) -> None:
        raise CoschedError("conservative backfill gives each job one reservation: no holds")

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        if rules:
            raise CoschedError("conservative backfill keeps its order: no rules for a pass")
        self.counts.passes += 1
        late = self._ledger.extend(now_ns)
        self.counts.overruns += len(late)
        early = self._take_back(now_ns)
        if late and not self._prolong(sum(late), now_ns):
            self._plan_anew(now_ns)
        else:
            if early:
                self._compress(now_ns)
            self._reserve(self._new)
        self._new.clear()
        self._given_back.clear()
        positions: list[int] = []
        for turn, number in self._come(now_ns):
            position = bisect_left(self._turns, turn)
            in_order = position == len(positions)
            positions.append(position)
            if in_order:
                self.counts.started_in_order += 1
            else:
                self.counts.backfilled += 1
            if (yield self._queue[position]) is False:
                raise CoschedError(f"job {number} has a reservation and must start")
        for position in reversed(positions):
            del self._queue[position], self._turns[position]

    def wake_ns(self) -> int | None:
        self._forget_moved()
        return self._due[0][0] if self._due else None

    def _come(self, now_ns: int) -> list[tuple[int, JobId]]:
        """Takes out the reservations that have come; the jobs' turns and numbers, by
        arrival."""
        due = self._due
        come = []
        while due and due[0][0] <= now_ns:
            start_ns, turn, number = heappop(due)
            if self._holds(start_ns, turn, number):
                come.append((turn, number))
                del self._start_ns[number], self._turn[number]
        return sorted(come)

    def _holds(self, start_ns: int, turn: int, number: JobId) -> bool:
        return self._turn.get(number) == turn and self._start_ns[number] == start_ns

    def _forget_moved(self) -> None:
        due = self._due
        while due and not self._holds(*due[0]):
            heappop(due)

    def _take_back(self, now_ns: int) -> bool:
        """Frees what ended early; whether anything did."""
        profile = self._profile
        profile.advance(now_ns)
        early = False
        for expected_ns, size in self._given_back:
            if expected_ns > now_ns:
                profile.occupy(-size, now_ns, expected_ns)
                early = True
        return early

    def _prolong(self, size: int, now_ns: int) -> bool:
        """Late jobs of so many nodes in all go on; False if reservations need the nodes."""
        end_ns = now_ns + self._ledger.overrun_ns
        if self._profile.least(now_ns, end_ns) < size:
            return False
        self._profile.occupy(size, now_ns, end_ns)
        return True

    def _compress(self, now_ns: int) -> None:
        """Moves reservations up."""
        profile, starts = self._profile, self._start_ns
        firsts: dict[int, int] = {}  # of sizes, until a move changes the profile
        for job in self._order.rank(self._queue, now_ns):
            start_ns, size = starts.get(job.number), job.size
            first_ns = firsts.get(size)
            if first_ns is None:
                first_ns = firsts[size] = profile.first(size)
            # Without a moment before at which its nodes are free it cannot move up.
            if start_ns is None or first_ns >= start_ns:
                continue
            earlier_ns = profile.earlier(size, job.walltime_ns, start_ns)
            if earlier_ns == start_ns:
                continue
            profile.occupy(-size, start_ns, start_ns + job.walltime_ns)
            profile.occupy(size, earlier_ns, earlier_ns + job.walltime_ns)
            firsts.clear()
            self._promise(job.number, earlier_ns)
            self.counts.reservations_moved_up += 1

    def _plan_anew(self, now_ns: int) -> None:
        self.counts.plans_made_anew += 1
        self._due.clear()
        ledger = self._ledger
        ends = ((end_ns, size) for end_ns, _, size in ledger.ends)
        self._profile = Profile(now_ns, ledger.free, ends)
        self._reserve(self._order.rank(self._queue, now_ns))

    def _reserve(self, jobs: Sequence[Job]) -> None:
        profile = self._profile
        for job in jobs:
            start_ns = profile.earliest(job.size, job.walltime_ns)
            profile.occupy(job.size, start_ns, start_ns + job.walltime_ns)
            self._promise(job.number, start_ns)

    def _promise(self, number: JobId, start_ns: int) -> None:
        self._start_ns[number] = start_ns
        heappush(self._due, (start_ns, self._turn[number], number))
