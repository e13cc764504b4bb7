"""``cosched suspend``, ``resume``, ``boost`` and ``detach``: an owner's requests."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.options import (
    asked_run_dir_option,
    complete_jobs,
    json_option,
    nodes_option,
)
from cosched.observe.steering import Steered, steer

#: The meaning of each mode for a job.
_MEANING = {
    "suspended": "suspended",
    "coscheduled": "coscheduled like any other",
    "raised": "alone on its CPUs",
    "released": "not coscheduled, at the kernel's normal shares",
}


def _steering_command(name: str, op: str, help_text: str) -> click.Command:
    """Returns the command that sends the request ``op`` to the nodes of a job."""

    @click.command(name, help=help_text)
    @asked_run_dir_option
    @nodes_option
    @json_option
    @click.argument("job", shell_complete=complete_jobs)
    def command(run_dir: Path, nodes: tuple[str, ...], as_json: bool, job: str) -> int:
        done = steer(run_dir, op, job, nodes)
        if as_json:
            click.echo(json.dumps({"nodes": [asdict(one) for one in done]}, indent=2))
        else:
            for one in done:
                _show(one)
        return EXIT_FAILURE if any(one.error for one in done) else 0

    return command


def _show(one: Steered) -> None:
    if one.error is not None:
        click.echo(f"cosched: {one.error}", err=True)
        return
    assert one.mode is not None
    already = "already " if one.before == one.mode else ""
    click.echo(f"node {one.node}: job {one.job}: {already}{_MEANING[one.mode]}")


suspend = _steering_command(
    "suspend",
    "suspend",
    """Stop a job on all its nodes, until 'cosched resume'.

    All its processes stand still and keep their memory. No other job waits for
    them. Only the job's owner and root may do this. If the daemons die, the job
    runs on.

    \b
    Examples:
      cosched suspend solver-x7k2p
      cosched resume solver-x7k2p
    """,
)

resume = _steering_command(
    "resume",
    "resume",
    """Undo suspend, boost or detach: the job is coscheduled like any other.

    Only the job's owner and root may do this.

    \b
    Example:
      cosched resume solver-x7k2p
    """,
)

boost = _steering_command(
    "boost",
    "raise",
    """Run a job alone on its CPUs, at once, until 'cosched resume'.

    Other jobs keep their 1% there. Several boosted jobs take turns. Root may
    always do this. The job's owner may where the operator allows it ('cosched up
    --allow-boost on'), and with private daemons.

    \b
    Examples:
      cosched boost solver-x7k2p
      cosched resume solver-x7k2p
    """,
)

detach = _steering_command(
    "detach",
    "release",
    """Take a job out of coscheduling: it runs on at the kernel's normal shares.

    'cosched resume' takes it back in. Only the job's owner and root may do this.

    \b
    Examples:
      cosched detach solver-x7k2p
      cosched resume solver-x7k2p
    """,
)
