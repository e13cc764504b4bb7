"""``cosched why``: why a job runs or does not."""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from cosched.cli.options import json_option, run_dir_option
from cosched.cli.spans import parse_span
from cosched.core.messages import Cause
from cosched.core.units import NS_PER_S
from cosched.observe.reasons import Told
from cosched.observe.why import Asker, Story, nodes_with_stories, stories
from cosched.shm.paths import NodePaths

WIDTH = 79


@click.command("why")
@click.argument("job")
@run_dir_option
@click.option("--node", "nodes", multiple=True, help="Only this node (may be repeated).")
@click.option(
    "--since",
    default="1m",
    show_default=True,
    metavar="TIME",
    help="How far back: 30s, 5m, 2h.",
)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="At most the last N things for each node; --json has all.",
)
@json_option
def command(
    job: str,
    run_dir: Path,
    nodes: tuple[str, ...],
    since: str,
    last: int,
    as_json: bool,
) -> None:
    """Say why a job runs or does not: now, and each switch and refusal of late.

    JOB is its name, or UID.NAME. Only its owner and root may ask. The daemons remember
    their last 4096 events; what is older comes from their traces, if you may read them.

    \b
    Examples:
      cosched why lu
      cosched why lu --node lab1 --since 10m
      cosched why 1000.lu --json
    """
    places = [NodePaths(run_dir, node) for node in nodes] or nodes_with_stories(run_dir)
    asker = Asker(job, os.geteuid(), time.time_ns() - parse_span(since, "--since"))
    found = stories(places, asker)
    if as_json:
        click.echo(json.dumps({"nodes": [_document(story) for story in found]}, indent=2))
    else:
        click.echo("\n\n".join(story_text(story, asker, last) for story in found))


def story_text(story: Story, asker: Asker, last: int) -> str:
    """A job on one node, and the last things that happened to it, within 80 columns."""
    lines = _wrapped(f"{story.job} on {story.node}: {_now(story)}", "", "  ")
    if story.reaches_back_to_wall_ns > asker.since_wall_ns and not _begins(story):
        began = _clock(story.reaches_back_to_wall_ns)
        lines.append(f"  nothing is known from before {began}")
    shown = story.told[-last:]
    omitted = len(story.told) - len(shown)
    if omitted:
        lines.append(f"  ({omitted} earlier; --last, --json)")
    for told in shown:
        times = f" ({told.times} times)" if told.times > 1 else ""
        first = f"  {_clock(told.note.wall_ns)}  "
        lines += _wrapped(told.text + times, first, " " * len(first))
    return "\n".join(lines)


def _begins(story: Story) -> bool:
    """Whether it tells the job from its beginning."""
    first = story.told[0].note if story.told else None
    return first is not None and first.why == Cause.FIRST.value and not first.scheduled


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)


def _now(story: Story) -> str:
    live, status = story.live, story.status
    if status is None:
        return "no daemon is up; this is from its trace"
    if live is None:
        return "ended"
    change = _last_change(story.told)
    span = "" if change is None else f" for {(status['wall_ns'] - change) / NS_PER_S:.2f} s"
    if live["scheduled"]:
        waiting = [job for job in _rivals(story) if not job["scheduled"]]
        if not waiting:
            return f"runs{span}; nothing waits for its CPUs"
        return f"runs{span}; {_names(waiting)} wait{_s(waiting)}; {_slice(status)}"
    running = [job for job in _rivals(story) if job["scheduled"]]
    if not running:
        return f"does not run{span}"
    return f"waits{span}: {_names(running)} run{_s(running)}; {_slice(status)}"


def _rivals(story: Story) -> list[dict[str, Any]]:
    assert story.live is not None
    assert story.status is not None
    cpus = set(story.live["cpus"])
    return [
        job
        for job in story.status["jobs"]
        if job["key"] != story.job and cpus & set(job["cpus"])
    ]


def _names(jobs: Sequence[dict[str, Any]]) -> str:
    return ", ".join(job["name"] for job in jobs)


def _s(jobs: Sequence[dict[str, Any]]) -> str:
    """The verb's ending."""
    return "s" if len(jobs) == 1 else ""


def _slice(status: Any) -> str:
    slice_s = status["settings"]["slice_s"]
    if not status["settings"]["align"]:
        return f"slices last {slice_s:g} s"
    left_s = slice_s - status["wall_ns"] / NS_PER_S % slice_s
    return f"the slice ends in {left_s:.2f} s"


def _last_change(told: Sequence[Told]) -> int | None:
    """When the status last changed."""
    live: bool | None = None
    since: int | None = None
    for item in told:
        if item.note.scheduled is not None and item.note.scheduled is not live:
            live, since = item.note.scheduled, item.note.wall_ns
    return since


def _clock(wall_ns: int) -> str:
    moment = datetime.fromtimestamp(wall_ns / NS_PER_S).astimezone()
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"


def _document(story: Story) -> dict[str, Any]:
    return {
        "node": story.node,
        "job": story.job,
        "now": _now(story),
        "live": story.live,
        "reaches_back_to_s": story.reaches_back_to_wall_ns / NS_PER_S,
        "notes": [
            {**asdict(told.note), "times": told.times, "text": told.text}
            for told in story.told
        ],
    }
