"""Runs what a command measures: interrupts end it, and a failed run shows its output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cosched.bench.run.interrupts import interruptible
from cosched.bench.run.processes import RunFailed
from cosched.bench.run.site import has_lab
from cosched.bench.run.testbed import LAB_NODES, TestbedOptions
from cosched.bench.workload.file import load_workload
from cosched.cli.declared import option
from cosched.cli.values import Whole

#: The machine of this command, as a node.
HERE = "localhost"


@contextmanager
def measuring(store: Path | None = None) -> Iterator[None]:
    """Lets signals end the runs of the block. Prints the last lines of a run that failed,
    and raises its RunFailed. store: the file that keeps finished runs, which a line names
    after a signal; None: none does."""
    try:
        with interruptible():
            yield
    except KeyboardInterrupt:
        if store is not None and store.exists():
            line = f"{store} has the finished runs: the same command continues"
            click.echo(line, err=True)
        raise
    except RunFailed as error:
        for line in error.failure.output:
            click.echo(f"  | {line}", err=True)
        raise


def lab_nodes_option() -> Any:
    """``--nodes N``: how many nodes of a lab run the workload."""
    return option(
        "--nodes",
        type=Whole(1),
        metavar="N",
        help="Virtual nodes: the first N of the lab that is up, or those of a private one."
        f"  [default: {LAB_NODES}]",
    )


def at_hand(options: TestbedOptions, workload: Path) -> TestbedOptions:
    """Returns the options with this machine as the only node where a user without root
    names no nodes and no lab is up; prints a line then. Options that only a lab has keep
    the lab, whose error has the remedy. Raises CoschedError, and prints nothing, if the
    file ``workload`` is missing or has a mistake."""
    load_workload(workload)
    needs_lab = options.rate is not None or options.slurm or options.shared_cpus
    if options.hosts or needs_lab or has_lab(options.run_dir, options.node_count):
        return options
    click.echo(
        f"no lab is up and only root makes one: on this machine (--hosts {HERE})", err=True
    )
    return replace(options, hosts=(HERE,), nodes=None, cores_per_node=None)
