"""Measures how fast a job is alone, and how fast beside each neighbour, without counters
of the hardware.

Section 3.3 of Weinberg and Snavely reads counters of operations a cycle. Here the work of a
job is what its tasks count themselves, the best of three measures:

    iterations   where the program marks them (``MPI_Pcontrol``, or a malleable loop)
    messages     those that its tasks sent, and their collective calls
    useful time  CPU time without waits in MPI. It shows waits for disks and messages, and
                 no slow memory, since a task that waits for memory has its CPU

A *trial* (``looks``) has three stretches of equal length: beside the neighbour, alone while
the neighbour rests, and beside it again. Its slowdown is the speed alone over the mean of
the other two. So a program that slowly becomes faster or slower changes nothing, and
neither does a machine. Of all trials the median counts. Its bounds are order statistics,
which need no assumption about the noise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import pairwise, starmap
from math import comb, inf
from statistics import fmean, median
from typing import NamedTuple

from msgspec import Struct, field

from cosched.core.node.messages import Job
from cosched.core.units import NS_PER_S

#: The jobs beside a job.
Beside = frozenset[Job]
#: A stretch with less work is too inexact: one unit more or less would change the speed by
#: more than a tenth.
LEAST_UNITS = 10
#: So many trials beside the same neighbours are remembered, the last ones.
TRIALS_MOST = 32
#: So many sets of neighbours are remembered of a job, the last ones.
SETS_MOST = 32
#: The risk that the median lies beyond one of its bounds.
RISK = 0.05
#: The fewest trials whose median has bounds at this risk.
LEAST_TRIALS = 5


class Measure(str, Enum):
    """What counts as work of a job."""

    ITERATIONS = "iterations"
    MESSAGES = "messages"
    USEFUL = "useful time"


class Work(NamedTuple):
    """What all tasks of a job on the node have done since they began."""

    marks: int = 0  #: iterations that the program marked
    messages: int = 0  #: messages that were sent, and collective calls
    cpu_ns: int = 0  #: the CPU time of the job's class; 0: unknown
    waits_ns: int = 0  #: how long they waited in MPI
    tasks: int = 0  #: the number of tasks


class Stretch(NamedTuple):
    """A time in which nothing changed for the job."""

    lasted_ns: int  #: its length
    marks: int  #: iterations in it
    messages: int  #: messages and collective calls in it
    useful_ns: int  #: CPU time in it without waits in MPI

    @classmethod
    def between(cls, before: Sample, after: Sample) -> Stretch | None:
        """Returns the stretch between two readings. None if no time passed, if the job was
        not scheduled all the time, or if a task came or left.

        A task may spin while it waits, so its CPU time may have waits in it."""
        lasted_ns = after.now_ns - before.now_ns
        old, new = before.work, after.work
        steps = [now - then for then, now in zip(old, new, strict=True)]
        if lasted_ns <= 0 or after.age_ns - before.age_ns != lasted_ns:
            return None
        if new.tasks != old.tasks or min(steps) < 0:
            return None
        could_ns = lasted_ns * new.tasks - (new.waits_ns - old.waits_ns)
        useful_ns = max(0, min(new.cpu_ns - old.cpu_ns, could_ns))
        return cls(lasted_ns, steps[0], steps[1], useful_ns)

    def units(self, measure: Measure) -> int:
        """Returns the work by this measure; useful time in microseconds."""
        if measure is Measure.ITERATIONS:
            return self.marks
        return self.messages if measure is Measure.MESSAGES else self.useful_ns // 1000

    def speed(self, measure: Measure) -> float:
        """Returns the units of work a second."""
        return self.units(measure) * NS_PER_S / self.lasted_ns


class Sample(NamedTuple):
    """One reading of a job's work."""

    now_ns: int  #: when, by the monotonic clock
    age_ns: int  #: how long the job had been scheduled
    work: Work  #: the work until then


class Trial(Struct, frozen=True):
    """A look at a job alone, and at the same job beside its neighbours around it."""

    beside: Beside  #: the neighbours, which rested in the middle
    before: Stretch  #: beside them
    alone: Stretch  #: while they rested
    after: Stretch  #: beside them again

    @classmethod
    def of(cls, beside: Beside, samples: Sequence[Sample]) -> Trial | None:
        """Makes a trial of four readings. None if one is missing, or if a task came or left
        in between."""
        if len(samples) != 4 or not beside:
            return None
        before, alone, after = starmap(Stretch.between, pairwise(samples))
        if before is None or alone is None or after is None:
            return None
        return cls(beside, before, alone, after)

    @property
    def measure(self) -> Measure | None:
        """The best measure with enough work; None if there is none."""
        return next((m for m in Measure if self.units(m) >= 3 * LEAST_UNITS), None)

    @property
    def is_coarse(self) -> bool:
        """Whether longer stretches would show enough work by a better measure."""
        better = next((m for m in Measure if self.units(m)), None)
        return better is not self.measure

    def units(self, measure: Measure) -> int:
        """Returns the work of all three stretches."""
        return sum(s.units(measure) for s in (self.before, self.alone, self.after))

    def slowdown(self, measure: Measure) -> float:
        """Returns the speed alone over the speed beside the neighbours; infinite if the job
        stood still beside them."""
        beside = self.beside_speed(measure)
        return self.alone.speed(measure) / beside if beside else inf

    def beside_speed(self, measure: Measure) -> float:
        """Returns the units of work a second beside the neighbours."""
        return (self.before.speed(measure) + self.after.speed(measure)) / 2


class Estimate(NamedTuple):
    """What all trials of a job beside the same neighbours show."""

    measure: Measure  #: what counts as work
    trials: int  #: how many there were, at most ``TRIALS_MOST``
    alone: float  #: units of work a second alone, the mean
    beside: float  #: units of work a second beside them, the mean
    slowdown: float  #: speed alone over speed beside them, the median
    low: float  #: the median is hardly lower; 0: too few trials
    high: float  #: the median is hardly higher; infinite: too few trials

    def is_beyond(self, limit: float) -> bool:
        """Returns whether it is sure that the job is slowed beyond a limit."""
        return self.low > limit

    def is_within(self, limit: float) -> bool:
        """Returns whether it is sure that the job is not slowed beyond a limit."""
        return self.high <= limit

    def is_sure(self, limit: float) -> bool:
        """Returns whether further trials would not change what is known of a limit."""
        enough = self.trials >= TRIALS_MOST
        return self.is_beyond(limit) or self.is_within(limit) or enough


def bounds(values: list[float]) -> tuple[float, float]:
    """Returns values between which the median lies, each with ``RISK``; (0, infinity) if
    there are too few values.

    Of n values, fewer than k are below the median with the probability of fewer than k
    heads in n throws of a coin."""
    count, place, below = len(values), 0, 0.0
    while place < count // 2:
        below += comb(count, place) / 2**count
        if below > RISK:
            break
        place += 1
    if not place:
        return 0.0, inf
    ordered = sorted(values)
    return ordered[place - 1], ordered[count - place]


class _Trials(Struct):
    """The trials beside the same neighbours, all by one measure."""

    measure: Measure
    kept: deque[Trial] = field(default_factory=lambda: deque(maxlen=TRIALS_MOST))


class Speeds:
    """The speeds of one job, by the jobs beside it."""

    def __init__(self) -> None:
        self._seen: dict[Beside, _Trials] = {}

    def add(self, trial: Trial) -> None:
        """Adds a trial. One by a better measure replaces those by a worse one, and one by a
        worse measure is left out: speeds of two measures cannot be compared."""
        measure = trial.measure
        if measure is None:
            return
        order = list(Measure)
        found = self._seen.pop(trial.beside, None)
        if found is None or order.index(measure) < order.index(found.measure):
            found = _Trials(measure)
        self._seen[trial.beside] = found  # the last one to be forgotten
        if measure is found.measure:
            found.kept.append(trial)
        if len(self._seen) > SETS_MOST:
            del self._seen[next(iter(self._seen))]

    def beside(self, neighbours: Beside) -> Estimate | None:
        """Returns what is known of the job beside these neighbours; None: nothing."""
        found = self._seen.get(neighbours)
        if found is None:
            return None
        measure, trials = found.measure, list(found.kept)
        ratios = [trial.slowdown(measure) for trial in trials]
        return Estimate(
            measure,
            len(trials),
            fmean(trial.alone.speed(measure) for trial in trials),
            fmean(trial.beside_speed(measure) for trial in trials),
            median(ratios),
            *bounds(ratios),
        )

    def all(self) -> dict[Beside, Estimate]:
        """Returns what is known of the job, by its neighbours."""
        found = ((beside, self.beside(beside)) for beside in self._seen)
        return {beside: estimate for beside, estimate in found if estimate is not None}

    def forget(self, neighbours: Beside) -> None:
        """Forgets what is known of the job beside these neighbours."""
        self._seen.pop(neighbours, None)
