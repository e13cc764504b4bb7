"""Begins to start private daemons before most imports of ``cosched-run``.

They take longer to start than all else that a first job waits for. So their start begins
as soon as the command line shows that the job needs them: its program and an MPI are there,
all its ranks run on this node, and no daemon is up. Other jobs get them when the rest of
the plan is known. Daemons whose job has a mistake that shows later end by themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from cosched.cli.run.given import Given
from cosched.config.config_files import is_configured
from cosched.launch.given.batch_job import engine_job
from cosched.launch.given.first_word import BATCH_LAUNCHERS, is_launcher
from cosched.launch.given.wrapping_programs import split_front
from cosched.launch.program import which
from cosched.linux.here import this_node
from cosched.node.lifetime.private_pair import StartingPair, begin_private_pair
from cosched.rundir.paths import NodePaths

#: The end of each variable that names a file of hosts to a launcher.
_HOSTFILES = ("HOSTFILE", "HOST_FILE")


def begin_daemons(given: Given) -> StartingPair | None:
    """Begins to start this node's private daemons; None if the job may not need them, or
    cannot be started as it is."""
    paths = NodePaths(given.run_dir, this_node(os.environ))
    if os.path.exists(paths.control_socket):
        return None
    if not given.asked.coschedules or given.asked.wait is not None or given.hosts:
        return None
    if is_configured(os.environ) or not _stays_here(given.argv, os.environ):
        return None
    return begin_private_pair(paths)


def _stays_here(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Returns whether a program and an MPI are there, and all ranks run on this node."""
    front, rest = split_front(tuple(argv))
    if front or which(rest[0], environ) is None or not _has_mpi(environ):
        return False
    if engine_job(environ) is not None or any(
        name.upper().endswith(_HOSTFILES) for name in environ
    ):
        return False
    return not is_launcher(rest[0]) or _names_only_ranks(rest)


def _has_mpi(environ: Mapping[str, str]) -> bool:
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return any(which(name, environ) for name in ("mpiexec", beside))


def _names_only_ranks(line: Sequence[str]) -> bool:
    """Returns whether a launcher's line is ``mpiexec -n NUMBER PROGRAM ...``: other options
    may name hosts."""
    name, *words = line
    return (
        os.path.basename(name) not in BATCH_LAUNCHERS
        and len(words) > 2
        and words[0] in ("-n", "-np")
        and words[1].isdecimal()
        and not words[2].startswith("-")
        and ":" not in words
    )
