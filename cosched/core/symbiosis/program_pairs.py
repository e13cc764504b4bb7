"""Keeps how fast programs were beside each other, run by run, so that a queue learns it.

The advanced scheduler of section 3.3 tries pairs, and keeps what it saw. A run of a job
beside another program is one observation, however many looks it had: the last state of the
run counts. All nodes of a run are one, too, since its slowest node sets its pace.

The record is bounded, and what was not seen for a long time is forgotten. Times are by the
wall clock, because the record outlives its process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, TypeAlias

from cosched.core.units import NS_PER_S

#: A run is forgotten after this time.
KEPT_NS = 90 * 86_400 * NS_PER_S
#: A pair in which one job was slowed beyond the limit is tried again after this time.
HARM_KEPT_NS = 7 * 86_400 * NS_PER_S
#: The most runs that are kept of a pair, the last ones.
RUNS_MOST = 16
#: The most runs that are kept, the last ones; a user has one part in USERS_PART.
TOTAL_MOST = 8192
USERS_PART = 16


#: Job, start and the program beside it.
Key: TypeAlias = "tuple[int, int, str]"


class Pair(NamedTuple):
    """Two programs that shared nodes."""

    primary: str  #: the program whose speed was seen
    background: str  #: the program on the other halves of its nodes


@dataclass(frozen=True, slots=True)
class PairRun:
    """A run of a job beside one other program."""

    job: int  #: the job's number
    start: int  #: how often the job was started
    uid: int  #: the job's user
    pair: Pair  #: the job's program, and the one beside it
    slowdown: float  #: its speed alone over its speed beside the other one, 1 or about
    at_least: float  #: it is surely that slow or slower
    seen_ns: int  #: when that was seen, by the wall clock

    @property
    def key(self) -> Key:
        """Identifies the run beside this program."""
        return self.job, self.start, self.pair.background


class Known(NamedTuple):
    """The knowledge of a pair."""

    speed: float  #: the mean speed, where 1 is that without a neighbour
    runs: int  #: the runs of which it is the mean; 0: nothing is known
    #: The pair counts as harmful until then; 0: it does not.
    harmful_until_ns: int = 0


NOTHING = Known(1.0, 0)


class PairRecord:
    """The record of one domain."""

    def __init__(self, kept: Iterable[PairRun] = ()) -> None:
        """kept: the record before a restart, in any order."""
        self._runs: dict[Key, PairRun] = {}  # the oldest first
        self._of_pair: dict[Pair, dict[Key, PairRun]] = {}
        self._of_user: Counter[int] = Counter()
        for run in sorted(kept, key=lambda run: run.seen_ns):
            self._put(run)

    def add(self, run: PairRun) -> list[PairRun]:
        """Adds a run, in place of an earlier state of it. Returns what is forgotten."""
        before = self._runs.get(run.key)
        if before is not None:
            self._drop(before)
        self._put(run)
        old = list(self._of_pair[run.pair].values())[:-RUNS_MOST]
        if self._of_user[run.uid] > TOTAL_MOST // USERS_PART:
            old.append(next(each for each in self._runs.values() if each.uid == run.uid))
        elif len(self._runs) > TOTAL_MOST:
            old.append(next(iter(self._runs.values())))
        return self._forget(old)

    def forget(self, now_ns: int) -> list[PairRun]:
        """Forgets what is too old; returns it."""
        runs = self._runs.values()
        return self._forget([run for run in runs if now_ns - run.seen_ns > KEPT_NS])

    def _put(self, run: PairRun) -> None:
        self._runs[run.key] = run
        self._of_pair.setdefault(run.pair, {})[run.key] = run
        self._of_user[run.uid] += 1

    def _drop(self, run: PairRun) -> None:
        del self._runs[run.key]
        same = self._of_pair[run.pair]
        del same[run.key]
        if not same:
            del self._of_pair[run.pair]
        self._of_user[run.uid] -= 1

    def _forget(self, old: Iterable[PairRun]) -> list[PairRun]:
        forgotten = {run.key: run for run in old}
        for run in forgotten.values():
            self._drop(run)
        return list(forgotten.values())

    def pairs(self) -> list[Pair]:
        """Returns all pairs of which something is known."""
        return list(self._of_pair)

    def known(self, pair: Pair, limit: float) -> Known:
        """Returns what is known of a pair. limit: the most that a job may be slowed; 0: no
        pair is harmful. The last run decides about harm."""
        runs = list(self._of_pair.get(pair, {}).values())
        if not runs:
            return NOTHING
        last = runs[-1]
        harms = bool(limit) and last.at_least > limit
        return Known(
            fmean(1 / run.slowdown for run in runs),
            len(runs),
            last.seen_ns + HARM_KEPT_NS if harms else 0,
        )
