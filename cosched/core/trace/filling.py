"""Measures how the waits of scheduled jobs are filled: by which jobs, and for how long.

A task that waits for a message or a disk leaves its CPU. In the turn of its job, jobs that
are not scheduled compute there meanwhile. So the filled time of a turn is the CPU time of
these jobs above their share, which they also get from a job that never waits. It is at most
the time for which the tasks of the scheduled job had no CPU.

CPU times are read at both ends of a turn. A daemon does not read them at each switch: a job
is measured in its first turns, and later after a rest of five seconds for each job that
waits. A turn that is measured also stands for the turns of the job since the last one, and
until now for those after it. All times are sums over tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field, structs

from cosched.core.node.job import JobState
from cosched.core.node.messages import Job, SetShares
from cosched.core.units import NS_PER_MS, NS_PER_S

#: A shorter turn is not measured: the CPU times are read some time after a switch. The job
#: rests for ten times as long.
LEAST_NS = 10 * NS_PER_MS
#: How long a job is not measured after a turn that was, for each job that waits: REST_NS,
#: but at most REST_TIMES the time for which it was measured so far.
REST_NS = 5 * NS_PER_S
REST_TIMES = 4
#: How many other jobs a job keeps a part for, those with the most time.
PARTS_MOST = 16


class Part(Struct, frozen=True):
    """How one job filled the waits of another one."""

    job: Job  #: the key of the other job
    filled_s: float  #: how long it filled them, in seconds
    waits_s: float  #: how long the tasks of the job that waited did so in all, in seconds


class Filling(Struct, frozen=True):
    """How the waits of a job were filled, and which waits it filled."""

    #: How long its tasks waited while it was scheduled, in seconds: in calls that wait, or
    #: the filled time if that is longer.
    waits_s: float
    filled_s: float  #: the part of ``waits_s`` that other jobs filled, in seconds
    filled_by: tuple[Part, ...]  #: the jobs that filled its waits, the most first
    fills_s: float  #: how long it filled the waits of other jobs, in seconds
    fills: tuple[Part, ...]  #: the jobs whose waits it filled, the most first


def merged(fillings: Iterable[Filling]) -> Filling:
    """Returns the sum of a job's figures on several nodes."""
    every = list(fillings)
    waits_s = sum(each.waits_s for each in every)
    fillers = _sums(part for each in every for part in each.filled_by)
    return Filling(
        waits_s,
        sum(each.filled_s for each in every),
        tuple(structs.replace(part, waits_s=waits_s) for part in fillers),
        sum(each.fills_s for each in every),
        _sums(part for each in every for part in each.fills),
    )


def _sums(parts: Iterable[Part]) -> tuple[Part, ...]:
    found: dict[Job, Part] = {}
    for part in parts:
        other = found.get(part.job, Part(part.job, 0.0, 0.0))
        filled_s, waits_s = part.filled_s + other.filled_s, part.waits_s + other.waits_s
        found[part.job] = Part(part.job, filled_s, waits_s)
    return _ordered(found.values())


def _ordered(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: (-part.filled_s, part.job)))


class _Fill(Struct):
    """The waits of one other job that a job filled."""

    filled_ns: float = 0.0
    waits_ns: float | None = None  #: all waits of the other job, after its end


class _Account(Struct):
    """The figures of one job."""

    counted_ns: int  #: the age up to which its turns are counted
    measured_ns: int = 0  #: the length of all measured turns
    rests_until_ns: int = 0  #: its turns are not measured before
    alone: bool = False  #: it is scheduled, and no job waits for its CPUs
    filled_ns: float = 0.0
    fills_ns: float = 0.0
    filled_by: dict[Job, float] = field(default_factory=dict)  # in ns
    fills: dict[Job, _Fill] = field(default_factory=dict)
    #: How much each job filled in a nanosecond of its last measured turn.
    rates: dict[Job, float] = field(default_factory=dict)


class _Filler(NamedTuple):
    """A job that waits in another job's turn."""

    cpu_ns: int  #: its CPU time at the beginning of the turn
    own: float  #: its share of the CPUs in the turn, as a number of CPUs
    there: float  #: the part of its CPU time that it gets on the CPUs of the other job


class _Turn(NamedTuple):
    """A turn of a job, or a part of it, in which the same jobs wait."""

    began_ns: int
    cpu_ns: int  #: the CPU time of the job at the beginning
    width: int  #: how many CPUs its tasks can use at once
    waiting: frozenset[Job]  #: the jobs that wait for its CPUs
    fillers: Mapping[Job, _Filler]  #: those of them whose CPU time is known


class Fillings:
    """The filled waits of all jobs on a node.

    ``cpu_ns`` returns the CPU time of a job, or None if it is unknown. It must return one
    reading to all calls at one moment."""

    def __init__(self, cpu_ns: Callable[[Job], int | None]) -> None:
        self._cpu_ns = cpu_ns
        self._accounts: dict[Job, _Account] = {}
        self._turns: dict[Job, _Turn] = {}
        self._rests_until_ns = 0  # no turn is measured before
        self._shares = SetShares(())
        self._percents: list[int] = []

    def step(self, now_ns: int, jobs: Mapping[Job, JobState], shares: SetShares) -> None:
        """Takes over which jobs are scheduled now; call it after each switch."""
        self._shares = shares
        # Without a change of these, only a turn has gone to another job.
        percents = sorted(percent for _, percent in shares.percents)
        resting = now_ns < self._rests_until_ns and not self._turns
        if resting and percents == self._percents:
            return
        self._percents = percents
        self._change(now_ns, jobs)

    def resume(self, now_ns: int, jobs: Mapping[Job, JobState]) -> None:
        """Measures turns again whose job has rested; call it now and then, since a turn may
        last much longer than a rest."""
        if now_ns >= self._rests_until_ns:
            self._change(now_ns, jobs)

    def _change(self, now_ns: int, jobs: Mapping[Job, JobState]) -> None:
        self._take_over(now_ns, jobs)
        rests = (
            self._accounts[job.key].rests_until_ns
            for job in jobs.values()
            if job.mode.takes_part and not self._accounts[job.key].alone
        )
        self._rests_until_ns = min(rests, default=0)

    def _take_over(self, now_ns: int, jobs: Mapping[Job, JobState]) -> None:
        waiting = [j for j in jobs.values() if j.mode.takes_part and not j.scheduled]
        for key in self._turns.keys() - jobs.keys():
            del self._turns[key]
        for job in jobs.values():
            account = self._accounts.get(job.key)
            if account is None:
                account = self._accounts[job.key] = _Account(job.age_ns(now_ns))
            if account.alone:
                account.counted_ns = job.age_ns(now_ns)
            runs = job.scheduled and job.mode.takes_part
            rivals = _rivals(job, waiting) if runs else frozenset()
            if runs and not rivals and not account.alone:
                self._add_turns(job, now_ns)
            account.alone = runs and not rivals
            turn = self._turns.get(job.key)
            if turn is not None and turn.waiting != rivals:
                del self._turns[job.key]
                self._count(job, turn, now_ns)
                turn = None
            if turn is None and rivals and now_ns >= account.rests_until_ns:
                self._begin(job, rivals, now_ns, jobs)

    def look(self, now_ns: int, jobs: Mapping[Job, JobState]) -> None:
        """Counts the turns that are measured now; call it also before a job ends."""
        for key in jobs.keys() & self._accounts.keys():
            job, turn = jobs[key], self._turns.get(key)
            if turn is not None and now_ns - turn.began_ns >= LEAST_NS:
                self._count(job, turn, now_ns)
                self._begin(job, turn.waiting, now_ns, jobs)
            elif not self._accounts[key].alone:
                self._add_turns(job, now_ns)

    def of(self, job: Job, waits_ns: Callable[[Job], float]) -> Filling:
        """Returns the figures of a job. ``waits_ns``: how long the tasks of a job that has
        not ended waited in calls while it was scheduled."""
        account = self._accounts.get(job, _Account(0))
        own_ns = self._waits_ns(job, waits_ns)
        return Filling(
            own_ns / NS_PER_S,
            account.filled_ns / NS_PER_S,
            _parts((key, ns, own_ns) for key, ns in account.filled_by.items()),
            account.fills_ns / NS_PER_S,
            _parts(
                (key, fill.filled_ns, fill.waits_ns or self._waits_ns(key, waits_ns))
                for key, fill in account.fills.items()
            ),
        )

    def end(self, job: Job, waits_ns: Callable[[Job], float]) -> Filling:
        """Returns the last figures of a job that has ended, as ``of``."""
        found = self.of(job, waits_ns)
        self._accounts.pop(job, None)
        self._turns.pop(job, None)
        for account in self._accounts.values():
            if job in account.fills and account.fills[job].waits_ns is None:
                account.fills[job].waits_ns = found.waits_s * NS_PER_S
        return found

    def _waits_ns(self, job: Job, waits_ns: Callable[[Job], float]) -> float:
        account = self._accounts.get(job)
        return max(waits_ns(job), account.filled_ns if account else 0.0)

    def _begin(
        self,
        job: JobState,
        rivals: frozenset[Job],
        now_ns: int,
        jobs: Mapping[Job, JobState],
    ) -> None:
        """Begins to measure the turn of a job, if its CPU time is known."""
        self._turns.pop(job.key, None)
        own_ns = self._cpu_ns(job.key)
        if own_ns is None:
            self._accounts[job.key].rests_until_ns = now_ns + REST_NS
            return
        running = [j for j in jobs.values() if j.scheduled and j.mode.takes_part]
        percents = dict(self._shares.percents)
        fillers = {}
        for key in rivals:
            used_ns = self._cpu_ns(key)
            if used_ns is not None:
                percent = percents.get(key, 0)
                fillers[key] = _filler(jobs[key], used_ns, job, running, percent)
        width = min(len(job.tasks), len(job.cpus))
        self._turns[job.key] = _Turn(now_ns, own_ns, width, rivals, fillers)

    def _count(self, job: JobState, turn: _Turn, now_ns: int) -> None:
        """Counts a measured turn that lasts until now."""
        account, lasted_ns = self._accounts[job.key], now_ns - turn.began_ns
        own_ns = self._cpu_ns(job.key)
        if lasted_ns < LEAST_NS or own_ns is None:
            account.rests_until_ns = now_ns + 10 * LEAST_NS
            return
        unused_ns = max(0, turn.width * lasted_ns - max(0, own_ns - turn.cpu_ns))
        gained = {}
        for key, filler in turn.fillers.items():
            used_ns = self._cpu_ns(key)
            if used_ns is not None:
                above_ns = used_ns - filler.cpu_ns - filler.own * lasted_ns
                gained[key] = max(0.0, above_ns) * filler.there
        whole_ns = sum(gained.values())
        factor = min(1.0, unused_ns / whole_ns) / lasted_ns if whole_ns else 0.0
        account.rates = {key: ns * factor for key, ns in gained.items() if ns > 0}
        account.measured_ns += lasted_ns
        rest_ns = min(REST_TIMES * account.measured_ns, REST_NS * len(turn.waiting))
        account.rests_until_ns = now_ns + rest_ns
        self._add_turns(job, now_ns)

    def _add_turns(self, job: JobState, now_ns: int) -> None:
        """Adds the turns of a job that are not counted yet; they are like its last measured
        one."""
        account, age_ns = self._accounts[job.key], job.age_ns(now_ns)
        for filler, rate in account.rates.items():
            if filler in self._accounts:
                self._add(filler, job.key, rate * (age_ns - account.counted_ns))
        if account.measured_ns:
            account.counted_ns = age_ns

    def _add(self, filler: Job, waiting: Job, filled_ns: float) -> None:
        if filled_ns <= 0:
            return
        one, other = self._accounts[waiting], self._accounts[filler]
        one.filled_ns += filled_ns
        one.filled_by[filler] = one.filled_by.get(filler, 0.0) + filled_ns
        if len(one.filled_by) > PARTS_MOST:
            del one.filled_by[min(one.filled_by, key=one.filled_by.__getitem__)]
        other.fills_ns += filled_ns
        fill = other.fills.get(waiting)
        if fill is None or fill.waits_ns is not None:  # of an earlier job of that name
            fill = other.fills[waiting] = _Fill()
        fill.filled_ns += filled_ns
        if len(other.fills) > PARTS_MOST:
            del other.fills[min(other.fills, key=lambda key: other.fills[key].filled_ns)]


def _rivals(job: JobState, waiting: Iterable[JobState]) -> frozenset[Job]:
    return frozenset(j.key for j in waiting if not job.cpus.isdisjoint(j.cpus))


def _filler(
    job: JobState, used_ns: int, runs: JobState, running: Iterable[JobState], percent: int
) -> _Filler:
    """Describes a job that waits while ``runs`` and other jobs of ``running`` have CPUs.
    percent: its share meanwhile."""
    wanted = sum(len(job.cpus & other.cpus) for other in running)
    there = len(job.cpus & runs.cpus) / max(wanted, len(job.cpus))
    width = min(len(job.tasks), len(job.cpus))
    return _Filler(used_ns, width * percent / 100, there)


def _parts(found: Iterable[tuple[Job, float, float]]) -> tuple[Part, ...]:
    return _ordered(
        Part(key, filled_ns / NS_PER_S, waits_ns / NS_PER_S)
        for key, filled_ns, waits_ns in found
    )
