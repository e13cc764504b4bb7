"""Describes in half a sentence what a job on a node does now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cosched.core.node.messages import Cause
from cosched.core.units import NS_PER_S
from cosched.observe.status import state_word
from cosched.observe.why.in_order import InOrder
from cosched.observe.why.reasons import Explained
from cosched.observe.why.rivals import MODES, names, rivals_of, s_of

Status = Mapping[str, Any]


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
    if live["mode"] in MODES:
        return f"{state_word(live['mode'])} by its owner{span}: {MODES[live['mode']]}"
    if live.get("state") == "starting":
        turn = _turn(status, live, span)
        return f"starting: its ranks have not joined; it {turn}"
    return _turn(status, live, span)


def _turn(status: Status, live: Mapping[str, Any], span: str) -> str:
    """Describes whether a job that takes part runs, and which jobs wait for it or run."""
    others = [
        job
        for job in rivals_of(live, status["jobs"])
        if job["scheduled"] is not live["scheduled"]
    ]
    in_order = InOrder(status, live, others)
    if live["scheduled"]:
        if not others:
            return f"runs{span}; nothing waits for its CPUs"
        if in_order.decides:
            return f"runs{span}: {in_order.runs()}"
        return f"runs{span}; {names(others)} wait{s_of(others)}; {_slice(status, live)}"
    if not others:
        return f"does not run{span}"
    if in_order.decides:
        return f"waits{span}: {in_order.waits()}"
    return f"waits{span}: {names(others)} run{s_of(others)}; {_slice(status, live)}"


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


def _span(status: Status, changes: Sequence[Explained]) -> str:
    since = last_change_wall_ns(changes)
    if since is None:
        return ""
    return f" for {max(0, status['wall_ns'] - since) / NS_PER_S:.2f} s"


def _slice(status: Status, live: Mapping[str, Any]) -> str:
    settings, slice_s = status["settings"], live["slice_s"]
    if not settings["align"] or slice_s > settings["slice_s"]:
        return f"slices last {slice_s:g} s"
    left_s = slice_s - status["wall_ns"] / NS_PER_S % slice_s
    return f"the slice ends in {left_s:.2f} s"
