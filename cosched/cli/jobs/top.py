"""``cosched top``: shows nodes and jobs, live."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import click

from cosched.cli.declared import Command, command, flag, option
from cosched.cli.options import asked_run_dir_option, json_option, nodes_option
from cosched.cli.values import Number
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.observe.top.model import JobRow, view
from cosched.observe.top.recent import Trends
from cosched.observe.top.sampler import Sampler, sample
from cosched.observe.top.text import page, plain
from cosched.observe.why.job_detail import detail
from cosched.observe.why.story_text import document, story_text
from cosched.observe.why.why import Asker, stories
from cosched.rundir.paths import NodePaths

INTERVAL_LEAST_S = 0.2
INTERVAL_MOST_S = 3600.0
#: How far back the screen's answer to why goes, and how many changes it shows at most.
WHY_SINCE_NS = 60 * NS_PER_S
WHY_LAST = 10


@command("top")
class Top(Command):
    """Show the nodes of this machine and their jobs, live.

    For each job: its share and the share that it is due, useful and waiting time, switches
    and refused requests a second, and how well its nodes agree.

    \b
    Keys:
      s, r       sort by the next column; reverse the order
      p, space   pause
      enter      why the job under the cursor runs or does not
      q          quit

    \b
    Examples:
      cosched top
      cosched top --once
      cosched top --once --json --interval 5
    """

    run_dir: Path = asked_run_dir_option()
    nodes: tuple[str, ...] = nodes_option()
    interval: float = option(
        type=Number(INTERVAL_LEAST_S, INTERVAL_MOST_S),
        default=2.0,
        metavar="SECONDS",
        help="Time between two samples.",
    )
    once: bool = flag(help="Print one interval as text and end.")
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        if self.as_json and not self.once:
            raise click.UsageError("--json needs --once.")

    def run(self) -> None:
        run_dir, nodes = self.run_dir, self.nodes
        if self.once:
            before = sample(run_dir, nodes)
            time.sleep(self.interval)  # the interval that is measured
            seen = view(before, sample(run_dir, nodes))
            trends = Trends()
            trends.add(seen)
            text = json.dumps(plain(seen), indent=2) if self.as_json else page(seen, trends)
            click.echo(text.rstrip())
            return
        if not sys.stdout.isatty():
            raise CoschedError("stdout is not a terminal; use --once")
        with Sampler(run_dir, nodes) as sampler:
            sampler.look()  # fails in one line if no daemon is up
            from cosched.observe.top.screen import TopApp

            TopApp(sampler.look, self.interval, partial(why_text, run_dir)).run()


def why_text(run_dir: Path, job: JobRow) -> str:
    """Returns the job's figures and, if the user may ask, the answer of ``cosched why``."""
    now = detail(sample(run_dir, job.nodes).statuses, job.name, job.uid)
    asker = Asker(job.key, os.geteuid(), time.time_ns() - WHY_SINCE_NS)
    try:
        told = stories([NodePaths(run_dir, node) for node in job.nodes], asker)
    except CoschedError as error:
        return f"{now}\n\n{error}"
    since_s = asker.since_wall_ns / NS_PER_S
    texts = (story_text(document(story), WHY_LAST, since_s) for story in told)
    return "\n\n".join([*texts, now])
