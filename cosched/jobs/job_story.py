"""Explains a job of a domain: its place in the queue, and its story on its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cosched.cluster.job_texts import label_of
from cosched.core.errors import CoschedError
from cosched.launch.environment import name_on_nodes
from cosched.observe.why.story_text import size_lines, stories_text
from cosched.observe.why.why import Asker, stories
from cosched.rundir.paths import NodePaths

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo


def job_story(job: JobInfo, places: Sequence[NodePaths], asker: Asker, last: int) -> str:
    """Returns the job's line in its domain, and its story on nodes that coschedule it.

    job: as ``Client.job`` returns it. places: the nodes of this machine. last: at most so
    many changes on each node.
    """
    line = "\n".join(
        [f"job {label_of(job)}: {job['why']}", *size_lines(job["changes"], last)]
    )
    on_nodes = replace(asker, name=name_on_nodes(job["name"], job["job"]))
    try:
        found = stories(places, on_nodes)
    except CoschedError:  # no node here coschedules it
        return line
    return f"{line}\n\n{stories_text(found, on_nodes, last)}"
