"""Defines the columns in which the jobs of a domain are listed."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cosched.cluster.job_texts import NAME_MOST, JobBounds, label_of, size_text
from cosched.core.units import NS_PER_S
from cosched.linux.users import find_user_name
from cosched.observe.table_columns import (
    COUNT,
    DATE,
    SECONDS,
    TEXT,
    Column,
    Columns,
    Kind,
    clock,
)

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo


def _nodes(job: JobInfo) -> str | None:
    if job["minimum"] is not None and job["ideal"] is not None and job["ended_ns"] is None:
        has = len(job["hosts"]) if job["state"] in ("starting", "running") else None
        bounds = JobBounds(job["minimum"], job["ideal"], job["preferred"])
        return size_text(has, bounds)
    return None if job["nodes"] is None else str(job["nodes"])


#: Moments in ns since 1970, each with its mark: ``~`` for an expected one, ``<`` for the
#: latest one. Programs read the first one, unless it is the latest.
_Moments = Sequence[tuple[str, int]]


def _clocks(moments: _Moments) -> str:
    return "".join(f"{mark}{clock(at_ns, time.time())}" for mark, at_ns in moments)


def _date(moments: _Moments) -> str:
    mark, at_ns = moments[0]
    return "" if mark == "<" else DATE.plain(at_ns)


_MOMENTS = Kind("<", _clocks, _date)


def _start(job: JobInfo) -> _Moments | None:
    if job["started_ns"] is not None:
        return [("", job["started_ns"])]
    if job["expected_ns"] is not None and job["ended_ns"] is None:
        return [("~", job["expected_ns"])]
    return None


def _state(job: JobInfo) -> str:
    return job["state"] if job["suspended_for"] is None else "suspended"


def _reason(job: JobInfo) -> str:
    if job["ended_ns"] is not None or job["state"] == "held":
        return job["reason"]
    if job["state"] == "running":
        return _where(job)
    if job["state"] == "starting":
        return job["mates"] or _where(job)
    return job["mates"] or job["reason"]


def _where(job: JobInfo) -> str:
    """Returns the nodes of a job, such as ``n1,n2``, or the halves of nodes, such as
    ``beside 7: top n1,n2``."""
    if job["suspended_for"] is not None:
        return f"for {job['suspended_for']}: {','.join(job['hosts'])}"
    if not job["halves"]:
        return ",".join(job["hosts"])
    found = []
    for half in sorted(set(job["halves"]), reverse=True):
        places = zip(job["hosts"], job["halves"], strict=False)
        hosts = [host for host, own in places if own == half]
        found.append(f"{half} {','.join(hosts)}")
    beside = ",".join(map(str, job["neighbours"]))
    return (f"beside {beside}: " if beside else "") + ", ".join(found)


def _end(job: JobInfo) -> _Moments | None:
    if job["ended_ns"] is not None:
        return [("", job["ended_ns"])]
    found = [] if job["ends_ns"] is None else [("~", job["ends_ns"])]
    begins_ns = job["started_ns"] or job["expected_ns"]
    if job["time_ns"] is not None and begins_ns is not None:
        found.append(("<", begins_ns + job["time_ns"]))
    return found or None


def _took_s(job: JobInfo) -> float | None:
    """Returns how long a job has run, or did; None if no task of it has begun."""
    if job["started_ns"] is None:
        return None
    until_ns = time.time_ns() if job["ended_ns"] is None else job["ended_ns"]
    return max(0, until_ns - job["started_ns"]) / NS_PER_S


def _waited_s(job: JobInfo) -> float:
    ends = (job["started_ns"], job["ended_ns"])
    until_ns = next((at_ns for at_ns in ends if at_ns is not None), time.time_ns())
    return max(0, until_ns - job["submitted_ns"]) / NS_PER_S


_COLUMNS: dict[str, Column[JobInfo]] = {
    "job": Column(Kind(">", str, str), lambda job: job.get("folded") or label_of(job)),
    "name": Column(Kind("<", lambda name: name[:NAME_MOST], str), lambda job: job["name"]),
    "user": Column(TEXT, lambda job: find_user_name(job["uid"]) or str(job["uid"])),
    "uid": Column(COUNT, lambda job: job["uid"]),
    "nodes": Column(COUNT, _nodes),
    "ranks": Column(COUNT, lambda job: job["tasks"]),
    "state": Column(TEXT, _state),
    "start": Column(_MOMENTS, _start),
    "end": Column(_MOMENTS, _end),
    "submitted": Column(DATE, lambda job: job["submitted_ns"]),
    "began": Column(DATE, lambda job: job["started_ns"]),
    "ended": Column(DATE, lambda job: job["ended_ns"]),
    "took": Column(SECONDS, _took_s),
    "waited": Column(SECONDS, _waited_s),
    "status": Column(COUNT, lambda job: job["status"]),
    "reason": Column(TEXT, _reason),
    "limit": Column(SECONDS, lambda job: job["time_ns"] and job["time_ns"] / NS_PER_S),
    "hosts": Column(TEXT, lambda job: " ".join(job["hosts"])),
    "array": Column(COUNT, lambda job: job["array"]),
    "task": Column(COUNT, lambda job: job["task"]),
    "output": Column(TEXT, lambda job: job["output"]),
    "command": Column(TEXT, lambda job: shlex.join(job["command"])),
    "cwd": Column(TEXT, lambda job: job["cwd"]),
}
#: The words of sacct and squeue for the same.
_ALIASES = {
    **{"jobid": "job", "jobname": "name", "nnodes": "nodes", "ntasks": "ranks"},
    **{"submit": "submitted", "elapsed": "took", "time": "took", "timelimit": "limit"},
    **{"exitcode": "status", "nodelist": "hosts", "workdir": "cwd"},
}
COLUMNS = Columns("cosched queue", _COLUMNS, _ALIASES)
