"""Keeps when each job had the CPUs of each node, from one sample to the next. Pure.

A daemon reports the intervals in which its jobs were scheduled since some time, and cuts
them there. So an interval that lasts over two samples is reported twice, and counts once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cosched.core.units import NS_PER_MS, NS_PER_S

#: How long spans are kept.
KEEP_NS = 900 * NS_PER_S
#: How many spans are kept at most, on all nodes.
SPANS_MOST = 100_000

#: Begin and end by the wall clock, in ns; an end of None: it lasts.
Interval = Sequence[int | None]
#: By node and job: the first begin in ms since 1970, then lengths and gaps in turn.
Packed = dict[str, dict[str, list[int]]]


class _Span(NamedTuple):
    """A span that has ended. version: the version of the picture in which it ended."""

    version: int
    node: str
    job: str
    begin_ns: int
    end_ns: int


class Spans:
    """The spans of all jobs on all nodes."""

    def __init__(self, keep_ns: int = KEEP_NS, most: int = SPANS_MOST) -> None:
        self._keep_ns = keep_ns
        self._most = most
        self._ended: deque[_Span] = deque()
        self._open: dict[str, dict[str, int]] = {}
        self._seen_ns: dict[str, int] = {}

    def take(
        self,
        version: int,
        node: str,
        at_ns: int,
        scheduled: Mapping[str, Sequence[Interval]],
    ) -> None:
        """Takes what a node reported at a time. scheduled: by job, oldest first."""
        seen_ns = self._seen_ns.get(node, 0)
        before = self._open.get(node, {})
        now: dict[str, int] = {}
        for job, intervals in scheduled.items():
            for begin_ns, end_ns in intervals:
                assert begin_ns is not None
                if end_ns is not None and end_ns <= seen_ns:
                    continue
                lasts = begin_ns <= seen_ns and job in before
                from_ns = before.pop(job) if lasts else begin_ns
                if end_ns is None:
                    now[job] = from_ns
                elif end_ns > from_ns:
                    self._ended.append(_Span(version, node, job, from_ns, end_ns))
        for job, begin_ns in before.items():  # it left the node since the last sample
            if seen_ns > begin_ns:
                self._ended.append(_Span(version, node, job, begin_ns, seen_ns))
        self._open[node] = now
        self._seen_ns[node] = at_ns
        while self._ended and (
            len(self._ended) > self._most or self._ended[0].end_ns < at_ns - self._keep_ns
        ):
            self._ended.popleft()

    def lose(self, version: int, nodes: Sequence[str]) -> None:
        """Ends all spans of nodes that are not among these: their daemons are down."""
        for node in self._open.keys() - set(nodes):
            self.take(version, node, self._seen_ns[node], {})
            del self._open[node], self._seen_ns[node]

    def ended_since(self, version: int) -> Packed:
        """Returns the spans that ended after this version."""
        found: dict[str, dict[str, list[tuple[int, int]]]] = {}
        for span in self._after(version):
            jobs = found.setdefault(span.node, {})
            jobs.setdefault(span.job, []).append((span.begin_ns, span.end_ns))
        return {
            node: {job: _packed(spans) for job, spans in jobs.items()}
            for node, jobs in found.items()
        }

    def open(self) -> dict[str, dict[str, int]]:
        """Returns by node and job when the spans that last have begun, in ms."""
        return {
            node: {job: begin_ns // NS_PER_MS for job, begin_ns in jobs.items()}
            for node, jobs in self._open.items()
            if jobs
        }

    def _after(self, version: int) -> Iterator[_Span]:
        for span in reversed(self._ended):
            if span.version <= version:
                return
            yield span


def _packed(spans: Sequence[tuple[int, int]]) -> list[int]:
    at, found = 0, []
    for moments in sorted(spans):
        for moment_ns in moments:
            ms = moment_ns // NS_PER_MS
            found.append(ms - at)
            at = ms
    return found
