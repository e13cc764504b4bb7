"""Follows the jobs with mates of one Slurm: decides what its gates and squeue mean. Pure.

squeue shows the past. So it is ignored for a gate or an order that came after the query.
Times are seconds of the monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from cosched.cluster.coupling.mates import MARK, Mates, read_comment
from cosched.cluster.engines.slurm.events import (
    Cancelled,
    Ended,
    Event,
    GaveBack,
    NotReady,
    PairedJob,
    Ready,
    Refused,
    Started,
    StartFailed,
    Submitted,
)
from cosched.cluster.engines.slurm.jobs import SlurmJob, Stage, count_nodes, number
from cosched.core.errors import CoschedError

GO = "go"
YIELD = "yield"


@dataclass(frozen=True, slots=True)
class GateOrder:
    """Give this order to the gate ``life``."""

    life: str  #: the gate's life
    order: str  #: ``GO`` or ``YIELD``


@dataclass(frozen=True, slots=True)
class TurnAway:
    """Hold this job in the queue, or cancel it if it cannot wait there, for this reason;
    then call ``turned_away``."""

    slurm: SlurmJob  #: the job as squeue showed it
    waits: bool  #: whether it can wait in the queue
    reason: str  #: one line for its user
    life: str  #: its gate, which waits meanwhile; empty: none

    @property
    def number(self) -> int:
        """Returns the number of the job."""
        return self.slurm.job_id


Step = Event | GateOrder | TurnAway


class Phase(Enum):
    """How far a job with mates is."""

    QUEUED = "queued"
    READY = "ready"  #: its gate waits
    GOING = "going"  #: ordered to go; not seen running
    LEAVING = "leaving"  #: ordered to yield; its gate has not ended
    RUNNING = "running"


@dataclass(slots=True)
class Tracked:
    """A job with mates."""

    job: PairedJob  #: with its mates
    slurm: SlurmJob  #: as squeue showed it last
    phase: Phase = Phase.QUEUED  #: where it is between submission and end
    since: float = 0.0  #: the begin of its phase, in s by the monotonic clock
    #: How often it was put back, as its latest gate reported; -1: no gate yet.
    restarts: int = -1
    life: str = ""  #: the life of the gate that waits for an order, or ends
    nodes: str = ""  #: their names, as Slurm writes them; empty: none
    ends: float = math.inf  #: the end of that gate's lease, in s by the monotonic clock

    @property
    def may_yield(self) -> bool:
        """Whether Slurm can put the job back into its queue, as squeue showed it last."""
        return _may_yield(self.slurm)

    @property
    def has_begun(self) -> bool:
        """Whether the job runs or is about to."""
        return self.phase in (Phase.GOING, Phase.RUNNING)

    @property
    def gate(self) -> Gate:
        """Returns the gate of a ready job."""
        job = self.job.number
        return Gate(job, self.restarts, self.nodes, self.life, self.since, self.ends)


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate that waits here since ``at``, and whose lease ends at ``ends``. The other
    fields are those of its hello."""

    job: int  #: Slurm's number of the job
    restarts: int  #: how often the job was put back
    nodes: str  #: their names, as Slurm writes them
    life: str  #: differs for each gate of the job
    at: float  #: the begin of its wait, in s by the monotonic clock
    ends: float = math.inf  #: the end of its lease, in s by the monotonic clock


class Tracker:
    """The jobs with mates of the domain ``own``, by number.

    others: the domains with which it is coupled. only_hold: whether a job that cannot yield
    may have mates.
    """

    def __init__(self, own: str, others: Collection[str], *, only_hold: bool) -> None:
        self._own = own
        self._others = frozenset(others)
        self._only_hold = only_hold
        self._jobs: dict[int, Tracked] = {}
        self._early: dict[int, Gate] = {}  # of jobs that squeue has not shown
        self._turned_away: dict[int, str] = {}  # the comment that was refused
        self._turned_at: dict[int, float] = {}  # infinite while it is turned away
        self._steps: list[Step] = []

    def get(self, job: int) -> Tracked | None:
        """Returns a job with mates; None for another one."""
        return self._jobs.get(job)

    @property
    def early(self) -> bool:
        """Whether a gate waits whose job squeue has not shown yet."""
        return bool(self._early)

    def is_busy(self, since: float) -> bool:
        """Returns whether squeue should soon show the effect of an order that was given
        after a time. Slurm may take long: nodes may have to boot."""
        return any(
            each.phase in (Phase.GOING, Phase.LEAVING) and each.since > since
            for each in self._jobs.values()
        )

    @property
    def expects_gate(self) -> bool:
        """Whether squeue shows nodes of a job that waits for some here: it has just got
        them, or has just given them back."""
        return any(
            each.phase is Phase.QUEUED and each.slurm.stage is Stage.GETS_READY
            for each in self._jobs.values()
        )

    def only_hold_until(self, at: float) -> list[int]:
        """Returns the ready jobs that cannot yield and whose leases end by a time."""
        return [
            number
            for number, each in self._jobs.items()
            if each.phase is Phase.READY and not each.may_yield and each.ends <= at
        ]

    # --- what Slurm reports ---------------------------------------------------------------

    def polled(self, jobs: Iterable[SlurmJob], asked: float) -> list[Step]:
        """Compares the state with all jobs of Slurm, as of the query at the time
        ``asked``."""
        gone = set(self._jobs)
        known = set()
        for slurm in jobs:
            known.add(slurm.job_id)
            gone.discard(slurm.job_id)
            tracked = self._jobs.get(slurm.job_id)
            if tracked is not None:
                self._forget_changed(tracked, slurm)
                tracked = self._jobs.get(slurm.job_id)
            if tracked is None and (slurm.comment or "").startswith(MARK):
                tracked = self._take(slurm, asked)
            elif tracked is None:
                self._let_go(slurm.job_id, asked)
            if tracked is not None:
                tracked.slurm = slurm
                self._compare(tracked, slurm.stage, asked)
        for job in gone:
            if self._jobs[job].since < asked:
                self._over(self._jobs[job], "gone")
        for job in [job for job in self._turned_away if job not in known]:
            del self._turned_away[job]
            self._turned_at.pop(job, None)
        return self._take_steps()

    def came(self, gate: Gate) -> list[Step]:
        """Adds a gate that begins to wait."""
        tracked = self._jobs.get(gate.job)
        if tracked is None:
            self._early[gate.job] = gate
        else:
            self._came(tracked, gate)
        return self._take_steps()

    def _came(self, tracked: Tracked, gate: Gate) -> None:
        if tracked.phase is Phase.GOING and tracked.restarts == gate.restarts:
            tracked.life, tracked.since = gate.life, gate.at
            self._steps.append(GateOrder(gate.life, GO))  # the order was lost
            return
        if tracked.phase is Phase.READY and tracked.life != gate.life:
            self._steps.append(NotReady(gate.job, "Slurm has started its prolog again"))
        elif tracked.phase is Phase.LEAVING:
            self._steps.append(GaveBack(gate.job))
        elif tracked.phase is Phase.GOING:
            self._steps.append(StartFailed(gate.job, "Slurm has put it back"))
        elif tracked.phase is Phase.RUNNING:
            self._steps += [Ended(gate.job, "REQUEUED"), Submitted(tracked.job)]
        self._enter(tracked, Phase.READY, gate.at)
        tracked.life, tracked.restarts, tracked.nodes = gate.life, gate.restarts, gate.nodes
        tracked.ends = gate.ends
        size = count_nodes(gate.nodes) or tracked.slurm.nodes
        self._steps.append(Ready(gate.job, gate.nodes, size))

    def left(self, life: str, now: float) -> list[Step]:
        """Handles the end of a gate."""
        self._early = {job: gate for job, gate in self._early.items() if gate.life != life}
        tracked = next((each for each in self._jobs.values() if each.life == life), None)
        if tracked is None:
            return []
        tracked.life = ""
        if tracked.phase is Phase.READY:
            self._steps.append(NotReady(tracked.job.number, "its prolog has ended"))
            self._enter(tracked, Phase.QUEUED, now)
        elif tracked.phase is Phase.LEAVING:
            self._steps.append(GaveBack(tracked.job.number))
            self._enter(tracked, Phase.QUEUED, now)
        return self._take_steps()

    def turned_away(self, job: int, now: float) -> None:
        """Handles the end of the commands that turned a job away."""
        if job in self._turned_at:
            self._turned_at[job] = now

    # --- orders ---------------------------------------------------------------------------

    def go(self, job: int, now: float) -> list[Step]:
        """Starts a ready job."""
        return self._order(job, Phase.GOING, GO, now)

    def give_back(self, job: int, now: float) -> list[Step]:
        """Orders the gate of a ready job to yield."""
        return self._order(job, Phase.LEAVING, YIELD, now)

    def _order(self, job: int, phase: Phase, order: str, now: float) -> list[Step]:
        tracked = self._jobs.get(job)
        if tracked is None or tracked.phase is not Phase.READY:
            return []
        self._enter(tracked, phase, now)
        return [GateOrder(tracked.life, order)]

    # --- comparing ------------------------------------------------------------------------

    def _compare(self, tracked: Tracked, stage: Stage, asked: float) -> None:
        """Brings a job to the stage that Slurm shows, if that is news."""
        job, phase = tracked.job.number, tracked.phase
        if stage is Stage.OVER:
            self._over(tracked, tracked.slurm.states[0])
        elif tracked.since >= asked or (
            tracked.slurm.only_completes and phase not in (Phase.GOING, Phase.RUNNING)
        ):
            return
        elif stage is Stage.RUNS and phase is not Phase.RUNNING:
            self._steps.append(Started(job, tracked.slurm.started_ns))
            self._enter(tracked, Phase.RUNNING, asked)
        elif stage is Stage.WAITS and phase is Phase.READY:
            self._steps.append(GateOrder(tracked.life, YIELD))
            self._steps.append(NotReady(job, "it was put back into Slurm's queue"))
            tracked.life = ""
            self._enter(tracked, Phase.QUEUED, asked)
        elif stage is Stage.WAITS and phase is Phase.GOING:
            self._steps.append(StartFailed(job, "Slurm has put it back"))
            self._enter(tracked, Phase.QUEUED, asked)
        elif stage is Stage.WAITS and phase is Phase.RUNNING:
            self._steps += [Ended(job, "REQUEUED"), Submitted(tracked.job)]
            self._enter(tracked, Phase.QUEUED, asked)

    def _over(self, tracked: Tracked, outcome: str) -> None:
        job = tracked.job.number
        if tracked.phase is Phase.RUNNING or (
            tracked.phase is Phase.GOING and not outcome.startswith("CANCELLED")
        ):
            self._steps.append(Ended(job, outcome))
        else:
            self._steps.append(Cancelled(job, outcome))
        self._drop(tracked, GO)  # Slurm ignores the status of a job that is over

    def _drop(self, tracked: Tracked, order: str) -> None:
        if tracked.phase is Phase.READY:  # otherwise its gate has an order, or none waits
            self._steps.append(GateOrder(tracked.life, order))
        del self._jobs[tracked.job.number]

    def _forget_changed(self, tracked: Tracked, slurm: SlurmJob) -> None:
        """Forgets a job that waits if it names other mates, or cannot have any, by now. A
        running one stays; a ready one that cannot yield any more only holds."""
        if tracked.phase is Phase.RUNNING or slurm.stage is Stage.RUNS:
            return
        if tracked.slurm.comment != slurm.comment:
            self._steps.append(Cancelled(tracked.job.number, "its comment has changed"))
            still = (slurm.comment or "").startswith(MARK)
            if still and tracked.phase is Phase.READY and not _may_yield(slurm):
                self._early[slurm.job_id] = tracked.gate  # a yield would end the job
                del self._jobs[slurm.job_id]
            else:
                self._drop(tracked, YIELD if still else GO)
        elif (
            tracked.phase is Phase.QUEUED
            and slurm.stage is Stage.WAITS
            and not (self._only_hold or _may_yield(slurm))
        ):
            why = "it cannot wait again any more"
            self._steps.append(Cancelled(tracked.job.number, why))
            self._drop(tracked, YIELD)

    def _let_go(self, job: int, asked: float) -> None:
        """Starts a job that names no mates any more, or is over, at its gate."""
        if job in self._early and self._early[job].at < asked:
            self._steps.append(GateOrder(self._early.pop(job).life, GO))

    # --- new jobs -------------------------------------------------------------------------

    def _take(self, slurm: SlurmJob, asked: float) -> Tracked | None:
        """Begins to track a job; None if it is over or cannot have mates."""
        if slurm.stage is Stage.OVER:
            self._let_go(slurm.job_id, asked)
            return None
        try:
            mates = self._mates(slurm)
        except CoschedError as error:
            self._turn_away(slurm, str(error), asked)
            return None
        self._turned_away.pop(slurm.job_id, None)
        self._turned_at.pop(slurm.job_id, None)
        job = PairedJob(
            slurm.job_id,
            slurm.user_id,
            slurm.user_name or "",
            mates,
            slurm.nodes,
            slurm.limit_ns,
            slurm.submitted_ns,
            _may_yield(slurm),
        )
        tracked = Tracked(job, slurm)
        self._jobs[job.number] = tracked
        self._steps.append(Submitted(job))
        gate = self._early.pop(job.number, None)
        if gate is not None:
            self._came(tracked, gate)
        return tracked

    def _mates(self, slurm: SlurmJob) -> Mates:
        """Returns the mates of a job. Raises CoschedError with the reason if it cannot
        have any."""
        mates = read_comment(slurm.comment or "", self._own, self._others)
        assert mates is not None
        if not slurm.user_name:
            raise CoschedError(
                f"user {slurm.user_id} has no name here; ask the operator to add it"
            )
        if number(slurm.array_job_id, 0):
            raise CoschedError("a task of a job array cannot have mates")
        if number(slurm.het_job_id, 0):
            raise CoschedError("a part of a heterogeneous job cannot have mates")
        if not _may_yield(slurm) and not self._only_hold:
            raise CoschedError(
                "a job with mates must be able to wait again: use sbatch, with --requeue"
            )
        return mates

    def _turn_away(self, slurm: SlurmJob, reason: str, asked: float) -> None:
        """Refuses a job that waits or gets ready. A running one had another comment.

        It is turned away once, until squeue shows what became of that: a second hold could
        come after its user has corrected and released it.
        """
        job, comment = slurm.job_id, slurm.comment or ""
        if slurm.stage is Stage.RUNS:
            return
        gate = self._early.pop(job, None)
        life = "" if gate is None else gate.life
        if self._turned_at.get(job, -math.inf) >= asked:
            if life:
                self._steps.append(GateOrder(life, YIELD))
            return
        news = self._turned_away.get(job) != comment
        waits = slurm.batch_flag and not life
        if life and _may_yield(slurm):
            self._steps.append(GateOrder(life, YIELD))  # and it is held when it waits again
        elif not waits or (slurm.stage is Stage.WAITS and (news or not slurm.held)):
            self._steps.append(TurnAway(slurm, waits, reason, life))
            self._turned_at[job] = math.inf
        if news:
            self._turned_away[job] = comment
            self._steps.append(Refused(job, slurm.user_id, reason))

    # --- small ----------------------------------------------------------------------------

    def _enter(self, tracked: Tracked, phase: Phase, now: float) -> None:
        tracked.phase, tracked.since = phase, now

    def _take_steps(self) -> list[Step]:
        steps, self._steps = self._steps, []
        return steps


def _may_yield(slurm: SlurmJob) -> bool:
    """Returns whether Slurm can put the job back into its queue."""
    return slurm.batch_flag and slurm.requeue
