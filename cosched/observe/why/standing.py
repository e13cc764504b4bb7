"""Describes in half a sentence what a job on a node does now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cosched.core.node.messages import Cause
from cosched.core.node.prospect import Reason
from cosched.core.units import NS_PER_S
from cosched.observe.status import state_word
from cosched.observe.why.reasons import Explained

Status = Mapping[str, Any]

_MODES = {
    "suspended": "it is stopped",
    "released": "it runs at the kernel's normal shares",
}


def find_job(
    status: Status | None, key: str, lists: Sequence[str] = ("jobs",)
) -> Mapping[str, Any] | None:
    """Returns the job in these lists of a node's status, None if it is not there.

    ``jobs`` has the jobs on the node, ``waiting`` the jobs that wait for memory.
    """
    jobs = [job for name in lists for job in status[name]] if status else []
    return next((job for job in jobs if job["key"] == key), None)


def standing(status: Status | None, key: str, changes: Sequence[Explained]) -> str:
    """Describes whether the job runs, since when, and which jobs wait for it or run."""
    if status is None:
        return "no daemon is up; this is from its trace"
    waiting, live = find_job(status, key, ("waiting",)), find_job(status, key)
    if live is None and waiting is not None:
        return f"has waited for {waiting['waited_s']:.1f} s to begin: {waiting['reason']}"
    if live is None:
        return "ended"
    span = _span(status, changes)
    if live["mode"] in _MODES:
        return f"{state_word(live['mode'])} by its owner{span}: {_MODES[live['mode']]}"
    rivals = [job for job in status["jobs"] if _competes(job, live)]
    if rivals and "order" in live:
        return _in_order(live, rivals, span)
    if live["scheduled"]:
        others = [job for job in rivals if not job["scheduled"]]
        if not others:
            return f"runs{span}; nothing waits for its CPUs"
        return f"runs{span}; {_names(others)} wait{_s(others)}; {_slice(status, live)}"
    others = [job for job in rivals if job["scheduled"]]
    if not others:
        return f"does not run{span}"
    return f"waits{span}: {_names(others)} run{_s(others)}; {_slice(status, live)}"


def _in_order(
    live: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]], span: str
) -> str:
    """Describes a job that runs or waits by its place in the order."""
    others = [job for job in rivals if job["scheduled"] is not live["scheduled"]]
    if live["scheduled"]:
        waiting = f"; {_names(others)} wait{_s(others)}" if others else ""
        return f"runs{span}: {_reason(live)}{waiting}"
    running = "; ".join(f"{job['name']} runs: {_reason(job)}" for job in others)
    return f"waits{span}: {_reason(live)}" + (f"; {running}" if running else "")


def _reason(job: Mapping[str, Any]) -> str:
    """Returns the reason for the job's place in the order."""
    order = job["order"]
    left, ran = order["left_s"], job["scheduled_s"]
    if order["reason"] == Reason.ENDING.value:
        return "it is about to end"
    if order["reason"] == Reason.DUE.value:
        return "it must get its guaranteed part of the time"
    if order["reason"] == Reason.LEFT.value:
        count = order["lengths"]
        source = "one run or estimate" if count == 1 else f"{count} earlier runs"
        return f"about {left:.1f} s left, from {source}"
    if order["reason"] == Reason.OUTLIVED.value:
        return f"it has run {ran:.1f} s of an expected {order['expected_s']:.1f} s"
    return f"it has run {ran:.1f} s, and its length is unknown"


def last_change_wall_ns(changes: Sequence[Explained]) -> int | None:
    """Returns the time of the last change of the job's status, None if there is none."""
    scheduled: bool | None = None
    since: int | None = None
    for note in (change.note for change in changes):
        if note.scheduled is not None and note.scheduled is not scheduled:
            scheduled, since = note.scheduled, note.wall_ns
        elif note.why in (Cause.SUSPENDED.value, Cause.RELEASED.value):
            since = note.wall_ns
    return since


def _competes(job: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    return (
        job["key"] != live["key"]
        and job["mode"] not in _MODES
        and not set(live["cpus"]).isdisjoint(job["cpus"])
    )


def _span(status: Status, changes: Sequence[Explained]) -> str:
    since = last_change_wall_ns(changes)
    if since is None:
        return ""
    return f" for {max(0, status['wall_ns'] - since) / NS_PER_S:.2f} s"


def _names(jobs: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(job["name"] for job in jobs)


def _s(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Returns the ending of the verb."""
    return "s" if len(jobs) == 1 else ""


def _slice(status: Status, live: Mapping[str, Any]) -> str:
    settings, slice_s = status["settings"], live["slice_s"]
    if not settings["align"] or slice_s > settings["slice_s"]:
        return f"slices last {slice_s:g} s"
    left_s = slice_s - status["wall_ns"] / NS_PER_S % slice_s
    return f"the slice ends in {left_s:.2f} s"
