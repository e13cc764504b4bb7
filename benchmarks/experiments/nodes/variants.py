"""The paper's rules (``core.node.slices.paper``) with one change each, for an experiment.

Each change needs no centre: a node decides by what it has itself. Pure but for the draws,
which come from seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.knowledge import Knowledge
from cosched.core.node.messages import OrderTimer
from cosched.core.node.settings import Settings
from cosched.core.node.slices.free import FreeEnds, FreeSlices
from cosched.core.node.slices.paper import PaperSlices
from cosched.core.node.slices.policy import ChoosePolicy, SlicePolicy

#: GMET of a turn is drawn within this share of its length, below and above it.
SPREADS = (0.1, 0.25, 0.75)


class Kept(PaperSlices):
    """A refused request is kept: the job asks again at the end of GMET."""

    keeps_refused = True


class Drawn(PaperSlices):
    """Each turn has a GMET of its own, drawn within a share of the usual one."""

    def __init__(self, settings: Settings, spread: float, seed: str) -> None:
        super().__init__(settings)
        self._spread = spread
        self._seed = seed

    def protected_until_ns(
        self, job: JobState, from_jobs: Sequence[JobState], group: Group, now_ns: int
    ) -> list[int]:
        """Returns the end of the GMET that the job's turn was given."""
        chance = Random(f"{self._seed} {job.key} {job.since_ns}")
        share = chance.uniform(1 - self._spread, 1 + self._spread)
        return [job.since_ns + round(share * self.gmet_ns(group))] * len(from_jobs)


class Restarted(PaperSlices):
    """A switch that a message pulls restarts the slice, so that the timers of nodes fall
    into step."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._restarts = FreeEnds()

    def order_timer(self, contended: Iterable[Group], now_ns: int) -> OrderTimer:
        """Orders CMDCSW a slice after the last switch."""
        ends_ns = [
            min(job.since_ns for job in group.scheduled) + self.slice_ns
            for group in contended
        ]
        return self._restarts.order_timer(self.slice_ns, ends_ns, now_ns)


class Guarded(PaperSlices):
    """A tick of the timer respects GMET, as a message does."""

    def is_over(self, job: JobState, group: Group, now_ns: int) -> bool:
        """Returns whether the job had its GMET, and a job that waits has received less."""
        had_gmet = job.ran_ns(now_ns) >= self.gmet_ns(group)
        return had_gmet and super().is_over(job, group, now_ns)


class OneWay(PaperSlices):
    """A job may pull out a later job, and no earlier one."""

    def protected_until_ns(
        self, job: JobState, from_jobs: Sequence[JobState], group: Group, now_ns: int
    ) -> list[int]:
        """Returns the end of the slice for jobs that were submitted later."""
        return [
            job.since_ns
            + (self.gmet_ns(group) if other.precedence < job.precedence else self.slice_ns)
            for other in from_jobs
        ]


class RestartedKept(Restarted, Kept):
    """Both changes."""


class RestartedOneWay(Restarted, OneWay):
    """Both changes."""


def _plain(kind: Callable[[Settings], SlicePolicy]) -> Callable[[str], ChoosePolicy]:
    def of_seed(_seed: str) -> ChoosePolicy:
        return lambda settings, _knowledge: kind(settings)

    return of_seed


def _drawn(spread: float) -> Callable[[str], ChoosePolicy]:
    def of_seed(seed: str) -> ChoosePolicy:
        def choose(settings: Settings, _knowledge: Knowledge) -> SlicePolicy:
            return Drawn(settings, spread, seed)

        return choose

    return of_seed


#: By name: returns the choice of a node's policy for a seed.
VARIANTS: Mapping[str, Callable[[str], ChoosePolicy]] = {
    "paper": _plain(PaperSlices),
    "kept": _plain(Kept),
    **{f"drawn within {spread:.0%}": _drawn(spread) for spread in SPREADS},
    "restarted": _plain(Restarted),
    "guarded": _plain(Guarded),
    "one way": _plain(OneWay),
    "restarted, kept": _plain(RestartedKept),
    "restarted, one way": _plain(RestartedOneWay),
    "cosched": _plain(FreeSlices),
}
