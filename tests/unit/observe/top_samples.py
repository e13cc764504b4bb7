"""Makes statuses like those of daemons."""

from __future__ import annotations

from cosched.core.node.messages import Refusal
from cosched.core.units import NS_PER_S
from cosched.observe.top.sample import Sample

COUNTERS = ("sent", "received", "trapped", "posted", "waits", "waited_ns", "paused_ns")


def task(pid, rank=0, **counters):
    return {
        "pid": pid,
        "rank": rank,
        "world": 2,
        "counters": {name: counters.get(name, 0) for name in COUNTERS},
    }


def filling(waits_s=0.0, filled_by=(), fills=()):
    """``filled_by``: (job, filled_s); ``fills``: (job, filled_s, waits_s)."""
    return {
        "waits_s": waits_s,
        "filled_s": float(sum(filled_s for _, filled_s in filled_by)),
        "filled_by": [
            {"job": name, "filled_s": filled_s, "waits_s": waits_s}
            for name, filled_s in filled_by
        ],
        "fills_s": float(sum(filled_s for _, filled_s, _ in fills)),
        "fills": [
            {"job": name, "filled_s": filled_s, "waits_s": theirs_s}
            for name, filled_s, theirs_s in fills
        ],
    }


def job(name, tasks, *, uid=7, scheduled=True, scheduled_s=0.0, cpus=(0,), **more):
    return {
        "name": name,
        "uid": uid,
        "key": f"{uid}.{name}",
        "carrier": "shadow",
        "scheduled": scheduled,
        "class": {
            "ways": ["moved"],
            "groups": [f"/sys/fs/cgroup/cpu/cosched-n/{uid}.{name}"],
            "reason": "/ is not a group of one job",
            "bounded": None,
        },
        "share_percent": 99 if scheduled else 1,
        "cpus": list(cpus),
        "epoch": 1,
        "began_after_s": None,
        "scheduled_s": scheduled_s,
        "filling": filling(),
        "cpu_s": scheduled_s,
        "switches": 0,
        "granted": 0,
        "refused": {reason.value: 0 for reason in Refusal},
        "dropped_requests": 0,
        "left": {},
        "tasks": tasks,
        **more,
    }


def status(node, jobs, *, scheduled=None, counters=(), pid=100, cpu_s=0.0, waiting=()):
    return {
        "node": node,
        "version": "1.2.3",
        "pid": pid,
        "wall_ns": 0,
        "uptime_s": 5.0,
        "daemon_cpu_s": cpu_s,
        "private": False,
        "priority": "SCHED_FIFO 1",
        "class_scheduler": {"name": "cgroup1", "mode": "proportional", "chosen": ""},
        "settings": {
            **{"slice": "2s", "gmet": "100ms", "align": True},
            **{"slice_s": 2.0, "gmet_s": 0.1, "lent": {}, "warnings": []},
        },
        "timer": {
            "pid": 101,
            "restarts": 0,
            "ticks": 4,
            "late_mean_us": 50.0,
            "late_max_us": 60.0,
        },
        "counters": dict(counters),
        "expectations": {
            **{"known": 4, "unknown": 1, "met": 3},
            **{"error_s": 2.5, "scheduled_s": 20.0},
        },
        "jobs": jobs,
        "waiting": list(waiting),
        "memory": {
            "guarded": True,
            "total_bytes": 4096,
            "usable_bytes": 4000,
            "free_bytes": 1000,
            "pressure_percent": 0.0,
        },
        "scheduled": scheduled or {},
    }


def sample(at_s, *statuses):
    return Sample(at_s, round(at_s * NS_PER_S), statuses)
