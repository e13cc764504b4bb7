"""Does the work of users in turn, and limits the part of the time that one may take.

Each user has one account for everything: connections, requests, registrations, bells and
the ends of tasks. docs/dev/architecture.md, "Load", states the parts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection

from msgspec import Struct, field

from cosched.core.units import NS_PER_S
from cosched.service.allowance import MALFORMED_TIMES, Allowance
from cosched.service.loop import Loop

Work = Callable[[], None]

#: Work that may come at once without a rest: a job's tasks register at the same time, and
#: make requests at the same switches.
BURST_NS = NS_PER_S


class Lane(Struct, frozen=True, eq=False):
    """One kind of work.

    The lanes of a user are served in turn, so that a long queue in one does not delay the
    others.
    """

    clock_ns: Callable[[], int] = time.monotonic_ns  #: measures what the work costs


class _Line:
    """The waiting work of one user, by lane."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[Work]] = {}

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def add(self, lane: Lane, work: Work) -> None:
        self._lanes.setdefault(lane, deque()).append(work)

    def take(self) -> tuple[Lane, Work]:
        """Removes and returns the next work, from the lane that was served longest ago."""
        lane, waiting = next(iter(self._lanes.items()))
        del self._lanes[lane]
        work = waiting.popleft()
        if waiting:
            self._lanes[lane] = waiting  # last: dictionaries keep their order
        return lane, work


class _Watch(Struct, eq=False):
    """A descriptor that is read in its user's turn. queued: that turn is to come."""

    uid: int
    fd: int
    lane: Lane
    ready: Work
    queued: bool = field(default=False)


class Pacer:
    """Does the work of users, one piece per user and round of the loop.

    All connections and jobs of a user share one account, so more of them give no more of
    the daemon's time: at most a tenth, after a burst of ``burst_ns``. Users in ``exempt``
    need no rest.
    """

    def __init__(
        self,
        loop: Loop,
        exempt: Collection[int],
        now_ns: Callable[[], int] = time.monotonic_ns,
        burst_ns: int = BURST_NS,
    ) -> None:
        self._loop = loop
        self._exempt = frozenset(exempt)
        self._now_ns = now_ns
        self._allowance = Allowance(burst_ns)
        self._lines: dict[int, _Line] = {}  # of users who rest or have waiting work
        self._watches: dict[int, _Watch] = {}
        self._times = 1

    def is_exempt(self, uid: int) -> bool:
        """Returns whether the user needs no rest."""
        return uid in self._exempt

    def submit(self, uid: int, lane: Lane, work: Work) -> None:
        """Does ``work`` now, or after the user's earlier work and rest."""
        line = self._lines.get(uid)
        if line is None:
            self._do(uid, lane, work)
        else:
            line.add(lane, work)

    def note_malformed(self) -> None:
        """Lets the work that is being done now count MALFORMED_TIMES."""
        self._times = MALFORMED_TIMES

    def charge(self, uid: int, took_ns: int) -> None:
        """Adds work to the user's account that could not wait for the user's turn."""
        if uid in self._exempt:
            return
        now_ns = self._now_ns()
        rest_ns = self._allowance.charge(uid, took_ns, now_ns)
        if rest_ns and uid not in self._lines:
            self._lines[uid] = _Line()
            self._loop.call_at(now_ns + rest_ns, lambda: self._next(uid))

    def watch(self, uid: int, lane: Lane, fd: int, ready: Work) -> None:
        """Calls ``ready`` whenever ``fd`` can be read, in the user's turn.

        Nothing is lost meanwhile: ``fd`` stays readable. ``ready`` may be called although
        there is nothing to read."""
        watch = self._watches[fd] = _Watch(uid, fd, lane, ready)
        line = self._lines.get(uid)
        if line is None:
            self._loop.watch(fd, lambda: self._is_readable(watch))
        else:  # to watch it now would cost time, too
            watch.queued = True
            line.add(lane, lambda: self._read(watch))

    def unwatch(self, fd: int) -> None:
        """Stops watching ``fd``; call it before closing ``fd``."""
        if not self._watches.pop(fd).queued:
            self._loop.unwatch(fd)

    def _is_readable(self, watch: _Watch) -> None:
        line = self._lines.get(watch.uid)
        if line is None:
            self._do(watch.uid, watch.lane, watch.ready)
            return
        self._loop.unwatch(watch.fd)  # otherwise the loop would come here all the time
        watch.queued = True
        line.add(watch.lane, lambda: self._read(watch))

    def _read(self, watch: _Watch) -> None:
        if self._watches.get(watch.fd) is watch:
            watch.queued = False
            self._loop.watch(watch.fd, lambda: self._is_readable(watch))
            watch.ready()

    def _do(self, uid: int, lane: Lane, work: Work) -> None:
        self._lines[uid] = line = _Line()
        self._serve(uid, line, lane, work)

    def _serve(self, uid: int, line: _Line, lane: Lane, work: Work) -> None:
        self._times = 1
        began_ns = lane.clock_ns()
        work()
        took_ns = self._times * (lane.clock_ns() - began_ns)
        now_ns = self._now_ns()
        rest_ns = 0
        if uid not in self._exempt:
            rest_ns = self._allowance.charge(uid, took_ns, now_ns)
        if rest_ns or line:
            self._loop.call_at(now_ns + rest_ns, lambda: self._next(uid))
        else:
            del self._lines[uid]

    def _next(self, uid: int) -> None:
        line = self._lines[uid]
        now_ns = self._now_ns()
        rest_ns = self._allowance.rest_ns(uid, now_ns)
        if rest_ns:  # the user was charged for more meanwhile
            self._loop.call_at(now_ns + rest_ns, lambda: self._next(uid))
        elif line:
            self._serve(uid, line, *line.take())
        else:
            del self._lines[uid]
