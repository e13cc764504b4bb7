"""Gathers the status of the nodes on this machine, and renders it as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosched.core.config.suggestions import suggest
from cosched.core.errors import CoschedError, NoDaemon
from cosched.node.sockets.client import ask_each, request
from cosched.rundir.directories import SYSTEM_RUN_DIR
from cosched.rundir.paths import default_run_dir
from cosched.tables import table, wrapped

Status = dict[str, Any]

_COLUMNS = ("job", "tasks", "state", "share", "scheduled", "switches", "granted")


def state_word(state: str) -> str:
    """Returns the word that people read for a job's state or mode in the JSON fields."""
    return {"raised": "boosted", "released": "detached"}.get(state, state)


def gather(run_dir: Path, nodes: Sequence[str] = ()) -> list[Status]:
    """Returns the status of the named nodes, or of all that are up in the run directory.

    Raises NoDaemon for a named node that is not up.
    """
    found = ask_each(run_dir, nodes, lambda paths: request(paths, "status"))
    return [status for _, status in found]


def nodes_of_job(statuses: Sequence[Status], job: str) -> list[Status]:
    """Returns the nodes that have the job, with its rows alone. ``job``: a name or a key.
    Raises CoschedError if no node has it."""
    found = []
    for status in statuses:
        rows = {
            part: [one for one in status[part] if job in (one["name"], one["key"])]
            for part in ("jobs", "waiting")
        }
        if any(rows.values()):
            found.append({**status, **rows})
    if not found:
        where = ", ".join(status["node"] for status in statuses)
        names = {
            one["name"] for each in statuses for one in (*each["jobs"], *each["waiting"])
        }
        hint = suggest(job, sorted(names)) or "; see: cosched status"
        raise CoschedError(f"no job '{job}' on {where}{hint}")
    return found


def no_daemons(run_dir: Path, euid: int) -> NoDaemon:
    """Returns the error for a run directory without daemons.

    Root's daemons serve all users of a compute node. A user whose own directory is asked
    has found none of them, so the user may be on a login node.
    """
    if run_dir != default_run_dir({}, euid) or run_dir == SYSTEM_RUN_DIR:
        where = "" if run_dir == SYSTEM_RUN_DIR else f" --run-dir {run_dir}"
        return NoDaemon(f"no daemons are up in {run_dir}; start them: cosched up{where}")
    return NoDaemon(
        f"no daemon here, neither in {SYSTEM_RUN_DIR} nor in {run_dir}; those of "
        "cosched-run end with its last job, and those of 'cosched up' stay; is this a "
        "compute node?"
    )


def render(statuses: Iterable[Status]) -> str:
    """Text of at most 80 columns."""
    return "\n\n".join(_node_text(status) for status in statuses)


def _node_text(status: Status) -> str:
    lines = _head(status)
    texts = [f"warning: {warning}" for warning in status["settings"]["warnings"]]
    texts += [
        f"{job['reason']} (since {_span(job['waited_s'])})" for job in status["waiting"]
    ]
    for text in texts:
        lines += wrapped(text, 2)
    jobs = status["jobs"]
    if not jobs:
        return "\n".join([*lines, "  no jobs"])
    head, *rows = table(_COLUMNS, map(_row, jobs), "<><>>>>", indent=2)
    lines.append(head)
    for row, job in zip(rows, jobs, strict=True):
        lines.append(row)
        texts = _class_texts(job["class"])
        if any(job["refused"].values()):
            texts.append(f"refused: {refusals(job)}")
        for text in texts:
            lines += wrapped(text, 4)
    return "\n".join(lines)


def refusals(job: Mapping[str, Any]) -> str:
    """Returns how many requests of a job were refused for which reason."""
    return ", ".join(f"{reason} {n}" for reason, n in sorted(job["refused"].items()) if n)


def _class_texts(place: Mapping[str, Any]) -> list[str]:
    """Returns how a job's tasks are steered, in which groups, and why not otherwise."""
    ways = " and ".join(place["ways"]) or "none: its tasks run at the kernel's shares"
    groups = place["groups"]
    more = f" and {len(groups) - 1} more" if len(groups) > 1 else ""
    texts = [f"class: {ways}{', ' + groups[0] if groups else ''}{more}"]
    if place["ways"] != ["in place"] and place["ways"] != ["moved"] and place["reason"]:
        texts.append(f"since {place['reason']}")
    if place["bounded"]:
        texts.append(f"a quota bounds it while it waits, since {place['bounded']}")
    return texts


def _head(status: Status) -> list[str]:
    settings, classes = status["settings"], status["class_scheduler"]
    align = "aligned" if settings["align"] else "free"
    timer_pid = status["timer"]["pid"] or "-"
    return [
        *wrapped(
            f"{status['node']}: slice {settings['slice']} ({align}), "
            f"gmet {settings['gmet']}, {classes['name']} {classes['mode']}"
        ),
        *wrapped(
            f"daemons: pid {status['pid']} and {timer_pid}, {status['priority']}, "
            f"up {_span(status['uptime_s'])}, cpu {status['daemon_cpu_s']:.2f}s",
            2,
        ),
    ]


def _row(job: Mapping[str, Any]) -> tuple[str, ...]:
    share = "-" if job["share_percent"] is None else f"{job['share_percent']}%"
    return (
        job["name"],
        str(len(job["tasks"])),
        state_word(job["state"]),
        share,
        f"{job['scheduled_s']:.1f}s",
        str(job["switches"]),
        str(job["granted"]),
    )


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
