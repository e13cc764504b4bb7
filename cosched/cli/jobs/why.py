"""``cosched why``: explains why a job runs or does not."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from pathlib import Path

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
from cosched.cluster.answers import JobInfo, label_of
from cosched.core.arrays import parse_job
from cosched.core.errors import CoschedError
from cosched.core.units import parse_duration
from cosched.observe.reach.on_nodes import merged
from cosched.observe.reach.ways import Way
from cosched.observe.why.story_text import document, stories_text, story_text
from cosched.observe.why.why import Asker, nodes_with_stories, stories
from cosched.rundir.paths import NodePaths
from cosched.tables import WIDTH


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
    iteration takes since, if two sizes were measured. 12_3 is task 3 of array 12. Of a
    whole array it prints how many tasks are in which state, and why the first one waits.

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
            if isinstance(in_domain, str):
                _print_array(job, in_domain, as_json=self.as_json)
            elif self.as_json:
                click.echo(json.dumps(in_domain))
            else:
                from cosched.jobs.job_story import job_story

                click.echo(_fitted(job_story(in_domain, places, asker, self.last)))
            return
        if self.as_json:
            click.echo(
                json.dumps({"nodes": [document(story) for story in found]}, indent=2)
            )
        else:
            click.echo(stories_text(found, asker, self.last))


def _fitted(text: str) -> str:
    """Returns a text whose lines fit a terminal; for a program each line stays whole."""
    if not sys.stdout.isatty():
        return text
    lines = text.splitlines()
    return "\n".join(textwrap.fill(each, WIDTH, subsequent_indent="  ") for each in lines)


def _explain_elsewhere(way: Way, words: list[str], last: int, as_json: bool) -> None:
    """Prints the stories of all nodes of the way."""
    found = merged(ask_elsewhere(way, words), "nodes")
    if as_json:
        click.echo(json.dumps({"nodes": found}, indent=2))
        return
    click.echo("\n\n".join(story_text(story, last, in_all=True) for story in found))


def _job_of_domain(job: str, run_dir: Path | None) -> JobInfo | str | None:
    """Returns a job of the domain by its number, or lines about several tasks of an array;
    None without a domain or such a job."""
    from cosched.cli.connection import patient
    from cosched.jobs.client import Client

    try:
        name = parse_job(job, "job")
        with Client.connect_to_running(run_dir, patience=patient()) as client:
            tasks, line = client.tasks(name)
            if len(tasks) == 1:
                return client.job(tasks[0]["job"])
            waiting = next((task for task in tasks if task["state"] == "queued"), None)
            if waiting is None:
                return line
            first = client.job(waiting["job"])
            return f"{line}\njob {label_of(first)}: {first['why']}"
    except CoschedError:
        return None


def _print_array(job: str, lines: str, *, as_json: bool) -> None:
    """Prints lines about an array."""
    shown = _fitted(f"job {job}: {lines}")
    click.echo(json.dumps({"job": job, "why": lines}) if as_json else shown)
