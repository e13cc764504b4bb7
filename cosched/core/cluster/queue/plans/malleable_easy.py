"""Plans malleable and rigid jobs together by EASY backfill.

The first job that cannot start, not even by a harvest, gets a reservation at the shadow
time (``easy``): its least nodes are expected to be free or harvestable then. A running job
counts with its minimum, because the rest can be harvested at any time; that of a rigid job
is its size.

A later job may start before, on free nodes or by a harvest. Its minimum must come from the
extra nodes if it runs beyond the shadow time. A harvest puts off the ends of its victims. A
victim that ends after the shadow time for that reason needs extra nodes, too. The remaining
free nodes go to running jobs below their ideal, whose ends come nearer.

Invariant, if jobs end when they are expected to, and changes are done at once: while a job
stays the first one, its reservation does not move back, and it starts then at the latest.

Limits: no degree of multiprogramming and no control of harvests, since the reserved job
relies on harvests. A running job that waits for its minimum, since its bounds changed, is
not counted with it. Nodes out of service count as free from the end of their job on.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.plans.malleable import Malleable, Taken
from cosched.core.cluster.queue.sizes.harvest import EVEN, LOW_IMPACT
from cosched.core.cluster.queue.sizes.malleable_job import least_nodes
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.cluster.queue.sizes.settings import SizePolicy
from cosched.core.errors import CoschedError


class MalleableEasy(Malleable):
    """EASY backfill with sizes that change. reservation: the first job that could not
    start in the last pass, and its shadow time; None if there was none."""

    def __init__(self, place: Place, order: Order, sizes: SizePolicy) -> None:
        super().__init__(place, order, sizes)
        control = sizes.control
        limited = control.harvest_limit is not None or control.protected_ns > 0
        if sizes.degree is not None or limited or control.least_benefit > 0.0:
            raise CoschedError("easy with sizes that change takes no limits of harvests")
        if sizes.harvest not in (EVEN, LOW_IMPACT):
            raise CoschedError(
                "easy with sizes that change harvests even or low-impact, not "
                f"{sizes.harvest.name}"
            )
        self.reservation: tuple[Job, int] | None = None
        self._extra = 0  # nodes that the reserved job will not need

    def submit(self, job: Job) -> None:
        super().submit(job)
        self._arrived = True  # it may start before others

    def _admit(self, now_ns: int) -> None:
        self.reservation = None
        self._reach_degree(now_ns)
        head = self._first()
        if head is not None:
            shadow_ns = self._reserve(head, now_ns)
            self._backfill(head, shadow_ns, now_ns)

    def _share_out(self, now_ns: int) -> None:
        self._admit(now_ns)
        self._give_rest(now_ns)

    def _reserve(self, head: Job, now_ns: int) -> int:
        """Keeps the least nodes of a job for it; returns its shadow time."""
        runs = self.running.values()
        ends = sorted(
            (run.end_with_ns(run.size, now_ns), min(run.size, run.minimum)) for run in runs
        )
        self._extra = self._free + self._slack() - least_nodes(head)
        shadow_ns = now_ns
        for end_ns, nodes in ends:
            if self._extra >= 0 and end_ns > shadow_ns:
                break
            self._extra += nodes
            shadow_ns = max(end_ns, now_ns)
        self.reservation = head, shadow_ns
        return shadow_ns

    def _backfill(self, head: Job, shadow_ns: int, now_ns: int) -> None:
        """Starts jobs behind the reserved one that do not delay it."""
        most = self._free + self._slack()
        for job in list(self.waiting.jobs):
            least = least_nodes(job)
            if job is head or least > most:
                continue
            run = ResizableRun(job, max(least, min(job.size, self._free)), now_ns)
            late = run.end_with_ns(run.size, now_ns) > shadow_ns
            needed = least if late else 0
            taken: Taken | None = []
            if needed <= self._extra and least > self._free:
                taken = self._find(least - self._free, now_ns)
            if taken is None:
                continue
            needed += sum(
                victim.minimum
                for victim, amount in taken
                if self._delays(victim, victim.size, -amount, shadow_ns, now_ns)
            )
            if needed > self._extra:
                self.counts.would_delay += 1
                continue
            self._extra -= needed
            if taken:
                self._take(taken, job.number, least)
            self._start(job, now_ns)
            self.counts.backfilled += 1
            most = self._free + self._slack()
            if not most:
                break

    def _give(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        sizes = [run.size for run in jobs]
        super()._give(jobs, now_ns)
        if self.reservation is None:
            return
        # A change may cost more than it saves.
        shadow_ns = self.reservation[1]
        for run, size in zip(jobs, sizes, strict=True):
            if self._delays(run, size, run.size - size, shadow_ns, now_ns):
                if run.minimum > self._extra:
                    self._undo(run)
                else:
                    self._extra -= run.minimum

    def _delays(
        self, run: ResizableRun, size: int, by: int, shadow_ns: int, now_ns: int
    ) -> bool:
        """Returns whether a change of a job puts its end off beyond the shadow time."""
        if not by or run.end_with_ns(size, now_ns) > shadow_ns:
            return False
        return run.end_with_ns(size + by, now_ns) > shadow_ns
