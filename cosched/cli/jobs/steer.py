"""What ``cosched suspend``, ``resume``, ``raise`` and ``release`` have in common."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from cosched.cli.job_names import complete_jobs
from cosched.cli.options import (
    EXIT_FAILURE,
    asked_run_dir_option,
    json_option,
    nodes_option,
)
from cosched.observe.steering import Steered, steer

_WORDS = {
    "suspended": "suspended",
    "coscheduled": "coscheduled like any other",
    "raised": "alone on its CPUs",
    "released": "not coscheduled, at the kernel's normal shares",
}


def steering_command(op: str, help_text: str) -> click.Command:
    """The command that sends ``op`` to the nodes where a job is."""

    @click.command(op, help=help_text)
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
    click.echo(f"node {one.node}: job {one.job}: {already}{_WORDS[one.mode]}")
