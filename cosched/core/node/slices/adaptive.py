"""Gives turns by the ages of the jobs (``slice=auto`` with ``order=age``).

The best slice depends on how long jobs run, which is unknown before they end. Jobs of
similar length run best one after the other, and a short job should not wait for a long
job's slice. A node does know each job's *age*, the CPU time that it has received, and the
age at which other jobs ended.

If enough jobs ended at a higher age, the youngest job of the group decides. Its turn is the
time within which such jobs ended most often for the time spent on them. This is the Gittins
index ("Bandit Processes and Dynamic Allocation Indices", 1979). It gives the best order for
one machine if only the distribution of the lengths is known. Among similar jobs the turn is
the rest of a job. If most jobs are short and a few long, it is the length of a short one.

Otherwise turns begin short and last ``GROWTH`` times longer whenever all jobs have had one,
up to ``LONGEST`` slices. So a short job waits for short turns only, and long jobs have few
switches.

In both cases turns go by CPU time, so accounts differ by one turn at most. The nodes of a
job agree on its age, because it was scheduled on all of them together.

A guessed turn should outlast its job, so its end may never come. For this reason a job that
leaves also ends the turns of other jobs, if the next job needs their CPUs.

The paper (section 3.3) suggests that both lengths follow the workload, and does not say
how. docs/results.md compares this method with others.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.node.groups import Group
from cosched.core.node.knowledge import Knowledge
from cosched.core.node.settings import LONGEST, Settings, at_most
from cosched.core.node.slices.free import FreeEnds, FreeSlices

#: A guess needs this many jobs that ended at a higher age.
ENOUGH = 2
#: Each turn is this many times longer than the one before.
GROWTH = 4
#: Turns end a little early or late. A turn that is short by this part of a slice counts.
SHORT_PART = 4
#: A guess is lengthened by this part: a job that is cut off just before its end waits for a
#: turn of every other job.
MARGIN_PART = 4


class AdaptiveSlices(FreeSlices):
    """See ``policy.SlicePolicy`` for the methods. ``ends`` decides where turns end."""

    ends_apart = True
    exit_ends_turns = True

    def __init__(self, settings: Settings, ends: FreeEnds, knowledge: Knowledge) -> None:
        super().__init__(settings)
        most_ns = at_most(LONGEST * settings.slice_ns, settings.slice_most_ns)
        self.longest_ns = max(settings.slice_ns, most_ns)
        self._ends = ends
        self._knowledge = knowledge

    def turn_ns(self, group: Group) -> int:
        turn_ns = turn_by_age_ns(
            group.youngest_ns, self._knowledge.lengths_ns, self.slice_ns, self.longest_ns
        )
        return self._ends.round_ns(turn_ns, self.longest_ns)

    def _grain_ns(self, group: Group) -> int:
        """A whole turn: the first job does not wait for a long turn of every other job only
        because it has had a little more CPU time."""
        return self.turn_ns(group)

    def lead_ns(self, group: Group) -> int:
        """A slice more than a turn: a job that has just had its turn is a turn ahead."""
        return self.slice_ns + self.turn_ns(group)


def turn_by_age_ns(
    age_ns: int, ended_ns: Sequence[int], least_ns: int, most_ns: int
) -> int:
    """Returns the turn of jobs of which the youngest has the age ``age_ns``.

    ``ended_ns`` are the ages at which other jobs ended. The turn lasts from ``least_ns`` to
    ``most_ns``.
    """
    rest_ns = _guess_rest_ns(age_ns, ended_ns, least_ns)
    if rest_ns is None:
        return min(grown_ns(age_ns, least_ns), most_ns)
    return min(max(rest_ns + rest_ns // MARGIN_PART, least_ns), most_ns)


def _guess_rest_ns(age_ns: int, ended_ns: Sequence[int], least_ns: int) -> int | None:
    """Returns the time within which jobs of this age end most often for the time spent on
    them; None if too few jobs ended at a higher age."""
    rests_ns = sorted(end_ns - age_ns for end_ns in ended_ns if end_ns > age_ns)
    if len(rests_ns) < ENOUGH:
        return None
    best_ns, best_rate, spent_ns = rests_ns[-1], 0.0, 0
    for number, rest_ns in enumerate(rests_ns, 1):
        spent_ns += rest_ns
        if number < len(rests_ns) and rests_ns[number] <= least_ns:
            continue  # the next one also ends within the shortest turn
        # A job that ends within the turn takes what it needs, the others take all of it.
        turn_ns = max(rest_ns, least_ns)
        rate = number / (spent_ns + turn_ns * (len(rests_ns) - number))
        if rate >= best_rate:
            best_ns, best_rate = rest_ns, rate
    return best_ns


def grown_ns(age_ns: int, least_ns: int) -> int:
    """Returns ``least_ns`` for young jobs, ``GROWTH`` times that after one turn, and so on.

    ``age_ns`` is the age of the youngest job.
    """
    turn_ns = least_ns
    over_ns = least_ns - least_ns // SHORT_PART
    while age_ns >= over_ns and turn_ns < LONGEST * least_ns:
        turn_ns *= GROWTH
        over_ns += turn_ns
    return turn_ns
