"""Holds a sample for ``cosched top``: the status of all nodes at one time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Status = Mapping[str, Any]
TaskId = tuple[str, int]  #: node and process id


@dataclass(frozen=True, slots=True)
class Sample:
    """All nodes' status at one time."""

    at_s: float  #: the time in monotonic seconds
    wall_ns: int  #: the same time by the wall clock, in ns since 1970
    statuses: Sequence[Status]  #: the status of each node that answered
    #: How long each task has waited while scheduled, in ns; empty before ``after``.
    waited_ns: Mapping[TaskId, int] = field(default_factory=dict)

    def after(self, earlier: Sample | None) -> Sample:
        """Returns this sample with the time that each task waited while scheduled, so far.

        A task counts its sleep while unscheduled at once, but the wait around that sleep
        only at its end. Until then the difference falls, so its maximum counts.
        """
        known = earlier.waited_ns if earlier else {}
        waited = {
            (status["node"], task["pid"]): task["counters"]["waited_ns"]
            - task["counters"]["paused_ns"]
            for status in self.statuses
            for job in status["jobs"]
            for task in job["tasks"]
        }
        most = {task: max(ns, known.get(task, ns)) for task, ns in waited.items()}
        return replace(self, waited_ns=most)
