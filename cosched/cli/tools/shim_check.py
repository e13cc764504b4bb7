"""Checks the shim: runs an MPI program with and without it for ``cosched shim check``,
under private daemons that count its messages."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cosched.core.config.words import CARRIERS
from cosched.launch.command import Site
from cosched.launch.mpi import SearchPath
from cosched.launch.nodes import lease_node
from cosched.launch.resolved_job import Request, ResolvedJob, resolve
from cosched.launch.selfcheck import (
    PLAIN,
    RANKS,
    JobsOf,
    Outcome,
    compile_selftest,
    run_selftest,
)
from cosched.launch.target import Target
from cosched.linux.here import this_node
from cosched.node.lifetime.private_pair import start_private_pair
from cosched.node.lifetime.stop import stop_node
from cosched.node.sockets.client import find_daemon
from cosched.rundir.paths import NodePaths


def outcomes(target: Target, shim: Path) -> Iterator[Outcome]:
    """Yields the outcome of a run without the shim, then of one under each carrier."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cosched-")))
        program = compile_selftest(target.build, folder)

        def run(carrier: str, jobs_of: JobsOf) -> Outcome:
            return run_selftest(
                program,
                start,
                carrier,
                environ=os.environ,
                shim=shim,
                run_dir=folder,
                jobs_of=jobs_of,
            )

        def start(words: Sequence[str]) -> ResolvedJob:
            assert target.mpi is not None
            launcher, root = str(target.mpi.mpiexec), os.geteuid() == 0
            request = Request(tuple(words), RANKS, mpi=launcher, root=root)
            return resolve(
                request, Site(), SearchPath(Path(sys.executable).parent, os.environ)
            )

        yield run(PLAIN, tuple)
        jobs_of = stack.enter_context(_private_node(folder))
        for carrier in CARRIERS:
            yield run(carrier, jobs_of)


@contextlib.contextmanager
def _private_node(run_dir: Path) -> Iterator[JobsOf]:
    """Runs private daemons; yields a function that returns their jobs."""
    here = NodePaths(run_dir, this_node(os.environ))
    lease = lease_node(here, find_daemon, start_private_pair, uid=os.geteuid(), job="check")
    try:
        yield lambda: lease.request("status")["jobs"]
    finally:
        lease.close()
        stop_node(here)


def facts(outcome: Outcome) -> dict[str, Any]:
    """Returns the outcome's JSON fields."""
    return {
        "carrier": outcome.carrier,
        "ok": outcome.ok,
        "why": outcome.why,
        "standard": outcome.standard,
        "messages": outcome.messages,
        "counters": list(outcome.counters),
    }


def text(outcome: Outcome) -> str:
    """Describes the outcome in a line, without the carrier."""
    ranks = len(outcome.counters)
    seen = sum(each["sent"] + each["received"] for each in outcome.counters)
    if not outcome.ok:
        what = f"FAILED: {outcome.why}"
    elif not outcome.counters:
        what = f"MPI {outcome.standard}, {2 * outcome.messages} messages, all right"
    elif seen:
        what = f"{ranks} ranks registered, {seen // 2} messages seen, all right"
    else:
        what = f"{ranks} ranks registered, waits seen and no messages, all right"
    return what
