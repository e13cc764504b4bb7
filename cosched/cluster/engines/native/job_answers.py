"""Describes a job to users: its entry in lists, and the line of ``cosched why``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosched.cluster.engines.native.array_answers import waits_for
from cosched.cluster.engines.native.forecasts import Forecasts
from cosched.cluster.engines.native.halves_answers import (
    halves_of,
    is_too_large,
    neighbours_of,
    place_text,
    whole_nodes_text,
)
from cosched.cluster.engines.native.job_bounds import bounds_of
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.engines.native.size_answers import tasks_now
from cosched.cluster.engines.native.suspension_answers import (
    suspension_fields,
    suspension_text,
)
from cosched.cluster.engines.native.time_answers import times_of
from cosched.cluster.engines.native.wait_answers import WaitAnswers
from cosched.cluster.job_texts import size_text
from cosched.cluster.output_names import expand
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.states import State as Queued
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S


class JobAnswers:
    """The jobs of a domain, as users read about them."""

    def __init__(self, jobs: Jobs, store: JobStore, members: NodeEntries) -> None:
        self._jobs = jobs
        self._store = store
        self._members = members
        self._forecasts = Forecasts(self._make_forecast)

    def waits(self) -> WaitAnswers:
        """Returns why jobs wait now."""
        return WaitAnswers(self._jobs, self._members, self._expected_starts)

    def _expected_starts(self) -> Mapping[int, int]:
        """Returns when jobs that wait now are expected to start, ns."""
        if self._jobs.driver.frozen:
            return {}
        waiting = self._jobs.queue.waiting
        if not waiting:
            return {}
        starts = self._forecasts.get()
        return {job.number: starts[job.number] for job in waiting if job.number in starts}

    def _make_forecast(self) -> Mapping[int, int]:
        return forecast(self._jobs.queue, self._jobs.clock.now_ns())

    def describe(self, record: Record, waits: WaitAnswers) -> dict[str, Any]:
        """Returns the entry of a job."""
        job = record.submission
        bounds = bounds_of(job, waits.room.nodes)
        minimum, ideal, preferred = (None, None, None) if bounds is None else bounds
        queued = record.state is State.QUEUED
        expected_ns = waits.starts.get(record.number) if queued else None
        times = times_of(record, self._jobs.records.run_times, expected_ns)
        return {
            "job": record.number,
            "name": job.name,
            "uid": record.uid,
            "state": record.state.value,
            "nodes": self._node_count(record, waits),
            "tasks": tasks_now(record),
            "hosts": list(record.nodes),
            "submitted_ns": record.submitted_ns,
            "started_ns": record.started_ns,
            "ended_ns": record.ended_ns,
            "expected_ns": expected_ns,
            "time_ns": times.limit_ns,
            "run_ns": times.run_ns,
            "ends_ns": times.ends_ns,
            "status": record.status,
            "reason": self._reason(record, waits),
            "starts": record.start,
            "command": list(job.argv),
            "cwd": job.cwd,
            "output": expand(job.output, record),
            "error": expand(job.error, record),
            "mates": "" if record.state.over else self._mates_line(record),
            "minimum": minimum,
            "ideal": ideal,
            "preferred": preferred,
            "resized": None if bounds is None else self._store.times_resized(record.number),
            "node_s": record.used_ns(self._jobs.clock.now_ns()) / NS_PER_S,
            "limited_by": list(job.limited_by),
            "shares": self._members.may_share(job),
            "halves": halves_of(record),
            "neighbours": neighbours_of(self._jobs.queue, record.number),
            **suspension_fields(record, self._jobs.clock.now_ns()),
            "array": record.array or None,
            "task": record.task,
            "waits_for": waits_for(self._jobs.queue, record),
        }

    def _reason(self, record: Record, waits: WaitAnswers) -> str:
        """Returns why a job waits, or why it failed, in a few words."""
        if record.state is State.HELD:
            return "until cosched unhold"
        if record.state is State.QUEUED and not self._is_reserved(record):
            return waits.short(record)
        return record.reason

    def _is_reserved(self, record: Record) -> bool:
        """Returns whether a job has nodes and waits for its mates."""
        return self._jobs.queue.jobs.state(record.number) is Queued.RESERVED

    def _node_count(self, record: Record, waits: WaitAnswers) -> int | None:
        """Returns the nodes that a job has or had, or that it needs now if it waits; None
        if that is not known."""
        if record.state not in (State.HELD, State.QUEUED):
            return len(record.nodes) or record.submission.nodes or None
        try:
            halves = self._members.half_counts(record.submission)
            if not halves or is_too_large(self._jobs.queue, record):
                return len(waits.room.counts(record.submission))
            return len(halves)
        except CoschedError:
            return None

    def _mates_line(self, record: Record) -> str:
        """Returns one line about a job's mates; empty if it has none, or has ended and did
        not start alone."""
        if self._jobs.pairs is None:
            return ""
        return self._jobs.pairs.explain(record.number) or ""

    def why(self, record: Record, waits: WaitAnswers) -> str:
        """Returns one line: where a job runs, how it ended, or why it waits."""
        if self._is_reserved(record):
            return self._mates_line(record)
        if record.state is State.QUEUED:
            return self._with_notes(waits.line(record), record)
        if record.state is State.HELD:
            return f"is held; to release it: cosched unhold {record.number}"
        if record.state.over:
            ended = record.reason or f"ended with status {record.status}"
            return "; ".join(filter(None, (ended, self._mates_line(record))))
        neighbours = neighbours_of(self._jobs.queue, record.number)
        line = f"{record.state.value} on {place_text(record, neighbours)}"
        bounds = bounds_of(record.submission, waits.room.nodes)
        if bounds is not None:
            line += f": {size_text(len(record.nodes), bounds, unit=' nodes')}"
        loan = suspension_text(record)
        if loan:
            line += f"; {loan}"
        line += f"; {times_of(record, self._jobs.records.run_times, None).text}"
        return self._with_notes(line, record)

    def _with_notes(self, line: str, record: Record) -> str:
        """Returns a line about a job with what else there is to know of it."""
        notes = (
            whole_nodes_text(self._jobs.queue, record),
            self._jobs.shared.label_text(record),
            self._mates_line(record),
        )
        return "; ".join((line, *filter(None, notes)))
