"""Combines the nodes' status of one job into a profile for ``core.advice``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cosched.core.advice import Profile
from cosched.core.units import NS_PER_S

Status = Mapping[str, Any]


def profile_of(
    statuses: Iterable[Status], key: str, response_s: float | None = None
) -> Profile | None:
    """Returns the profile of the job with this key; None if no node has it."""
    parts = [
        (status, job)
        for status in statuses
        for job in status["jobs"]
        if job["key"] == key and not all(task["launched"] for task in job["tasks"])
    ]
    if not parts:
        return None
    counters = [
        task["counters"]
        for _, job in parts
        for task in job["tasks"]
        if not task["launched"]
    ]
    # A task that slept while it was unscheduled was not idle by itself.
    idle_ns = sum(max(0, c["waited_ns"] - c["paused_ns"]) for c in counters)
    counted = any(job["carrier"] != "none" for _, job in parts)
    status, largest = max(parts, key=lambda part: _need(part[1]) / _total(part[0]))
    return Profile(
        ranks=max(task["world"] for _, job in parts for task in job["tasks"]),
        tasks=len(counters),
        nodes=len(parts),
        scheduled_s=sum(job["scheduled_s"] for _, job in parts) / len(parts),
        exchanges=sum(max(c["sent"], c["received"], c["waits"]) for c in counters)
        if counted
        else None,
        idle_s=idle_ns / NS_PER_S,
        slice_s=parts[0][0]["settings"]["slice_s"],
        response_s=response_s,
        need_bytes=_need(largest),
        node_bytes=status["memory"]["total_bytes"],
    )


def _need(job: Mapping[str, Any]) -> int:
    return int(max(job["memory"]["declared_bytes"], job["memory"]["measured_bytes"]))


def _total(status: Status) -> int:
    return max(1, int(status["memory"]["total_bytes"]))
