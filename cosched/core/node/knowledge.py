"""Estimates how much longer a job runs, from jobs that have ended.

The estimate is a *cost*: the CPU time that the node spends on such jobs for each of them
that ends. It is one over the Gittins index ("Bandit Processes and Dynamic Allocation
Indices", 1979), in nanoseconds. The job with the least cost comes first; this order has the
least mean response time on one machine. The cost depends on the job's *age*, the time for
which it has been scheduled, and on what is known:

- Like jobs ran before: the launcher sends how long they were scheduled (``Expectation``),
  or they ended on this node. If they all ran equally long, the cost is the rest of the job.
- Nothing is known: a job probably runs as long again as it has run. The cost is its age,
  rounded up to a power of two, so that jobs of the same age take long turns.

A job that outlives its expectation rises in cost from nearly nothing to the cost of an
unknown job. Expectations can be false, so the users' own jobs correct them: if the last
jobs of a user ran longer in all than expected, the next ones are expected to do the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

#: How many of the jobs that ended last are remembered. Older ones say little of the present
#: workload.
REMEMBERED = 32
#: Like jobs differ a little in length. A job outlives a length that it exceeds by more than
#: this part, and close to it the rest counts as at least ``REST_PART`` of the length.
MARGIN_PART = 8
REST_PART = 16
#: The cost of a job that outlived its expectation: so many times the time since then.
OUTLIVED_FACTOR = 2
#: A user's jobs are late if they ran longer than expected by more than this part.
LATE_PART = 4


class Expectation(Struct, frozen=True):
    """How long like jobs were scheduled before."""

    #: Equal for runs of one program with the same arguments, ranks and user; 0: no kind.
    kind: int = 0
    lengths_ns: tuple[int, ...] = ()  #: the lengths of like jobs; empty: unknown

    @property
    def mean_ns(self) -> int:
        """The expected length; 0 if it is unknown."""
        return sum(self.lengths_ns) // len(self.lengths_ns) if self.lengths_ns else 0


UNKNOWN = Expectation()


class Ended(Struct, frozen=True):
    """A job that ended."""

    length_ns: int  #: how long it was scheduled
    kind: int = 0  #: its kind, see ``Expectation``; 0: no kind
    user: int = 0  #: its owner's number
    expected_ns: int = 0  #: the length that was expected; 0: unknown
    need: int = 0  #: the part of its CPUs that it needed, in percent; 0: unknown


class Knowledge:
    """The jobs that ended last on a node, the last one at the end."""

    def __init__(self) -> None:
        self._ended: deque[Ended] = deque(maxlen=REMEMBERED)
        self._late: dict[int, float] = {}  # answers of ``_lateness``, by user
        #: By user: the time of starts without a task, since a task of the user registered.
        self.bare_starts_ns: dict[int, int] = {}

    def learn(self, ended: Iterable[Ended]) -> None:
        """Adds jobs in the order of their ends."""
        self._ended.extend(ended)
        self._late.clear()

    def replace(self, ended: Iterable[Ended]) -> None:
        """Forgets all jobs and adds these, in the order of their ends."""
        self._ended.clear()
        self.learn(ended)

    def add_bare_start(self, user: int, length_ns: int) -> None:
        """Adds a job that left without having had a task."""
        self.bare_starts_ns[user] = self.bare_starts_ns.get(user, 0) + length_ns

    def started(self, user: int) -> None:
        """Forgets the starts without a task of a user: a task has registered."""
        self.bare_starts_ns.pop(user, None)

    @property
    def ended(self) -> tuple[Ended, ...]:
        return tuple(self._ended)

    @property
    def lengths_ns(self) -> list[int]:
        """How long these jobs were scheduled."""
        return [ended.length_ns for ended in self._ended]

    def lengths_of(self, expectation: Expectation, user: int) -> Sequence[int]:
        """Returns the lengths that a job of this user may have; none if it is unknown."""
        if expectation.lengths_ns:
            if user not in self._late:
                self._late[user] = self._lateness(user)
            late = self._late[user]
            return [round(length_ns * late) for length_ns in expectation.lengths_ns]
        if not expectation.kind:
            return ()
        kind = (expectation.kind, user)
        return [e.length_ns for e in self._ended if (e.kind, e.user) == kind]

    def need_of(self, kind: int, user: int) -> int:
        """Returns the need of the last job of this kind and user that had one, in percent;
        0 if it is unknown."""
        for ended in reversed(self._ended):
            if kind and ended.need and (ended.kind, ended.user) == (kind, user):
                return ended.need
        return 0

    def _lateness(self, user: int) -> float:
        """Returns how many times longer the user's jobs ran in all than expected."""
        own = [ended for ended in self._ended if ended.user == user and ended.expected_ns]
        expected_ns = sum(ended.expected_ns for ended in own)
        ran_ns = sum(ended.length_ns for ended in own)
        late = ran_ns * LATE_PART > expected_ns * (LATE_PART + 1)
        return ran_ns / expected_ns if late else 1.0


class Estimate(Struct, frozen=True):
    """How much longer a job probably runs."""

    cost_ns: int  #: its cost, see above
    #: The mean of its possible rests; 0: it outlived all lengths, or none is known.
    left_ns: int = 0


def estimate(age_ns: int, lengths_ns: Sequence[int], least_ns: int) -> Estimate:
    """Returns the estimate for a job of this age that may have these lengths.

    ``least_ns`` is the cost of a job of which nothing is known at its beginning.
    """
    if not lengths_ns:
        return Estimate(doubled_ns(age_ns, least_ns))
    rests_ns = _rests_ns(age_ns, lengths_ns)
    cost_ns = cost_of_rests_ns(rests_ns)
    if cost_ns is not None:
        return Estimate(cost_ns, sum(rests_ns) // len(rests_ns))
    outlived_by_ns = age_ns - max(lengths_ns)
    return Estimate(min(doubled_ns(age_ns, least_ns), OUTLIVED_FACTOR * outlived_by_ns))


def _rests_ns(age_ns: int, lengths_ns: Sequence[int]) -> list[int]:
    """Returns what is left of each length that a job of this age has not outlived."""
    return sorted(
        max(length_ns - age_ns, length_ns // REST_PART)
        for length_ns in lengths_ns
        if age_ns <= outlived_ns(length_ns)
    )


def outlived_ns(length_ns: int) -> int:
    """Returns the greatest age at which a job may still have this length."""
    return length_ns + length_ns // MARGIN_PART


def cost_of_rests_ns(rests_ns: Sequence[int]) -> int | None:
    """Returns the least time that is spent for each end, if the rest of a job is one of
    these, in ascending order; None if there are none.

    The time is spent until the shorter rests are over. A job that ends by then takes its
    rest, and each other one takes the whole time.
    """
    least_ns: int | None = None
    spent_ns = 0
    for number, rest_ns in enumerate(rests_ns, 1):
        spent_ns += rest_ns
        cost_ns = (spent_ns + rest_ns * (len(rests_ns) - number)) // number
        if least_ns is None or cost_ns < least_ns:
            least_ns = cost_ns
    return least_ns


def doubled_ns(age_ns: int, least_ns: int) -> int:
    """Returns ``least_ns``, doubled until it is more than the age."""
    return least_ns << (age_ns // least_ns).bit_length()
