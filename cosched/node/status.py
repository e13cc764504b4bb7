"""Builds the answer to ``status``: the report of a scheduler daemon about its node.

Names carry their units. docs/dev/formats.md describes the fields.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from cosched.core.named_tuples import NamedTuple
from cosched.core.node.admission import MemoryNeed
from cosched.core.node.job import JobState
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Mode
from cosched.core.node.prospect import Prospect
from cosched.core.units import NS_PER_S
from cosched.linux.classes import ClassLocation, ClassScheduler
from cosched.node.admission import MemoryAdmission
from cosched.node.children.timer_process import TimerProcess
from cosched.node.companions import Companions
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.records.recorder import Recorder
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob
from cosched.shm.region import NodeRegion
from cosched.shm.region_values import CARRIERS, Phase
from cosched.version import VERSION


class NodeView(NamedTuple):
    """The parts of a daemon that a status is read from."""

    node: str  #: the node's name
    started_ns: int  #: when the daemon started, CLOCK_MONOTONIC
    private: bool  #: the daemon serves one user's jobs
    priority: str  #: the priority of the daemon, a text for people
    chosen: str  #: why the daemon has this class scheduler, a text for people
    classes: ClassScheduler  #: the class scheduler in use
    machine: NodeScheduler  #: the schedule of the node
    jobs: JobTable  #: the jobs with their tasks and regions
    region: NodeRegion  #: the region that the timer daemon shares, with its report
    timer: TimerProcess  #: the process of the timer daemon
    admission: MemoryAdmission  #: the memory of the jobs, and the jobs that wait for it
    recorder: Recorder  #: the accounts of the jobs
    history: HistoryWriter  #: the ended jobs, and the forecasts made from them
    companions: Companions  #: the jobs that share the node
    lent: Mapping[str, int]  #: the settings on loan, each with the pid of its holder


def node_status(
    view: NodeView, since_wall_ns: int | None = None, *, memory: bool = True
) -> dict[str, Any]:
    """Returns the status of the node, ready for JSON.

    With ``since_wall_ns`` it has the intervals in which each job was scheduled since then.
    Without ``memory`` it leaves out all memory: to measure it costs more than the rest.
    """
    needs = view.admission.needs() if memory else {}
    now_ns = time.monotonic_ns()
    prospects = view.machine.prospects(now_ns)
    view.recorder.look_at_fillings()
    return {
        "node": view.node,
        "version": VERSION,
        "pid": os.getpid(),
        "wall_ns": time.time_ns(),
        "uptime_s": (now_ns - view.started_ns) / NS_PER_S,
        "daemon_cpu_s": time.process_time(),
        "private": view.private,
        "priority": view.priority,
        "class_scheduler": {
            "name": view.classes.name,
            "mode": view.classes.mode,
            "chosen": view.chosen,
        },
        "settings": _settings_status(view),
        "timer": _timer_status(view),
        "counters": {
            branch.value: count for branch, count in sorted(view.machine.counters.items())
        },
        **({"memory": view.admission.memory_status(needs)} if memory else {}),
        "expectations": msgspec.to_builtins(view.history.expectations),
        "waiting": view.admission.waiting_status(),
        "jobs": [
            {
                **_job_status(view, job, now_ns, needs.get(job.key)),
                **_order_status(prospects.get(job.key)),
            }
            for job in view.jobs
        ],
        **({} if since_wall_ns is None else {"scheduled": _scheduled(view, since_wall_ns)}),
    }


def state_word(state: JobState) -> str:
    """Returns ``on``, ``off`` or ``starting``, or the mode that the job's owner chose."""
    if state.mode is Mode.RAISED and state.scheduled:
        return "raised"
    if not state.mode.takes_part:
        return state.mode.value
    if state.starting:
        return "starting"
    return "on" if state.scheduled else "off"


def _settings_status(view: NodeView) -> dict[str, Any]:
    settings = view.machine.settings
    return {
        **settings.texts(),
        "slice_s": settings.slice_ns / NS_PER_S,
        "gmet_s": settings.gmet_within_ns(settings.slice_ns) / NS_PER_S,
        "align": settings.align,
        "lent": dict(view.lent),
        "warnings": [
            *settings.warnings(),
            *(f"{name} is on loan to process {pid}" for name, pid in view.lent.items()),
        ],
    }


def _timer_status(view: NodeView) -> dict[str, Any]:
    report = view.region.data.report
    return {
        "pid": view.timer.pid,
        "restarts": view.timer.restarts,
        "ticks": int(report.ticks),
        "late_mean_us": report.late_sum_ns / max(1, report.ticks) / 1e3,
        "late_max_us": report.late_max_ns / 1e3,
    }


def _scheduled(view: NodeView, since_wall_ns: int) -> dict[str, Any]:
    accounts = view.recorder.accounts.items()
    return {job: account.scheduled_since(since_wall_ns) for job, account in accounts}


def _order_status(prospect: Prospect | None) -> dict[str, Any]:
    """Returns the job's place in the order and the reason; nothing if jobs take turns, or
    if the job is raised."""
    if prospect is None:
        return {}
    return {
        "order": {
            "place": prospect.place,
            "reason": prospect.reason.value,
            "cost_s": prospect.cost_ns / NS_PER_S,
            "age_s": prospect.age_ns / NS_PER_S,
            "expected_s": prospect.expected_ns / NS_PER_S or None,
            "left_s": prospect.left_ns / NS_PER_S or None,
            "lengths": prospect.lengths,
        }
    }


def _class_status(place: ClassLocation) -> dict[str, Any]:
    return {
        "ways": [way.value for way in place.ways],
        "groups": list(place.groups),
        "reason": place.reason,
        "bounded": place.bounded,
    }


def _job_status(
    view: NodeView, job: LiveJob, now_ns: int, need: MemoryNeed | None
) -> dict[str, Any]:
    state = view.machine.jobs[job.key]
    account = view.recorder.accounts[job.key]
    cpu_ns = view.classes.cpu_ns(job.key)
    return {
        "name": job.name,
        "uid": job.uid,
        "key": job.key,
        "carrier": CARRIERS.get(job.carrier, "unknown"),
        "scheduled": state.scheduled,
        "came_by": state.came_by.value,
        "mode": state.mode.value,
        "state": state_word(state),
        "share_percent": view.machine.shares.get(job.key),
        "slice_s": view.machine.slice_ns(job.key) / NS_PER_S,
        "class": _class_status(view.classes.place(job.key)),
        "cpus": sorted(state.cpus),
        "epoch": state.epoch,
        "began_after_s": job.began_after_s,
        "scheduled_s": state.age_ns(now_ns) / NS_PER_S,
        "cpu_s": None if cpu_ns is None else cpu_ns / NS_PER_S,
        "filling": msgspec.to_builtins(view.history.filling(job)),
        "sharing": view.companions.document(job) if job.limited_by else None,
        "switches": state.switches,
        "granted": account.granted,
        "refused": {reason.value: count for reason, count in account.refused.items()},
        "dropped_requests": int(job.region.data.ring.dropped),
        **({"memory": view.admission.job_status(need)} if need else {}),
        "left": view.history.left(job.key),
        "tasks": [
            {
                "pid": task.pid,
                "rank": task.rank,
                "world": task.world,
                "launched": task.phase is Phase.LAUNCHED,
                "counters": job.region.counters(task.slot),
            }
            for task in sorted(job.tasks.values(), key=lambda t: t.rank)
            if not task.is_launcher
        ],
        "launchers": [task.pid for task in job.launchers],
    }
