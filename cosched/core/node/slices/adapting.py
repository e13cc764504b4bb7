"""``slice=auto`` and ``gmet=auto``: how long a turn lasts, and what of it is guaranteed,
from what a node sees of its jobs.

Which slice is best depends on how long jobs run, which nobody knows before they end: jobs
alike in length are best run one after the other, and a short job should not wait for a
long one's slice. What a node does know is the CPU time that each job has had, its *age*,
and how old those became that have ended.

Seen enough of them, the youngest of the jobs that compete decides: the turn is the time
within which the jobs that became that old have ended most often for the time spent on them
(the index of Gittins, "Bandit Processes and Dynamic Allocation Indices", 1979, which is the
best order for a single machine where sizes are known as a distribution). Among jobs alike
that is the rest of a job; where most are short and a few long, the length of a short one.

Seen too few, turns begin short and last ``GROWTH`` times longer whenever all have had one,
up to ``LONGEST`` times the least slice: whoever is over soon waits for short turns alone,
and those that last have few switches.

Either way turns still go by CPU time, so that nobody gets more than anybody else but for
the length of a turn. The nodes of a job agree on its age without a word, as they do on its
CPU time: it has been scheduled on all of them together.

The paper (section 3.3) asks for both to follow the workload, without saying how. What was
tried besides, and how this one fares, is in docs/results/nodes.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.units import NS_PER_MS, NS_PER_S

#: The least slice where nothing else is said.
LEAST_NS = NS_PER_S
#: The slice of a driver that does not adapt it, where ``auto`` is set.
FIXED_NS = 2 * NS_PER_S
#: How much longer each turn is than the one before.
GROWTH = 4
#: The longest turn, in least slices.
LONGEST = 64
#: How many of the jobs that ended last are remembered, and how many of them must have
#: become as old as a job for a guess at what is left of it.
REMEMBERED = 32
ENOUGH = 2
#: A guessed turn is longer by this part: who ends does so anyhow, and who is cut short of
#: his end by a hair waits for everybody else's turn.
MARGIN = 4
#: GMET is this part of a turn, but no less and no more than the bounds: long enough for a
#: job to come to run on all nodes, short against the turn that it delays.
GMET_PART = 20
GMET_LEAST_NS = 20 * NS_PER_MS
GMET_MOST_NS = 500 * NS_PER_MS


def turn_by_age_ns(
    age_ns: int, ended_ns: Sequence[int], least_ns: int, most_ns: int
) -> int:
    """The turn of jobs of which the youngest has had ``age_ns`` of CPU time, where jobs
    that have ended had had ``ended_ns``; ``least_ns`` to ``most_ns``."""
    rest_ns = _guess_ns(age_ns, ended_ns, least_ns)
    if rest_ns is None:
        return min(grown_ns(age_ns, least_ns), most_ns)
    return min(max(rest_ns + rest_ns // MARGIN, least_ns), most_ns)


def _guess_ns(age_ns: int, ended_ns: Sequence[int], least_ns: int) -> int | None:
    """In what time, of those that a turn may last, jobs of this age end most often for the
    time spent on them."""
    rests_ns = sorted(end_ns - age_ns for end_ns in ended_ns if end_ns > age_ns)
    if len(rests_ns) < ENOUGH:
        return None
    best_ns, best_rate, spent_ns = rests_ns[-1], 0.0, 0
    for number, rest_ns in enumerate(rests_ns, 1):
        spent_ns += rest_ns
        if number < len(rests_ns) and rests_ns[number] <= least_ns:
            continue  # all of these end within the shortest turn there is
        # Those that end within it take what they need, the others all of it.
        turn_ns = max(rest_ns, least_ns)
        rate = number / (spent_ns + turn_ns * (len(rests_ns) - number))
        if rate >= best_rate:
            best_ns, best_rate = rest_ns, rate
    return best_ns


def grown_ns(age_ns: int, least_ns: int) -> int:
    """The turn of jobs of which the youngest has had ``age_ns``: ``least_ns`` at first,
    ``GROWTH`` times that when it has had a turn, and so on.

    Turns end a little early or late (aligned ones at boundaries): what is short of a turn
    by a quarter of the least slice counts as one.
    """
    turn_ns = least_ns
    over_ns = least_ns - least_ns // 4
    while age_ns >= over_ns and turn_ns < LONGEST * least_ns:
        turn_ns *= GROWTH
        over_ns += turn_ns
    return turn_ns


def gmet_of_turn_ns(turn_ns: int) -> int:
    """GMET within turns of ``turn_ns``; always shorter."""
    least_ns = min(GMET_LEAST_NS, turn_ns // 4)
    return min(max(turn_ns // GMET_PART, least_ns), GMET_MOST_NS)
