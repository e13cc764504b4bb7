"""Writes the shell scripts that slurm.conf names as PrologSlurmctld and TaskProlog.

Most jobs have no mates. For them the scripts end at once, without starting Python. Checks
whether SlurmUser can run the gate: its Python and cosched may lie in a closed home.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from cosched.cluster.coupling.mates import MARK
from cosched.cluster.engines.slurm import prolog_gate
from cosched.config.slurm import SlurmSettings
from cosched.core.errors import CoschedError
from cosched.linux.users import find_uid

#: The program that keeps a job with mates until its start.
GATE = prolog_gate.__file__

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
        *("--longest-hold", f"{settings.longest_hold_s:g}"),
        *("--controller-lost-after", f"{settings.controller_lost_after_s:g}"),
        *("--then", settings.then),
    ]
    return _SCRIPT.format(
        mark=MARK,
        words=shlex.join(words),
        go=prolog_gate.GO,
        give_back=prolog_gate.YIELD,
        broken=0 if settings.then == "start" else 1,
    )


def uid_of(user: str) -> int:
    """Returns the number of SlurmUser. Raises CoschedError if there is no such user."""
    uid = find_uid(user)
    if uid is None:
        raise CoschedError(f"slurm.user: there is no user '{user}' here")
    return uid


def check_runs(python: str, uid: int, user: str) -> None:
    """Raises CoschedError if the user cannot execute a Python. Groups do not count."""
    closed = _closed(Path(python), uid, stat.S_IXUSR, stat.S_IXOTH)
    if closed is not None:
        raise CoschedError(
            f"{closed}: Slurm's user {user} may not enter it, so it cannot run "
            f"{os.path.basename(python)}; name another Python with --python"
        )


def check_reads(file: str, uid: int, user: str) -> None:
    """Raises CoschedError if the user cannot read a file of cosched. Groups do not
    count."""
    closed = _closed(Path(file), uid, stat.S_IRUSR, stat.S_IROTH)
    if closed is not None:
        raise CoschedError(
            f"{closed}: Slurm's user {user} may not read it, so it cannot run "
            f"{os.path.basename(file)}; install cosched where {user} can read it"
        )


def _closed(path: Path, uid: int, own: int, others: int) -> Path | None:
    """Returns the first of the file and its directories that the user cannot use; None if
    there is none. own, others: the bit that the file needs for its owner and for others."""
    for start in (path, path.resolve()):
        for each in (start, *start.parents):
            try:
                status = each.stat()
            except OSError as error:
                raise CoschedError(f"{each}: {error.strerror}") from None
            bits = (own, others) if each == start else (stat.S_IXUSR, stat.S_IXOTH)
            mine = uid in (0, status.st_uid)
            if not status.st_mode & bits[0 if mine else 1]:
                return each
    return None
