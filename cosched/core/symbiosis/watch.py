"""Watches the jobs that share a node: looks at each alone, and lets one give way if another
is slowed too much. Pure: a driver reads the work of jobs and lets them rest.

The driver calls ``step`` whenever the jobs of the node change, and at the time that the
last call returned. It carries out the actions in their order, gives each reading to
``read``, and then calls ``settle``. So the reading at the begin of a look comes after the
others rest, and that at its end before they go on.

If a job gives way, it rests for the end of each period of ``DUTY_NS``, which begins at
multiples by the wall clock: so it rests on all its nodes at once. After ``RETRY_NS`` the
jobs are looked at again, because a program may have come to another phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from cosched.core.node.messages import Job
from cosched.core.symbiosis.harm import GiveWay, Party, give_way
from cosched.core.symbiosis.looks import Look, Looks
from cosched.core.symbiosis.speeds import Beside, Estimate, Sample, Speeds, Trial
from cosched.core.units import NS_PER_S

#: A job that gives way runs for a part of each such period.
DUTY_NS = NS_PER_S
#: How long a job gives way before the jobs are looked at again; each time twice as long.
RETRY_NS = 300 * NS_PER_S
#: A look is given up if a reading is late by more than this part of a slice.
LATE_PART = 2


class Rest(NamedTuple):
    """Let these jobs rest. They must go on at ``until_ns`` whatever happens, by the
    monotonic clock; the next step may come earlier. No jobs: all go on."""

    jobs: tuple[Job, ...]  #: the jobs that rest; all others go on
    until_ns: int  #: the latest end of the rest


class Read(NamedTuple):
    """Read the work of a job, and give it to ``Watch.read``."""

    job: Job  #: the job


Action: TypeAlias = Rest | Read


class Step(NamedTuple):
    """The actions of a step, and the time of the next one."""

    actions: tuple[Action, ...]  #: in the order in which they are carried out
    next_ns: int | None  #: by the monotonic clock; None: when the jobs change


class WatchSettings(Struct, frozen=True):
    """How jobs that share a node are watched."""

    #: A job rests at most this part of its time, so that the others are seen alone; 0: no
    #: job is looked at alone.
    percent: float = 0.5
    #: The most that a job may be slowed before another one gives way, such as 1.10; 0: no
    #: job gives way.
    limit: float = 1.10


class _Trying(Struct):
    """A look under way."""

    look: Look
    samples: list[Sample] = field(default_factory=list)
    rests_since_ns: int | None = None


class _Giving(Struct, frozen=True):
    """A job that gives way."""

    order: GiveWay
    beside: frozenset[Job]
    until_ns: int


class Watch:
    """Watches the jobs of one node."""

    def __init__(self, settings: WatchSettings) -> None:
        self.settings = settings
        self._looks = Looks(settings.percent)
        self._speeds: dict[Job, Speeds] = {}
        self._trying: _Trying | None = None
        self._giving: _Giving | None = None
        self._gave_way_ns: dict[Job, int] = {}
        self._duty_ns: int | None = None  # since when the job that gives way rests
        self._retry_ns: dict[frozenset[Job], int] = {}  # of the jobs that are here

    def step(self, companions: Sequence[Job], now_ns: int, wall_ns: int) -> Step:
        """Returns what to do now. companions: the jobs that agreed to share the node and
        run side by side, in an order that all nodes have."""
        actions = self._meet(companions, now_ns)
        if self._trying is not None and not self._is_in_time(wall_ns):
            actions += self._give_up(now_ns)
        if self._giving is not None:
            duty, next_ns = self._keep_duty(now_ns, wall_ns)
            return Step((*actions, *duty), next_ns)
        if self._trying is not None:
            actions += self._go_on(now_ns, wall_ns)
        if self._trying is None:
            sure = self._sure(companions)
            look = self._looks.next_look(companions, sure, now_ns, wall_ns)
            if look is None:
                retry = len(companions) > 1 and self.settings.percent
                return Step(tuple(actions), now_ns + DUTY_NS if retry else None)
            self._trying = _Trying(look)
        reads = sum(isinstance(action, Read) for action in actions)
        readings_ns = self._trying.look.readings_ns[len(self._trying.samples) + reads :]
        next_wall_ns = readings_ns[0] if readings_ns else wall_ns
        return Step(tuple(actions), now_ns + max(0, next_wall_ns - wall_ns))

    def read(self, job: Job, sample: Sample) -> None:
        """Takes over the work of a job that a step asked for."""
        trying = self._trying
        if trying is not None and trying.look.shown == job:
            trying.samples.append(sample)

    def settle(self, companions: Sequence[Job], now_ns: int) -> None:
        """Judges a look whose readings are complete; call it after a step's actions."""
        trying = self._trying
        if trying is None or len(trying.samples) < len(trying.look.readings_ns):
            return
        self._trying = None
        shown, beside = trying.look.shown, frozenset(trying.look.resting)
        trial = Trial.of(beside, trying.samples)
        if trial is None:
            return
        if trial.is_coarse:
            self._looks.was_coarse(shown)
        self._speeds.setdefault(shown, Speeds()).add(trial)
        order = self._order(companions)
        if order is not None:
            present = frozenset(companions)
            lasts_ns = self._retry_ns.get(present, RETRY_NS)
            self._retry_ns = {present: 2 * lasts_ns}
            self._giving = _Giving(order, present, now_ns + lasts_ns)

    # -- the parts of a step ---------------------------------------------------------------

    def _meet(self, companions: Sequence[Job], now_ns: int) -> list[Action]:
        """Takes over which jobs are here; gives up what was begun with others."""
        present = frozenset(companions)
        self._looks.meet(companions, now_ns)
        for job in self._speeds.keys() - present:
            del self._speeds[job]
        for job in self._gave_way_ns.keys() - present:
            del self._gave_way_ns[job]
        actions: list[Action] = []
        trying, giving = self._trying, self._giving
        if trying is not None and {trying.look.shown, *trying.look.resting} != present:
            actions += self._give_up(now_ns)
        if giving is not None and giving.beside != present:
            actions += self._end_giving(now_ns)
        elif giving is not None and now_ns >= giving.until_ns:
            actions += self._end_giving(now_ns)
            self._forget(present)
        return actions

    def _is_in_time(self, wall_ns: int) -> bool:
        """Whether the next reading of the look is not late, and the clock did not step."""
        assert self._trying is not None
        look, done = self._trying.look, len(self._trying.samples)
        late_ns = wall_ns - look.readings_ns[done]
        ahead_ns = -late_ns
        longest_ns = look.slice_ns if done else 1 << 62
        return late_ns <= look.slice_ns // LATE_PART and ahead_ns <= 2 * longest_ns

    def _go_on(self, now_ns: int, wall_ns: int) -> list[Action]:
        """Returns the actions of the look that are due now."""
        trying = self._trying
        assert trying is not None
        look, done = trying.look, len(trying.samples)
        if wall_ns < look.readings_ns[done]:
            return []
        read = Read(look.shown)
        if done == 1:
            trying.rests_since_ns = now_ns
            return [Rest(look.resting, now_ns + 2 * look.slice_ns), read]
        if done == 2:
            return [read, *self._resume(now_ns)]
        return [read]

    def _give_up(self, now_ns: int) -> list[Action]:
        actions = self._resume(now_ns)
        self._trying = None
        return actions

    def _resume(self, now_ns: int) -> list[Action]:
        """Lets the jobs of the look go on, if they rest."""
        trying = self._trying
        if trying is None or trying.rests_since_ns is None:
            return []
        self._looks.rested(trying.look, now_ns - trying.rests_since_ns)
        trying.rests_since_ns = None
        return [Rest((), now_ns)]

    # -- a job that gives way --------------------------------------------------------------

    def _order(self, companions: Sequence[Job]) -> GiveWay | None:
        limit = self.settings.limit
        if not limit:
            return None
        return give_way(
            [Party(job, self.known(job, companions)) for job in companions], limit
        )

    def _keep_duty(self, now_ns: int, wall_ns: int) -> tuple[list[Action], int]:
        """Lets the job run in the first part of each period, and rest in the other one."""
        assert self._giving is not None
        order = self._giving.order
        runs_ns = DUTY_NS * order.percent // 100
        into_ns = wall_ns % DUTY_NS
        end_ns = now_ns + DUTY_NS - into_ns
        self._count_duty(order.job, now_ns)
        if into_ns >= runs_ns:
            self._duty_ns = now_ns
            return [Rest((order.job,), end_ns)], end_ns
        return [Rest((), now_ns)], now_ns + runs_ns - into_ns

    def _count_duty(self, job: Job, now_ns: int) -> None:
        if self._duty_ns is not None:
            before_ns = self._gave_way_ns.get(job, 0)
            self._gave_way_ns[job] = before_ns + now_ns - self._duty_ns
            self._duty_ns = None

    def _end_giving(self, now_ns: int) -> list[Action]:
        """Lets the job that gave way run again."""
        giving = self._giving
        assert giving is not None
        self._count_duty(giving.order.job, now_ns)
        self._giving = None
        return [Rest((), now_ns)]

    def _forget(self, present: frozenset[Job]) -> None:
        """Forgets how fast these jobs were beside each other."""
        for job in present & self._speeds.keys():
            self._speeds[job].forget(present - {job})

    # -- what is known ---------------------------------------------------------------------

    def _sure(self, companions: Sequence[Job]) -> Mapping[Job, bool]:
        limit = self.settings.limit or 1.0
        found = {job: self.known(job, companions) for job in companions}
        return {job: k is not None and k.is_sure(limit) for job, k in found.items()}

    def known(self, job: Job, companions: Sequence[Job]) -> Estimate | None:
        """Returns the speed of a job beside all the others; None: unknown."""
        speeds = self._speeds.get(job)
        return None if speeds is None else speeds.beside(frozenset(companions) - {job})

    def speeds_of(self, job: Job) -> Mapping[Beside, Estimate]:
        """Returns the speeds of a job beside all neighbours that it has had here."""
        speeds = self._speeds.get(job)
        return {} if speeds is None else speeds.all()

    @property
    def giving(self) -> GiveWay | None:
        """Returns which job gives way now; None: no job does."""
        return None if self._giving is None else self._giving.order

    def rested_ns(self, job: Job) -> int:
        """Returns how long a job has rested so that others were seen alone."""
        return self._looks.rested_ns(job)

    def gave_way_ns(self, job: Job) -> int:
        """Returns how long a job has rested because another one, or it, was slowed."""
        return self._gave_way_ns.get(job, 0)
