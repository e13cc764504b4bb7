"""Completes the names of jobs that run or wait on the nodes that are up."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from cosched.core.errors import CoschedError
from cosched.observe.status import gather
from cosched.shm.userdirs import run_dir_to_ask


def complete_jobs(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The jobs of the run directory that the command line names so far, or the usual one;
    none where their daemons cannot be asked."""
    try:
        run_dir = ctx.params.get("run_dir") or run_dir_to_ask(os.environ, os.geteuid())
        statuses = gather(Path(run_dir))
    except CoschedError:
        return []  # a shell has no place for the reason; the command itself will tell it
    names = {
        job["name"]
        for status in statuses
        for part in ("jobs", "waiting")
        for job in status[part]
    }
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
