"""Writes the shell scripts that slurm.conf names as PrologSlurmctld and TaskProlog. Pure.

Most jobs have no mates. For them the scripts end at once, without starting Python.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from cosched.cluster.engines.mates import MARK
from cosched.cluster.engines.slurm import gate
from cosched.config.slurm import SlurmSettings

#: The program that keeps a job with mates until its start.
GATE = gate.__file__

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


_TASK_SCRIPT = r"""#!/bin/sh
# TaskProlog of a Slurm that cosched couples with other clusters. Made by:
#   cosched cluster task-prolog
# It gives jobs the addresses of their mates. Steps have the environment of their script,
# and a job that the script submits has it, too: hence the number of the job.
[ "$COSCHED_MATES_OF" != "$SLURM_JOB_ID" ] && [ "${SLURM_PROCID:-0}" = 0 ] || exit 0
tries=40
mates=
while [ $tries -gt 0 ]; do
    shown=$(scontrol show job "$SLURM_JOB_ID" 2> /dev/null) || break
    case "$shown" in
    *Comment=cosched:*) ;;
    *) break ;;
    esac
    mates=$(printf '%s\n' "$shown" |
        sed -n 's/^ *AdminComment=cosched: mates *\(.*[^ ]\) *$/\1/p')
    case "$shown" in
    *"AdminComment=cosched: mates"*) break ;;
    esac
    tries=$((tries - 1))
    sleep 0.05
done
echo "export COSCHED_MATES=$mates"
echo "export COSCHED_MATES_OF=$SLURM_JOB_ID"
exit 0
"""


def task_script() -> str:
    """Returns the script for TaskProlog."""
    return _TASK_SCRIPT


def front_script(python: str, socket: Path, settings: SlurmSettings) -> str:
    """Returns the script. python: the interpreter that runs the gate of a job with mates;
    socket: where the controller listens."""
    words = [
        *(python, "-I", "-S", GATE),
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
