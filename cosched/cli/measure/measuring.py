"""Runs what a command measures: interrupts end it, and a failed run shows its output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from cosched.bench.run.interrupts import interruptible
from cosched.bench.run.processes import RunFailed


@contextmanager
def measuring() -> Iterator[None]:
    """Lets signals end the runs of the block. Prints the last lines of a run that failed,
    and raises its RunFailed."""
    try:
        with interruptible():
            yield
    except RunFailed as error:
        for line in error.failure.output:
            click.echo(f"  | {line}", err=True)
        raise
