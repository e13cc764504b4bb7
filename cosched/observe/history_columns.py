"""Defines the columns in which ended jobs are listed."""

from __future__ import annotations

import os

from cosched.core.trace.neighbours import found_limits
from cosched.linux.users import find_user_name
from cosched.observe.filling import share
from cosched.observe.job_summary import JobSummary
from cosched.observe.shared_nodes import verdict_of
from cosched.observe.table_columns import (
    COUNT,
    DATE,
    HOURS,
    SECONDS,
    SHARE,
    TEXT,
    Column,
    Columns,
    Kind,
)
from cosched.rundir.paths import name_for


def _name(one: JobSummary) -> str:
    """Marks a job that a daemon saw only in part, and names another user's by its key."""
    return (one.name if one.uid == os.geteuid() else one.job) + ("*" if one.partial else "")


def _filled(one: JobSummary) -> float | None:
    """Returns the part of its waits that other jobs filled."""
    if one.filling is None or not one.filling.waits_s:
        return None
    return one.filling.filled_s / one.filling.waits_s


def _filled_by(one: JobSummary) -> str | None:
    parts = one.filling.filled_by if one.filling else ()
    return " ".join(name_for(one.job, part.job) for part in parts) or None


def _fills(one: JobSummary) -> str | None:
    parts = one.filling.fills if one.filling else ()
    shares = (f"{share(part)} of {name_for(one.job, part.job)}" for part in parts)
    return ", ".join(shares) or None


def _label(one: JobSummary) -> str | None:
    """Returns the label with what was seen of it: ``memory wrong``."""
    if one.sharing is None:
        return None
    verdict = verdict_of(one.sharing)
    names = ",".join(one.sharing.limited_by)
    return names if verdict is None else f"{names} {verdict.value}"


def _limit(one: JobSummary) -> str | None:
    """Returns what the job did most of the time."""
    found = found_limits(one.sharing) if one.sharing else None
    return None if found is None else f"{found.doing} {found.percent}%"


def _beside(one: JobSummary) -> str | None:
    """Returns its speeds beside others, as parts of its speed alone."""
    parts = one.sharing.beside if one.sharing else ()
    shares = (
        f"{'+'.join(name_for(one.job, job) for job in part.jobs)} "
        f"{1 / part.slowdown if part.slowdown else 0:.2f}"
        for part in parts
    )
    return ", ".join(shares) or None


def _exit(one: JobSummary) -> str | None:
    if one.unfinished is None or one.partial or not one.came_to_mpi:
        return None
    return f"{one.unfinished} died" if one.unfinished else "ok"


_COLUMNS: dict[str, Column[JobSummary]] = {
    "job": Column(Kind("<", _name, lambda one: one.name), lambda one: one),
    "key": Column(TEXT, lambda one: one.job),
    "user": Column(TEXT, lambda one: find_user_name(one.uid) or str(one.uid)),
    "uid": Column(COUNT, lambda one: one.uid),
    "ranks": Column(COUNT, lambda one: one.tasks),
    "nodes": Column(COUNT, lambda one: len(one.nodes)),
    "nodehours": Column(HOURS, lambda one: one.node_s),
    "changes": Column(COUNT, lambda one: one.changes),
    "nodelist": Column(TEXT, lambda one: " ".join(one.nodes)),
    "began": Column(DATE, lambda one: one.began_wall_ns),
    "ended": Column(DATE, lambda one: one.ended_wall_ns),
    "response": Column(SECONDS, lambda one: one.response_s),
    "expected": Column(SECONDS, lambda one: one.expected_s),
    "ran": Column(SECONDS, lambda one: one.scheduled_s),
    "unscheduled": Column(SECONDS, lambda one: one.unscheduled_s),
    "suspended": Column(SECONDS, lambda one: one.suspended_s),
    "detached": Column(SECONDS, lambda one: one.released_s),
    "together": Column(SHARE, lambda one: one.together),
    "alone": Column(SECONDS, lambda one: one.alone_s, "alone~"),
    "cpu": Column(SECONDS, lambda one: one.cpu_s, "CPU"),
    "switches": Column(COUNT, lambda one: one.switches),
    "granted": Column(COUNT, lambda one: one.granted),
    "refused": Column(COUNT, lambda one: sum(one.refused.values())),
    "trapped": Column(COUNT, lambda one: one.trapped),
    "exit": Column(COUNT, _exit),
    "startup": Column(SECONDS, lambda one: one.began_after_s),
    "waits": Column(SECONDS, lambda one: one.filling and one.filling.waits_s),
    "filled": Column(SHARE, _filled),
    "filledby": Column(TEXT, _filled_by),
    "fills": Column(TEXT, _fills),
    "label": Column(TEXT, _label),
    "limit": Column(TEXT, _limit),
    "beside": Column(TEXT, _beside),
    "rested": Column(SECONDS, lambda one: one.sharing and one.sharing.rested_s),
    "gaveway": Column(SECONDS, lambda one: one.sharing and one.sharing.gave_way_s),
}
#: The words of sacct for the same, and the old word for ``unscheduled``. (The JSON's
#: waited_s is another time: that of the ranks in calls that wait.)
_ALIASES = {
    **{"jobname": "job", "jobid": "key", "ntasks": "ranks", "nnodes": "nodes"},
    **{"start": "began", "end": "ended", "elapsed": "response", "scheduled": "ran"},
    **{"totalcpu": "cpu", "waited": "unscheduled"},
}
HISTORY = Columns("cosched history", _COLUMNS, _ALIASES, cut="job")
