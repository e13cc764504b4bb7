"""Formats what ``cosched top`` shows: nodes for the screen, and all of it for --once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cosched.core.counting import counted
from cosched.observe.top.job_columns import (
    COLUMNS,
    percent,
    rate,
    sort_jobs,
    sparkline,
)
from cosched.observe.top.model import NodeRow, View
from cosched.observe.top.recent import Trends
from cosched.tables import WIDTH, cell, cut, table


def node_line(node: NodeRow) -> str:
    """Formats a node in at most 80 characters."""
    align = "aligned" if node.align else "free"
    tail = (
        f"slice {node.slice} {align}, gmet {node.gmet}, "
        f"{rate(node.switches_rate)} sw/s, {rate(node.refused_rate)} ref/s, "
        f"cpu {node.daemon_cpu * 100:.1f}%"
    )
    room = max(12, 79 - len(tail))
    running = ", ".join(node.running) or "idle"
    head = f"{cut(node.name, room - 6)}: {running}"
    return cut(f"{cell(head, '<', room)} {tail}", WIDTH)


def summary(seen: View) -> str:
    """Formats the numbers of nodes and jobs, and the agreement, in one line."""
    jobs, nodes = counted(len(seen.jobs), "job"), counted(len(seen.nodes), "node")
    agree = "" if seen.agreement is None else f", nodes agree {percent(seen.agreement)}"
    waiting = sorted({name for node in seen.nodes for name in node.waiting})
    wait = f", {len(waiting)} waiting for memory" if waiting else ""
    return f"{nodes}, {jobs}{wait}{agree}"


def page(seen: View, trends: Trends) -> str:
    """Formats all as plain text, for --once."""
    lines = [summary(seen), *(node_line(node) for node in seen.nodes), ""]
    if seen.jobs:
        jobs = sort_jobs(seen.jobs, 0, backwards=False)
        rows = [
            (*(c.text(job) for c in COLUMNS), sparkline(trends.of(job.key))) for job in jobs
        ]
        titles = [*(c.title for c in COLUMNS), "trend"]
        align = "".join(c.side for c in COLUMNS)
        lines += table(titles, rows, f"{align}<", gap=1)
    else:
        lines.append("no jobs")
    return "\n".join(lines) + "\n"


def plain(seen: View) -> dict[str, Any]:
    """Returns the document of --json: fractions from 0 to 1, rates a second."""
    return asdict(seen)
