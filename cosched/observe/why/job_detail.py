"""Describes a job on all its nodes: the text below the answer of ``cosched why``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cosched.core.counting import counted
from cosched.core.node.division import format_cpus
from cosched.core.units import NS_PER_S
from cosched.observe.filling import of_live
from cosched.observe.shared_nodes import of_live as sharing_of_live
from cosched.observe.status import refusals, state_word
from cosched.tables import wrapped

Status = Mapping[str, Any]

#: The columns of a terminal inside the frame of ``cosched top``.
_WIDTH = 76


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
    head = (
        f"{status['node']}: {state_word(state)}, share {job['share_percent'] or 0}%, "
        f"scheduled for {job['scheduled_s']:.1f}s{cpu}"
    )
    texts = [
        f"ranks {ranks}; carrier {job['carrier']}; CPUs {format_cpus(job['cpus'])}",
        f"{counted(job['switches'], 'time')} scheduled, {job['granted']} of them by a "
        "message",
    ]
    if any(job["refused"].values()):
        texts.append(f"refused: {refusals(job)}")
    total: Counter[str] = Counter()
    for task in job["tasks"]:
        total.update(task["counters"])
    texts.append(
        f"messages: {total['sent']} sent, {total['received']} received, "
        f"{total['trapped']} trapped; {total['waited_ns'] / NS_PER_S:.1f}s waited"
    )
    texts += [*of_live(job), *sharing_of_live(job)]
    texts.append(f"beside {', '.join(rivals)}" if rivals else "has its CPUs to itself")
    others = [
        f"{other['name']} (CPUs {format_cpus(other['cpus'])})"
        for other in status["jobs"]
        if other["key"] != job["key"] and not set(other["cpus"]) & set(job["cpus"])
    ]
    if others:
        texts.append(f"on the node's other CPUs: {', '.join(others)}")
    lines = wrapped(head, 0, _WIDTH)
    for text in texts:
        lines += wrapped(text, 2, _WIDTH)
    return "\n".join(lines)
