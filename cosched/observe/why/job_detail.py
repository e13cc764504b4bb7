"""Describes a job on all its nodes: the text below the answer of ``cosched why``."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cosched.core.counting import counted
from cosched.observe.filling import of_live
from cosched.observe.shared_nodes import of_live as sharing_of_live
from cosched.observe.status import state_word

Status = Mapping[str, Any]


def detail(statuses: Sequence[Status], name: str, uid: int) -> str:
    """Returns one paragraph for each node, within 76 columns."""
    found = [
        _on_node(status, job)
        for status in statuses
        for job in status["jobs"]
        if (job["name"], job["uid"]) == (name, uid)
    ]
    return "\n\n".join(found) or f"job {name} has ended"


def _on_node(status: Status, job: Status) -> str:
    state = job.get("state", "on" if job["scheduled"] else "off")
    rivals = [
        other["name"]
        for other in status["jobs"]
        if other["key"] != job["key"] and set(other["cpus"]) & set(job["cpus"])
    ]
    ranks = ", ".join(str(task["rank"]) for task in job["tasks"])
    cpu = "" if job["cpu_s"] is None else f", {job['cpu_s']:.1f}s CPU"
    lines = [
        f"{status['node']}: {state_word(state)}, share {job['share_percent'] or 0}%, "
        f"scheduled for {job['scheduled_s']:.1f}s{cpu}",
        f"  ranks {ranks}; carrier {job['carrier']}; CPUs "
        f"{','.join(map(str, job['cpus']))}",
        f"  {counted(job['switches'], 'time')} scheduled, {job['granted']} of them by a "
        "message",
    ]
    refused = {reason: n for reason, n in job["refused"].items() if n}
    if refused:
        reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(refused.items()))
        lines.append(f"  refused: {reasons}")
    total: Counter[str] = Counter()
    for task in job["tasks"]:
        total.update(task["counters"])
    lines.append(
        f"  messages: {total['sent']} sent, {total['received']} received, "
        f"{total['trapped']} trapped; {total['waited_ns'] / 1e9:.1f}s waited"
    )
    for text in (*of_live(job), *sharing_of_live(job)):
        lines += textwrap.wrap(text, 76, initial_indent="  ", subsequent_indent="    ")
    lines.append(f"  beside {', '.join(rivals)}" if rivals else "  has its CPUs to itself")
    others = [
        f"{other['name']} (CPUs {','.join(map(str, other['cpus']))})"
        for other in status["jobs"]
        if other["key"] != job["key"] and not set(other["cpus"]) & set(job["cpus"])
    ]
    if others:
        text = f"on the node's other CPUs: {', '.join(others)}"
        lines += textwrap.wrap(text, 76, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)
