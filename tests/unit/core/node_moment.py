"""The state of a node's machine before an event, for checks of what the event may change.

The expected times come from the settings and the jobs, not from the slice policy.
"""

from __future__ import annotations

from cosched.core.node.groups import connected
from cosched.core.node.messages import Cause, Mode
from cosched.core.node.settings import LONGEST, Order
from cosched.core.node.slices.free import GRAIN_PART, PRECEDENCE
from cosched.core.node.slices.rest import PATIENCE


class Rules:
    """Reads from the settings of a machine how long jobs keep their CPUs."""

    def __init__(self, machine):
        self.settings = machine.settings
        self.turns_ns = {key: machine.slice_ns(key) for key in machine.jobs}

    @property
    def paper(self):
        return self.settings.order is Order.PAPER

    @property
    def by_rest(self):
        """Whether the jobs run by what is left of them."""
        settings = self.settings
        return settings.order is Order.REST and settings.slice_auto

    @property
    def by_age(self):
        """Whether turns follow the ages of the jobs."""
        settings = self.settings
        return settings.order is Order.AGE and settings.slice_auto

    @property
    def fixed_boundaries(self):
        """Whether all turns are equally long and end by the wall clock."""
        return self.settings.align and not self.settings.slice_auto and not self.paper

    @property
    def slice_ns(self):
        """The shortest turn."""
        return self.settings.fixed_slice_ns if self.paper else self.settings.slice_ns

    @property
    def longest_ns(self):
        return LONGEST * self.slice_ns if self.by_age else self.slice_ns

    @property
    def early_ns(self):
        """How much a turn may be short and still count as over."""
        return self.slice_ns // 8 if self.settings.align else 0

    def grain_ns(self, key):
        """CPU times that differ by no more than this count as equal."""
        if self.paper:
            return 0
        turn_ns = self.turns_ns[key]
        return turn_ns if self.settings.slice_auto else turn_ns // GRAIN_PART

    def gmet_ns(self, key):
        return self.settings.gmet_within_ns(self.turns_ns[key])

    def protected_ns(self, job, asking):
        """Returns how long a scheduled job keeps its CPUs from another one, from its switch
        on; in the order of what is left, the longest such time."""
        gmet_ns = self.gmet_ns(job.key)
        if self.by_rest:
            return PATIENCE * gmet_ns
        pulled_in = job.came_by not in (Cause.SLICE, Cause.GIVEN)
        precedes = pulled_in and job.precedence < asking.precedence and not self.paper
        return PRECEDENCE * gmet_ns if precedes else gmet_ns


class Moment(Rules):
    """The state before an event."""

    def __init__(self, node):
        super().__init__(node.machine)
        self.jobs = {key: job.copy() for key, job in node.machine.jobs.items()}

    @property
    def rests(self):
        """Whether jobs rest: the event may end that first."""
        return any(job.mode is Mode.RESTING for job in self.jobs.values())

    def left(self, after):
        """The jobs, as they were, that other jobs have taken the CPUs of."""
        return [
            job
            for key, job in self.jobs.items()
            if job.scheduled
            and key in after
            and not after[key].scheduled
            and after[key].mode.takes_part
        ]

    def came(self, after):
        return [
            job
            for key, job in after.items()
            if job.scheduled and not (key in self.jobs and self.jobs[key].scheduled)
        ]

    def began_again(self, after, now_ns):
        """The jobs that have kept their CPUs, and whose slice begins now."""
        return [
            job
            for key, job in after.items()
            if job.scheduled
            and key in self.jobs
            and self.jobs[key].scheduled
            and self.jobs[key].since_ns < job.since_ns == now_ns
        ]


def group_of(key, jobs):
    """The jobs that compete with this one, and itself."""
    part = [job for job in jobs.values() if job.mode.takes_part]
    groups = connected(sorted(part, key=lambda job: job.precedence))
    return next(group for group in groups if any(job.key == key for job in group))


def runs_one_at_a_time(group):
    """Whether no two jobs of a group can run side by side, by their CPUs and tasks."""
    return not any(
        not one.cpus & other.cpus
        or len(one.needs) + len(other.needs) <= len(one.cpus | other.cpus)
        for one in group
        for other in group
        if one.key < other.key
    )


def is_new(job, slice_ns, now_ns):
    """Whether a job is in its first slice, or never had one."""
    return (
        job.came_by is Cause.FIRST and job.switches <= 1 and job.age_ns(now_ns) < slice_ns
    )
