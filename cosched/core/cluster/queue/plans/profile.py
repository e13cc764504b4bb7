"""Keeps the number of nodes that are expected to be free over time: a step function."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class Profile:
    """``free[i]`` nodes are free from ``times[i]`` until ``times[i + 1]``.

    The last step has no end."""

    __slots__ = ("_free", "_none_before", "_times")

    def __init__(self, now_ns: int, free: int, ends: Iterable[tuple[int, int]]) -> None:
        """``ends``: (time, nodes that become free then), ascending, after ``now_ns``."""
        self._times = [now_ns]
        self._free = [free]
        # By size: no earlier time has that many nodes free. This saves a search through
        # the many steps of a full machine for each job.
        self._none_before: dict[int, int] = {}
        for at_ns, size in ends:
            free += size
            if at_ns == self._times[-1]:
                self._free[-1] = free
            else:
                self._times.append(at_ns)
                self._free.append(free)

    def advance(self, now_ns: int) -> None:
        """Drops the steps before ``now_ns``."""
        here = bisect_right(self._times, now_ns) - 1
        if here > 0:
            del self._times[:here], self._free[:here]
        self._times[0] = now_ns

    def first(self, size: int) -> int:
        """Returns the first time at which ``size`` nodes are free, for any duration.

        ``size`` is at most all nodes.
        """
        times, free = self._times, self._free
        none_before_ns = max(times[0], self._none_before.get(size, 0))
        step = bisect_right(times, none_before_ns) - 1
        while free[step] < size:
            step += 1
        first_ns = max(none_before_ns, times[step])
        self._none_before[size] = first_ns
        return first_ns

    def earliest(self, size: int, duration_ns: int) -> int:
        """Returns the first time from which ``size`` nodes are free for ``duration_ns``.

        ``size`` is at most all nodes.
        """
        times, free = self._times, self._free
        steps = len(times)
        begin = bisect_right(times, self.first(size)) - 1
        while True:
            while free[begin] < size:
                begin += 1
            end_ns = times[begin] + duration_ns
            step = begin + 1
            while step < steps and times[step] < end_ns:
                if free[step] < size:
                    break
                step += 1
            else:
                return times[begin]
            begin = step + 1

    def earlier(self, size: int, duration_ns: int, start_ns: int) -> int:
        """Returns the first time to which a job planned at ``start_ns`` can be moved.

        ``start_ns`` if it cannot be moved. From ``start_ns`` on the job has its own nodes,
        so only earlier steps matter.
        """
        times, free = self._times, self._free
        steps = bisect_left(times, start_ns)
        begin = bisect_right(times, self.first(size)) - 1
        while begin < steps:
            if free[begin] < size:
                begin += 1
                continue
            end_ns = times[begin] + duration_ns
            step = begin + 1
            while step < steps and times[step] < end_ns and free[step] >= size:
                step += 1
            if step == steps or times[step] >= end_ns:
                return times[begin]
            begin = step + 1
        return start_ns

    def least(self, begin_ns: int, end_ns: int) -> int:
        """Returns the least number of free nodes from ``begin_ns`` until ``end_ns``."""
        first = bisect_right(self._times, begin_ns) - 1
        last = bisect_left(self._times, end_ns, lo=first + 1)
        return min(self._free[first:last])

    def occupy(self, size: int, begin_ns: int, end_ns: int) -> None:
        """Occupies ``size`` nodes from ``begin_ns`` until ``end_ns``; merges equal steps.

        A negative size gives nodes back."""
        times, free = self._times, self._free
        first = self._split(begin_ns)
        last = self._split(end_ns)
        for step in range(first, last):
            free[step] -= size
        if size < 0:
            # No step has more free nodes: the entries of greater sizes stay valid.
            most = max(free[first:last])
            for width, none_before_ns in self._none_before.items():
                if width <= most and none_before_ns > begin_ns:
                    self._none_before[width] = begin_ns
        for step in (last, first):
            if 0 < step < len(times) and free[step] == free[step - 1]:
                del times[step], free[step]

    def _split(self, at_ns: int) -> int:
        """Returns the step that begins at ``at_ns``; makes it if it is missing."""
        step = bisect_left(self._times, at_ns)
        if step == len(self._times) or self._times[step] != at_ns:
            self._times.insert(step, at_ns)
            self._free.insert(step, self._free[step - 1])
        return step
