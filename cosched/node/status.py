"""What a scheduler daemon says of its node: the answer to ``status``.

Names carry their units. docs/formats.md describes the fields.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from cosched.core.node.admission import Need
from cosched.core.node.messages import Mode
from cosched.core.node.table import JobState
from cosched.core.trace.intervals import scheduled_intervals
from cosched.core.units import NS_PER_S
from cosched.node.jobs import LiveJob
from cosched.shm._native import lib

if TYPE_CHECKING:
    from cosched.node.daemon import SchedulerDaemon

CARRIERS = {
    lib.COSCHED_CARRIER_NONE: "none",
    lib.COSCHED_CARRIER_PREFIX: "prefix",
    lib.COSCHED_CARRIER_SHADOW: "shadow",
}


def node_status(
    daemon: SchedulerDaemon, since_wall_ns: int | None = None, *, memory: bool = True
) -> dict[str, Any]:
    """The whole node, ready for JSON; with ``since_wall_ns`` also when each job was
    scheduled since then. Without ``memory`` nothing of that, which costs more than all
    the rest together."""
    gate = daemon.gate
    needs = gate.needs() if memory else {}
    now_ns = time.monotonic_ns()
    settings = daemon.machine.settings
    report = daemon.region.data.report
    return {
        "node": daemon.paths.node,
        "pid": os.getpid(),
        "wall_ns": time.time_ns(),
        "uptime_s": (now_ns - daemon.started_ns) / NS_PER_S,
        "daemon_cpu_s": time.process_time(),
        "private": daemon.options.private,
        "priority": daemon.options.priority,
        "class_scheduler": {
            "name": daemon.classes.name,
            "mode": daemon.classes.mode,
            "chosen": daemon.options.chosen,
        },
        "settings": {
            "slice": settings.texts()["slice"],
            "gmet": settings.texts()["gmet"],
            "slice_s": settings.slice_ns / NS_PER_S,
            "gmet_s": settings.gmet_within_ns(settings.slice_ns) / NS_PER_S,
            "align": settings.align,
            "warnings": list(settings.warnings()),
        },
        "timer": {
            "pid": daemon.timer.pid,
            "restarts": daemon.timer.restarts,
            "ticks": int(report.ticks),
            "late_mean_us": report.late_sum_ns / max(1, report.ticks) / 1e3,
            "late_max_us": report.late_max_ns / 1e3,
        },
        "counters": {
            branch.value: count for branch, count in sorted(daemon.machine.counters.items())
        },
        **({"memory": gate.memory_status(needs)} if memory else {}),
        "waiting": gate.waiting_status(),
        "jobs": [
            _job_status(daemon, job, now_ns, needs.get(job.key)) for job in daemon.jobs
        ],
        **({} if since_wall_ns is None else {"scheduled": _since(daemon, since_wall_ns)}),
    }


def state_word(state: JobState) -> str:
    """``on`` or ``off``, or what its owner made of it."""
    if state.mode is Mode.RAISED and state.scheduled:
        return "raised"
    if state.mode.takes_part:
        return "on" if state.scheduled else "off"
    return state.mode.value


def _since(daemon: SchedulerDaemon, since_wall_ns: int) -> dict[str, Any]:
    now = {key: state.scheduled for key, state in daemon.machine.jobs.items()}
    return scheduled_intervals(daemon.recorder.recent, now, since_wall_ns)


def _job_status(
    daemon: SchedulerDaemon, job: LiveJob, now_ns: int, need: Need | None
) -> dict[str, Any]:
    state = daemon.machine.jobs[job.key]
    cpu_ns = daemon.classes.cpu_ns(job.key)
    return {
        "name": job.name,
        "uid": job.uid,
        "key": job.key,
        "carrier": CARRIERS.get(job.carrier, "unknown"),
        "scheduled": state.scheduled,
        "mode": state.mode.value,
        "state": state_word(state),
        "share_percent": daemon.machine.shares.get(job.key),
        "slice_s": daemon.machine.slice_ns(job.key) / NS_PER_S,
        "cpus": sorted(state.cpus),
        "epoch": state.epoch,
        "scheduled_s": (state.received_ns + state.ran_ns(now_ns)) / NS_PER_S,
        "cpu_s": None if cpu_ns is None else cpu_ns / NS_PER_S,
        "switches": state.switches,
        "granted": state.granted,
        "refused": {reason.value: count for reason, count in state.refused.items()},
        "dropped_requests": int(job.region.data.ring.dropped),
        **({"memory": daemon.gate.job_status(need)} if need else {}),
        "left": daemon.books.left(job.key),
        "tasks": [
            {
                "pid": task.pid,
                "rank": task.rank,
                "world": task.world,
                "launched": task.launched,
                "counters": job.region.counters(task.slot),
            }
            for task in sorted(job.tasks.values(), key=lambda t: t.rank)
        ],
    }
