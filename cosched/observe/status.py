"""Gathers the status of the nodes on this machine, and renders it as text."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cosched.core.errors import NoDaemon
from cosched.node.sockets.client import nodes_in, request
from cosched.shm.paths import NodePaths, default_run_dir
from cosched.shm.userdirs import SYSTEM_RUN_DIR

Status = dict[str, Any]


def gather(run_dir: Path, nodes: Sequence[str] = ()) -> list[Status]:
    """Returns the status of the named nodes, or of all that are up in the run directory.

    Raises NoDaemon for a named node that is not up.
    """
    if nodes:
        return [request(NodePaths(run_dir, node), "status") for node in nodes]
    found = []
    for paths in nodes_in(run_dir):
        try:
            found.append(request(paths, "status"))
        except NoDaemon:
            continue  # the socket of a daemon that was killed
    return found


def no_daemons(run_dir: Path) -> NoDaemon:
    """Returns the error for a run directory without daemons.

    Root's daemons serve all users of a compute node. A user whose own directory is asked
    has found none of them, so the user may be on a login node.
    """
    euid = os.geteuid()
    if run_dir != default_run_dir({}, euid) or run_dir == SYSTEM_RUN_DIR:
        return NoDaemon(f"no daemons are up in {run_dir}; start them: cosched up")
    return NoDaemon(
        f"no daemon here, neither in {SYSTEM_RUN_DIR} nor in {run_dir}; is this a compute "
        "node? 'cosched up' starts daemons for your own jobs"
    )


def render(statuses: Iterable[Status]) -> str:
    """Text of at most 80 columns."""
    return "\n\n".join(_node_text(status) for status in statuses)


def _node_text(status: Status) -> str:
    settings, classes, timer = (
        status["settings"],
        status["class_scheduler"],
        status["timer"],
    )
    align = "aligned" if settings["align"] else "free"
    lines = [
        f"{status['node']}: slice {settings['slice']} ({align}), "
        f"gmet {settings['gmet']}, {classes['name']} {classes['mode']}",
        f"  daemons: pid {status['pid']} and {timer['pid'] or '-'}, {status['priority']}, "
        f"up {_span(status['uptime_s'])}, cpu {status['daemon_cpu_s']:.2f}s",
    ]
    for warning in settings["warnings"]:
        lines += textwrap.wrap(
            f"warning: {warning}", 78, initial_indent="  ", subsequent_indent="    "
        )
    for job in status["waiting"]:
        lines += textwrap.wrap(
            f"{job['reason']} (since {_span(job['waited_s'])})",
            78,
            initial_indent="  ",
            subsequent_indent="    ",
        )
    if not status["jobs"]:
        return "\n".join([*lines, "  no jobs"])
    lines.append(
        f"  {'job':<26} {'tasks':>5} {'state':<9} {'share':>5} {'scheduled':>9} "
        f"{'switches':>8} {'granted':>7}"
    )
    for job in status["jobs"]:
        share = "-" if job["share_percent"] is None else f"{job['share_percent']}%"
        lines.append(
            f"  {_cut(job['name'], 26):<26} {len(job['tasks']):>5} {job['state']:<9} "
            f"{share:>5} {job['scheduled_s']:>8.1f}s "
            f"{job['switches']:>8} {job['granted']:>7}"
        )
        refused = {name: n for name, n in job["refused"].items() if n}
        if refused:
            reasons = ", ".join(f"{name} {n}" for name, n in sorted(refused.items()))
            lines.append(_cut(f"    refused: {reasons}", 80))
    return "\n".join(lines)


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"
