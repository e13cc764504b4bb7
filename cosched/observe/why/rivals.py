"""Finds the jobs of a node's status that compete, and names them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Job = Mapping[str, Any]

#: The modes in which a job competes with no other one.
MODES = {
    "suspended": "it is stopped",
    "released": "it runs at the kernel's normal shares",
}


def rivals_of(live: Job, jobs: Sequence[Job]) -> list[Job]:
    """Returns the jobs that want CPUs of this one."""
    return [
        job
        for job in jobs
        if job["key"] != live["key"]
        and job["mode"] not in MODES
        and not set(live["cpus"]).isdisjoint(job["cpus"])
    ]


def names(jobs: Sequence[Job]) -> str:
    """Returns the names of these jobs."""
    return ", ".join(job["name"] for job in jobs)


def s_of(jobs: Sequence[Job]) -> str:
    """Returns the ending of the verb."""
    return "s" if len(jobs) == 1 else ""
