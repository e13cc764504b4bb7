"""``cosched why``: explains why a job runs or does not."""

from __future__ import annotations

import json
import math
import os
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from cosched.cli.declared import Command, argument, command, option
from cosched.cli.jobs.elsewhere import ask_elsewhere, elsewhere_option, way_to
from cosched.cli.options import (
    asked_run_dir_option,
    complete_domain_jobs,
    complete_jobs,
    json_option,
    nodes_option,
)
from cosched.cluster.answers import ChangeInfo, JobInfo
from cosched.core.bounds import JOB_MOST
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.node.messages import Cause
from cosched.core.units import NS_PER_S, parse_duration
from cosched.launch.environment import name_on_nodes
from cosched.observe.filling import of_live
from cosched.observe.reach.on_nodes import merged
from cosched.observe.reach.ways import Way
from cosched.observe.shared_nodes import of_live as sharing_of_live
from cosched.observe.why.why import Asker, Story, nodes_with_stories, stories
from cosched.rundir.paths import NodePaths

WIDTH = 79


def _complete(
    ctx: click.Context, param: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offers the names of jobs on the nodes and the numbers of jobs of the domain."""
    return [
        *complete_jobs(ctx, param, begun),
        *complete_domain_jobs(ctx, param, begun),
    ]


@command("why")
class Why(Command):
    """Explain why a job runs or does not: now, and at each recent switch and refusal.

    JOB is a job's name, or UID.NAME. Only the job's owner and root may ask. The daemons
    remember their last 4096 events. Older ones come from the traces, if you may read
    them.

    A number that is not a job's name is a job of the domain. Then the command also prints
    its place in the queue, or its nodes. For a malleable job it prints each change of its
    size: why the queue ordered it, how long the job stood still, and how much longer an
    iteration takes since, if two sizes were measured.

    \b
    Examples:
      cosched why lu
      cosched why lu --node lab1 --since 10m
      cosched why 1000.lu --json
      cosched why 12
    """

    job: str = argument(shell_complete=_complete)
    run_dir: Path = asked_run_dir_option()
    nodes: tuple[str, ...] = nodes_option()
    hosts: tuple[str, ...] = elsewhere_option()
    since: str = option(default="1m", metavar="TIME", help="How far back: 30s, 5m, 2h.")
    last: int = option(
        type=click.IntRange(min=1),
        default=20,
        metavar="N",
        help="At most the last N changes on each node; --json has all.",
    )
    as_json: bool = json_option()

    def run(self) -> None:
        job, run_dir, nodes = self.job, self.run_dir, self.nodes
        way = None if nodes else way_to(job, self.hosts, run_dir)
        if way is not None:
            words = ["why", job, "--since", self.since]
            _explain_elsewhere(way, words, self.last, self.as_json)
            return
        places = [NodePaths(run_dir, node) for node in nodes] or nodes_with_stories(run_dir)
        since_ns = time.time_ns() - parse_duration(self.since, "--since")
        asker = Asker(job, os.geteuid(), since_ns)
        try:
            found = stories(places, asker)
        except CoschedError:
            source = click.get_current_context().get_parameter_source("run_dir")
            named = source is ParameterSource.COMMANDLINE
            in_domain = None if nodes else _job_of_domain(job, run_dir if named else None)
            if in_domain is None:
                raise
            if self.as_json:
                click.echo(json.dumps(in_domain))
            else:
                click.echo(_text_in_domain(in_domain, places, asker, self.last))
            return
        if self.as_json:
            click.echo(
                json.dumps({"nodes": [document(story) for story in found]}, indent=2)
            )
        else:
            click.echo(_texts(found, asker, self.last))


def _explain_elsewhere(way: Way, words: list[str], last: int, as_json: bool) -> None:
    """Prints the stories of all nodes of the way."""
    found = merged(ask_elsewhere(way, words), "nodes")
    if as_json:
        click.echo(json.dumps({"nodes": found}, indent=2))
        return
    click.echo("\n\n".join(story_text(story, last, in_all=True) for story in found))


def _text_in_domain(
    job: JobInfo, places: Sequence[NodePaths], asker: Asker, last: int
) -> str:
    """Returns the job's line in its domain, and its story on nodes that coschedule it."""
    line = "\n".join([f"job {job['job']}: {job['why']}", *_changes(job["changes"], last)])
    on_nodes = replace(asker, name=name_on_nodes(job["name"], job["job"]))
    try:
        return f"{line}\n\n{_texts(stories(places, on_nodes), on_nodes, last)}"
    except CoschedError:  # no node here coschedules it
        return line


def _changes(changes: Sequence[ChangeInfo], last: int) -> list[str]:
    """Returns the last changes of a job's size, within 80 columns."""
    lines: list[str] = []
    if len(changes) > last:
        lines.append(
            f"  ({len(changes) - last} earlier changes: --last {len(changes)}, or --json)"
        )
    for change in changes[-last:]:
        at_ns = change["ended_ns"] or change["ordered_ns"]
        first = f"  {_clock(at_ns / NS_PER_S)}  "
        lines += _wrapped(_change_text(change), first, " " * len(first))
    return lines


def _change_text(change: ChangeInfo) -> str:
    sizes = f"{change['before']} to {change['after']} nodes"
    if change["refused"]:
        return f"kept {change['before']} nodes: {change['refused']} ({change['reason']})"
    if change["ended_ns"] is None:
        return f"is to change from {sizes}: {change['reason']}"
    costs = f"it stood still for {change['stood_s']:.2f} s"
    if change["slower"] is not None:
        more, share = change["slower"] > 0, abs(change["slower"])
        costs += f", and an iteration takes {share:.0%} {'longer' if more else 'less'}"
    return f"{change['reason']} ({sizes}; {costs})"


def _texts(found: Sequence[Story], asker: Asker, last: int) -> str:
    since_s = asker.since_wall_ns / NS_PER_S
    return "\n\n".join(
        story_text(document(story), last, since_s, in_all=True) for story in found
    )


def _job_of_domain(job: str, run_dir: Path | None) -> JobInfo | None:
    """Returns a job of the domain by its number; None without a domain or such a job."""
    from cosched.cli.connection import patient
    from cosched.jobs.client import Client

    if not is_whole(job, 1, JOB_MOST):
        return None
    try:
        with Client.connect(run_dir, patience=patient()) as client:
            return client.job(parse_integer(job, "job", 1, JOB_MOST))
    except CoschedError:
        return None


def story_text(
    story: Mapping[str, Any],
    last: int,
    since_s: float = math.inf,
    *,
    in_all: bool = False,
) -> str:
    """Returns a job's last changes on one node, within 80 columns, from its ``document``.

    since_s: the earliest time that the user asked for, since 1970, by the node's clock.
    in_all: also how often a job that runs had the CPUs so far, how soon it began, how
    waits were filled, and what was seen beside other jobs.
    """
    notes, reaches_back_to_s = story["notes"], story["reaches_back_to_s"]
    lines = _wrapped(f"{story['job']} on {story['node']}: {story['now']}", "", "  ")
    if in_all and story["live"] is not None:
        live = story["live"]
        for text in (_so_far(live), *of_live(live), *sharing_of_live(live)):
            lines += _wrapped(text, "  ", "    ")
    if reaches_back_to_s > since_s and not _begins(notes):
        lines.append(f"  nothing is recorded from before {_clock(reaches_back_to_s)}")
    shown = notes[-last:]
    omitted = len(notes) - len(shown)
    if omitted:
        lines.append(f"  ({omitted} earlier changes: --last {len(notes)}, or --json)")
    for note in shown:
        times = f" ({note['times']} times)" if note["times"] > 1 else ""
        first = f"  {_clock(note['wall_ns'] / NS_PER_S)}  "
        lines += _wrapped(note["text"] + times, first, " " * len(first))
    return "\n".join(lines)


def _so_far(job: Mapping[str, Any]) -> str:
    """Returns the job's counts in one sentence."""
    refused = {reason: n for reason, n in job["refused"].items() if n}
    reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(refused.items()))
    times = "once" if job["switches"] == 1 else f"{job['switches']} times"
    return (
        f"so far: scheduled {times}, {job['granted']} of them by a message, for "
        f"{job['scheduled_s']:.1f} s in all; {sum(refused.values())} requests refused"
        + (f" ({reasons})" if reasons else "")
    )


def _begins(notes: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether the notes begin with the job's start."""
    return any(
        note["why"] == Cause.FIRST.value and not note["scheduled"] for note in notes[:1]
    )


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)


def _clock(wall_s: float) -> str:
    moment = datetime.fromtimestamp(wall_s).astimezone()
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"


def document(story: Story) -> dict[str, Any]:
    """Returns a job's story on one node as JSON fields."""
    return {
        "node": story.node,
        "job": story.job,
        "now": story.standing,
        "live": story.live,
        "reaches_back_to_s": story.reaches_back_to_wall_ns / NS_PER_S,
        "notes": [
            {**asdict(change.note), "times": change.times, "text": change.text}
            for change in story.changes
        ],
    }
