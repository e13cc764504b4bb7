"""``cosched why``: explains why a job runs or does not."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from cosched.cli.declared import Command, argument, command, option
from cosched.cli.jobs.elsewhere import ask_elsewhere, elsewhere_option, way_to
from cosched.cli.options import (
    asked_run_dir_option,
    complete_domain_jobs,
    complete_jobs,
    domain_dir,
    json_option,
    nodes_option,
)
from cosched.cli.values import Whole
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

    Another name, or a number, is a job of the domain: as cosched queue prints it, or
    app-12 for job 12. Then the command also prints its place in the queue, or its nodes.
    If several jobs have the name, it prints their numbers. For a malleable job it prints
    each change of its size: why the queue ordered it, how long the job stood still, and how
    much longer an iteration takes since, if two sizes were measured. 12_3 is task 3 of
    array 12. For a whole array it prints how many tasks are in which state, and why the
    first one waits.

    \b
    Examples:
      cosched why lu
      cosched why lu --node lab1 --since 10m
      cosched why 1000.lu --json
      cosched why 12
      cosched why "12_[4-100%10]"
    """

    job: str = argument(shell_complete=_complete)
    run_dir: Path = asked_run_dir_option()
    nodes: tuple[str, ...] = nodes_option()
    hosts: tuple[str, ...] = elsewhere_option()
    since: str = option(default="1m", metavar="TIME", help="How far back: 30s, 5m, 2h.")
    last: int = option(
        type=Whole(min=1),
        default=20,
        metavar="N",
        help="At most the last N changes on each node; --json has all.",
    )
    as_json: bool = json_option()

    def run(self) -> None:
        job, run_dir, nodes = self.job, self.run_dir, self.nodes
        way = way_to(job, self.hosts, run_dir, nodes)
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
            in_domain = None if nodes else self._in_domain(places, asker)
            if in_domain is None:
                raise
            click.echo(in_domain)
            return
        if self.as_json:
            click.echo(
                json.dumps({"nodes": [document(story) for story in found]}, indent=2)
            )
        else:
            click.echo(stories_text(found, asker, self.last))
        if not nodes:
            self._note_namesakes(asker)

    def _in_domain(self, places: Sequence[NodePaths], asker: Asker) -> str | None:
        """Returns what the domain has about the job; None if it does not have it."""
        from cosched.cli.jobs.domain_job import explain_in_domain

        found = explain_in_domain(domain_dir(self.run_dir), places, asker, self.last)
        if found is None:
            return None
        text, document_text = found
        return document_text if self.as_json else _fitted(text)

    def _note_namesakes(self, asker: Asker) -> None:
        from cosched.cli.jobs.domain_job import namesakes

        line = namesakes(domain_dir(self.run_dir), asker)
        if line:
            click.echo(f"cosched why: {line}", err=True)


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
