"""Writes the shell script that slurm.conf names as PrologSlurmctld. Pure.

Most jobs have no mates. For them the script ends at once, without starting Python.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from cosched.cluster.engines.mates import MARK
from cosched.cluster.engines.slurm import gate
from cosched.cluster.engines.slurm.settings import SlurmSettings

_SCRIPT = """#!/bin/sh
# PrologSlurmctld of a Slurm that cosched couples with other clusters. Made by:
#   cosched cluster gate
# Slurm runs it when a job has its nodes, and starts the job when it ends with 0.
case "$SLURM_JOB_COMMENT" in
{mark}*) ;;
*) exit 0 ;;
esac
{words}
case $? in
{go}) exit 0 ;;
{give_back}) exit 1 ;;
*) exit {broken} ;; # the program itself is broken
esac
"""


def front_script(python: str, socket: Path, settings: SlurmSettings) -> str:
    """Returns the script. python: the interpreter that runs the gate of a job with mates;
    socket: where the controller listens."""
    words = [
        *(python, "-I", "-S", gate.__file__),
        *("--socket", str(socket)),
        *("--lease", f"{settings.lease_s:g}"),
        *("--retry", f"{settings.retry_s:g}"),
        *("--then", settings.then),
    ]
    return _SCRIPT.format(
        mark=MARK,
        words=shlex.join(words),
        go=gate.GO,
        give_back=gate.YIELD,
        broken=0 if settings.then == "start" else 1,
    )
