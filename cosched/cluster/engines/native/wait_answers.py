"""Describes why jobs wait, for users: in one line for ``cosched why``, and in a few words
for ``cosched queue``.

Make one object for each answer: it finds once what all jobs of the answer have in common.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from cosched.cluster.coupling.clock import clock_time
from cosched.cluster.engines.native.array_answers import waits_for, why_kept_back
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeState, Room
from cosched.cluster.engines.native.room_answers import Rooms, rooms_of
from cosched.cluster.engines.native.suspension_answers import lender_text
from cosched.cluster.engines.native.time_answers import times_of
from cosched.cluster.record import Record
from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.states import State as Queued
from cosched.core.cluster.queue.waiting import arrival
from cosched.core.counting import counted
from cosched.core.errors import CoschedError


class _Cause(NamedTuple):
    """Why a job has no place in the queue yet."""

    line: str  #: in words
    short: str  #: in few words


class WaitAnswers:
    """Why jobs wait at one moment. find_starts: returns when they should start, ns."""

    def __init__(
        self,
        jobs: Jobs,
        members: NodeEntries,
        find_starts: Callable[[], Mapping[JobId, int]],
    ) -> None:
        self._jobs = jobs
        self._queue = jobs.queue
        self._members = members
        self._find_starts = find_starts

    @cached_property
    def starts(self) -> Mapping[JobId, int]:
        """When jobs that wait are expected to start, ns."""
        return self._find_starts()

    @cached_property
    def room(self) -> Room:
        """The room of the domain for jobs."""
        return self._members.room

    def short(self, record: Record) -> str:
        """Returns why a job in the queue waits, such as ``needs 2 CPUs, 1 free`` of the
        first one, and ``3 before; needs 2 CPUs`` of others."""
        cause = self._cause(record)
        if cause is not None:
            return cause.short
        needs, up = self._needs(record), self._up
        if needs > up:
            return f"needs {counted(needs, 'node')}, {up or 'none'} in service"
        text, before = self._rooms.needs(record, needs), self._before(record)
        return (
            f"{before} before; {text}" if before else f"{text}, {self._rooms.free(record)}"
        )

    def line(self, record: Record) -> str:
        """Returns one line about a job in the queue."""
        cause = self._cause(record)
        if cause is not None:
            return cause.line
        needs, up = self._needs(record), self._up
        line = f"waits: {self._rooms.line(record, needs)}"
        if needs > up:
            if not up:
                return f"{line}; no node is in service: see cosched cluster status"
            return f"{line}; only {counted(up, 'node is', 'nodes are')} in service"
        before = self._before(record)
        if before:
            line += f"; {counted(before, 'job')} came before"
        later = len(self._running) - bisect_right(self._running, self._place_ns(record))
        if later:
            run = counted(later, "later job runs: it needs", "later jobs run: they need")
            line += f"; {run} less, or the policy prefers {'it' if later == 1 else 'them'}"
        loan = lender_text(record, self._jobs.records.live.values())
        if loan:
            line += f"; {loan}"
        expected_ns = self.starts.get(record.number)
        if expected_ns is not None:
            line += f"; expected {clock_time(expected_ns)}"
        elif self._unknown:
            first = f"job {min(self._unknown)} is the first of its kind"
            line += f"; its start is not known, as {first}"
        times = times_of(record, self._jobs.records.run_times, expected_ns)
        return f"{line}; {times.text}"

    # -- parts -----------------------------------------------------------------------------

    def _cause(self, record: Record) -> _Cause | None:
        if self._jobs.driver.frozen:
            return _Cause(
                "waits: the controller has restarted and asks the nodes",
                "the controller asks the nodes",
            )
        if not self.room.slots:
            line = "no node has joined the domain yet"
            return _Cause(f"waits: {line}", "no node has joined yet")
        if self._queue.jobs.state(record.number) is Queued.KEPT_BACK:
            kept_for = waits_for(self._queue, record)
            return _Cause(why_kept_back(self._queue, record), kept_for)
        try:
            self.room.counts(record.submission)
        except CoschedError as error:  # its nodes, or their slots, have changed
            return _Cause(f"waits: {error}", str(error))
        return None

    def _needs(self, record: Record) -> int:
        """Returns the whole nodes that a job needs to start."""
        job = record.submission
        return job.minimum or len(self.room.counts(job))

    def _place_ns(self, record: Record) -> int:
        """Returns since when a job has its place in the queue."""
        queued = self._queue.jobs.get(record.number)
        return record.submitted_ns if queued is None else queued.job.submit_ns

    def _before(self, record: Record) -> int:
        """Returns how many waiting jobs came before one."""
        return bisect_left(self._waiting, (self._place_ns(record), record.number))

    @cached_property
    def _rooms(self) -> Rooms:
        return rooms_of(self._queue, self._members)

    @cached_property
    def _up(self) -> int:
        """The number of nodes in service."""
        return sum(member.state is NodeState.UP for member in self._members.by_number)

    @cached_property
    def _waiting(self) -> list[tuple[int, JobId]]:
        """When waiting jobs came, with their numbers, in order."""
        return [arrival(job) for job in self._queue.waiting]

    @cached_property
    def _running(self) -> list[int]:
        """When jobs with nodes came, in order."""
        entries = self._queue.jobs.values()
        return sorted(entry.job.submit_ns for entry in entries if entry.nodes)

    @cached_property
    def _unknown(self) -> list[JobId]:
        """The jobs with nodes whose run times are not known."""
        items = self._queue.jobs.items()
        return [number for number, each in items if each.nodes and not each.job.known]
